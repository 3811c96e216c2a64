import HubBase

/// `GET /v1/presence/{user}` for people.
package enum PresenceText {
    /// An answer doesn't say which of the reasons it is: the store away; full, so that those who come aren't registered; back, and not all is
    /// written again yet; or behind what the node's watchers were told.
    static let stale =
        "stale: the hub's store is away, full, or behind what was told, or was so until lately; this is the best that is known"

    /// nil when `body` isn't such an answer. The version is for programs (`--json`): people have no use for it. `now`: milliseconds since 1970.
    package static func lines(_ body: [UInt8], now: UInt64, on terminal: Terminal) -> [String]? {
        guard let answer = JSONObject(body), let user = answer.text("user"), let status = answer.text("status") else { return nil }
        let connections = answer.objects("connections") ?? []
        var line = headline(user, status, answer, now: now, on: terminal, devices: devices(connections))
        if let grace = answer.number("graceLeft") { line += ", gone in \(SpokenTime.text(milliseconds: grace)) unless it comes back" }
        if answer.isTrue("stale") { line += terminal.paint(" (\(stale))", .yellow) }
        guard !connections.isEmpty else { return [line] }
        let rows = connections.map { connection in
            let state = connection["state"]?.shown ?? "?"
            let left = connection.number("leaseLeft").map { SpokenTime.text(milliseconds: $0) } ?? "?"
            return [
                (text: connection["device"]?.shown ?? "", colour: Terminal.Colour?.none),
                (text: connection["node"]?.shown ?? "?", colour: nil),
                (text: state, colour: colour(state)),
                (text: left, colour: nil),
                (text: connection["connection"]?.shown ?? "", colour: .grey),
            ]
        }
        return [line] + terminal.table(["device", "node", "state", "lease left", "connection"], rows)
    }

    /// One change of a watched user: an element of `changes` or of a watch ack's `users`.
    package static func change(_ change: JSONObject, now: UInt64, on terminal: Terminal) -> String? {
        guard let user = change.text("user"), let status = change.text("status") else { return nil }
        return headline(user, status, change, now: now, on: terminal, devices: nil)
    }

    private static func headline(
        _ user: String, _ status: String, _ answer: JSONObject, now: UInt64, on terminal: Terminal, devices: Int?
    ) -> String {
        let name = Terminal.safe(user)
        let word = terminal.paint(Terminal.safe(status), colour(status))
        let version = answer.number("version") ?? 0
        let lastSeen = answer.number("lastSeen") ?? 0
        if status == "offline", version == 0 { return "\(name) is \(word) and was never seen" }
        var line = "\(name) is \(word)"
        if let devices, devices > 0 { line += " (\(devices) device\(devices == 1 ? "" : "s"))" }
        guard lastSeen > 0 else { return line }
        // The two clocks are different machines': a little ahead is now.
        let ago = SpokenTime.text(milliseconds: now > lastSeen ? now - lastSeen : 0)
        return line + (status == "offline" ? ", last seen \(ago) ago" : ", for \(ago)")
    }

    private static func devices(_ connections: [JSONObject]) -> Int {
        Set(connections.map { $0.text("device") ?? $0.text("connection") ?? "" }).count
    }

    static func colour(_ status: String) -> Terminal.Colour? {
        switch status {
        case "online": .green
        case "away": .yellow
        case "offline", "invisible": .grey
        default: nil
        }
    }
}
