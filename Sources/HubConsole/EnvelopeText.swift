import HubBase

/// An envelope from the hub as one line for people; `clock` is the local time that stands in front.
package enum EnvelopeText {
    /// `chat`, `event`, `typing`, `read`.
    package static func publication(_ message: [UInt8], clock: String, on terminal: Terminal) -> String? {
        guard let envelope = JSONObject(message), let type = envelope.text("type"), let channel = envelope.text("channel") else {
            return nil
        }
        var line = terminal.paint(clock, .grey) + " " + Terminal.safe(channel)
        if let offset = envelope.number("offset") { line += terminal.paint(" #\(offset)", .grey) }
        if type != "chat" { line += " [\(Terminal.safe(type))]" }
        let user = envelope.text("user").map(Terminal.safe) ?? ""
        return line + " " + (user.isEmpty ? "(backend)" : user) + ": " + payload(envelope["payload"])
    }

    /// `{"text":"…"}` is its text, all else the JSON as it came.
    private static func payload(_ payload: JSONObject.Value?) -> String {
        guard let payload else { return "" }
        if payload.kind == .object, let object = JSONObject(payload.raw), object.fields.count == 1, let text = object.text("text") {
            return Terminal.safe(text)
        }
        let raw = String(decoding: payload.raw, as: UTF8.self)
        return Terminal.safe(payload.kind == .string ? "\"\(raw)\"" : raw)
    }

    /// What the hub says of itself: `degraded`, `restored`, `drain`, `resync`, `unsubscribed`, `dropped` …
    package static func system(_ message: [UInt8]) -> String? {
        guard let envelope = JSONObject(message), let event = envelope.text("event") else { return nil }
        let rest = envelope.fields.filter { $0.key != "type" && $0.key != "event" }.map { "\(Terminal.safe($0.key)) \($0.value.shown)" }
        return Terminal.safe(event) + (rest.isEmpty ? "" : ": " + rest.joined(separator: ", "))
    }
}
