import HubBase

/// `GET /v1/presence/{user}?explain=1` for people: the sentence, the connections, the transitions, newest last.
package enum ExplanationText {
    private typealias Cell = (text: String, colour: Terminal.Colour?)

    /// nil when `body` isn't such an answer.
    package static func lines(_ body: [UInt8], on terminal: Terminal) -> [String]? {
        guard let answer = JSONObject(body), let user = answer.text("user"), let because = answer.text("because"),
            let now = answer.number("now"),
            let connections = answer.objects("connections"), let transitions = answer.objects("transitions")
        else { return nil }
        let status = answer.text("status") ?? ""
        var sentence = Terminal.safe(because)
        if sentence.hasPrefix(status) { sentence = terminal.paint(status, PresenceText.colour(status)) + sentence.dropFirst(status.count) }
        var lines = ["\(Terminal.safe(user)) is \(sentence)."]
        if answer.isTrue("stale") {
            lines.append(terminal.paint(PresenceText.stale, .yellow))
        }
        lines +=
            connections.isEmpty
            ? ["", "no connection"] : ["", "connections"] + terminal.table(connectionTitles, connections.map { row($0, now) })
        guard !transitions.isEmpty else { return lines + ["", "no transition is kept"] }
        lines += ["", transitions.count == 1 ? "the last transition" : "the last \(transitions.count) transitions"]
        return lines + terminal.table(transitionTitles, transitions.map(transition))
    }

    private static let connectionTitles = ["device", "node", "state", "address", "age", "last heard", "lease left", "connection"]
    private static let transitionTitles = ["time (UTC)", "status", "cause", "device", "node", "version", "connection"]

    private static func row(_ connection: JSONObject, _ now: UInt64) -> [Cell] {
        let state = connection["state"]?.shown ?? "?"
        let since = connection.number("since") ?? now
        let left = connection.number("leaseLeft") ?? 0
        let heard: String
        switch connection.text("answer") {
        case "here": heard = connection.number("heardAgo").map { SpokenTime.text(milliseconds: $0) + " ago" } ?? "?"
        case "gone": heard = "not on its node"
        case "nodeGone": heard = "node is gone"
        case "notAsked": heard = "not asked"
        default: heard = "node doesn't answer"
        }
        let isHere = connection.text("answer") == "here"
        return [
            (connection["device"]?.shown ?? "", nil), (connection["node"]?.shown ?? "?", nil), (state, PresenceText.colour(state)),
            (connection["address"]?.shown ?? "-", nil), (SpokenTime.text(milliseconds: now > since ? now - since : 0), nil),
            (heard, isHere ? nil : .yellow), (left == 0 ? "ran out" : SpokenTime.text(milliseconds: left), left == 0 ? .yellow : nil),
            (connection["connection"]?.shown ?? "", .grey),
        ]
    }

    private static func transition(_ transition: JSONObject) -> [Cell] {
        let status = transition["status"]?.shown ?? "?"
        var cause = words(transition.text("cause") ?? "?")
        if let sweeper = transition["sweptBy"]?.shown { cause += ", swept by \(sweeper)" }
        return [
            (clock(transition.number("time") ?? 0), nil), (status, PresenceText.colour(status)), (cause, nil),
            (transition["device"]?.shown ?? "", nil), (transition["node"]?.shown ?? "", nil), (transition["version"]?.shown ?? "", .grey),
            (transition["connection"]?.shown ?? "", .grey),
        ]
    }

    /// A newer hub's causes show as they are.
    private static func words(_ cause: String) -> String {
        switch cause {
        case "setOnline": "set online"
        case "setAway": "set away"
        case "setInvisible": "set invisible"
        case "idle": "away by idleness"
        case "active": "active again"
        case "heartbeat": "heartbeat: lease renewed"
        case "restored": "restored: the record was lost"
        case "left": "clean leave"
        case "expired": "lease ran out"
        case "nodeDead": "node dead"
        default: Terminal.safe(cause)
        }
    }

    /// "11-30 12:03:04.123", from milliseconds since 1970.
    static func clock(_ milliseconds: UInt64) -> String {
        func padded(_ value: UInt64, _ width: Int) -> String {
            let digits = String(value)
            return String(repeating: "0", count: max(0, width - digits.count)) + digits
        }
        let seconds = milliseconds / 1_000
        // Days since the first of March of the year 0, in eras of 400 years, years and days of those that begin in March.
        let days = seconds / 86_400 + 719_468
        let dayOfEra = days % 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let month = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * month + 2) / 5 + 1
        let time = [seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60].map { padded($0, 2) }.joined(separator: ":")
        return "\(padded(month < 10 ? month + 3 : month - 9, 2))-\(padded(day, 2)) \(time).\(padded(milliseconds % 1_000, 3))"
    }
}
