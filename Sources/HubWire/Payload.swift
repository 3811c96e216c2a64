import HubBase

/// The few payloads that the hub itself reads.
///
/// Each is one field of an object; what else the object holds is the application's. nil for anything else.
package enum Payload {
    package enum Status: UInt8, Sendable, CaseIterable { case online, away, invisible }

    /// `{"isTyping": bool}`
    package static func isTyping(_ payload: UnsafeRawBufferPointer) -> Bool? {
        guard let value = field("isTyping", of: payload), value.kind == .bool else { return nil }
        return value.range.bytes(in: payload).first == UInt8(ascii: "t")
    }

    /// `{"offset": n}`
    package static func readOffset(_ payload: UnsafeRawBufferPointer) -> UInt64? {
        guard let value = field("offset", of: payload), value.kind == .number else { return nil }
        return JSONText.unsigned(value.range.bytes(in: payload))
    }

    /// `{"status": "online"|"away"|"invisible"}`
    package static func status(_ payload: UnsafeRawBufferPointer) -> Status? {
        guard let value = field("status", of: payload), value.kind == .string else { return nil }
        switch ShortText(value.range.bytes(in: payload), hasEscapes: value.hasEscapes) {
        case ShortText("online"): return .online
        case ShortText("away"): return .away
        case ShortText("invisible"): return .invisible
        default: return nil
        }
    }

    /// The first field of that name, when the whole payload is an object.
    private static func field(_ name: StaticString, of payload: UnsafeRawBufferPointer) -> JSONValue? {
        guard payload.count < Int(UInt32.max) else { return nil }
        var fields = JSONFields(payload, range: ByteRange(offset: 0, count: payload.count), depthMax: JSONCursor.depthLimit)
        var found: JSONValue?
        do {
            while let (key, value) = try fields.step() {
                if found == nil, JSONText.isEqual(key.range.bytes(in: payload), hasEscapes: key.hasEscapes, to: name) { found = value }
            }
        } catch {
            return nil
        }
        return found
    }
}
