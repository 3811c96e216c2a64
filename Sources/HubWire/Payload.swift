import HubBase

/// The few payloads that the hub itself reads, in either format.
///
/// Each is one field of an object; what else the object holds is the application's. nil for anything else.
package enum Payload {
    package enum Status: UInt8, Sendable, CaseIterable { case online, away, invisible }

    /// `{"isTyping": bool}`
    package static func isTyping(_ payload: UnsafeRawBufferPointer, format: PayloadFormat = .json) -> Bool? {
        guard let value = field("isTyping", of: payload, format), value.kind == .bool else { return nil }
        return value.isTrue(in: payload)
    }

    /// `{"offset": n}`
    package static func readOffset(_ payload: UnsafeRawBufferPointer, format: PayloadFormat = .json) -> UInt64? {
        field("offset", of: payload, format)?.unsigned(in: payload)
    }

    /// `{"status": "online"|"away"|"invisible"}`
    package static func status(_ payload: UnsafeRawBufferPointer, format: PayloadFormat = .json) -> Status? {
        guard let value = field("status", of: payload, format), value.kind == .string else { return nil }
        switch ShortText(value.range.bytes(in: payload), hasEscapes: value.hasEscapes) {
        case ShortText("online"): return .online
        case ShortText("away"): return .away
        case ShortText("invisible"): return .invisible
        default: return nil
        }
    }

    /// The first field of that name, when the whole payload is an object.
    private static func field(_ name: StaticString, of payload: UnsafeRawBufferPointer, _ format: PayloadFormat) -> WireValue? {
        guard payload.count < Int(UInt32.max) else { return nil }
        let whole = ByteRange(offset: 0, count: payload.count)
        switch format {
        case .json: return field(name, of: payload, JSONFields(payload, range: whole, depthMax: JSONCursor.depthLimit))
        case .messagePack: return field(name, of: payload, MessagePackFields(payload, range: whole, depthMax: JSONCursor.depthLimit))
        }
    }

    private static func field(_ name: StaticString, of payload: UnsafeRawBufferPointer, _ walk: JSONFields) -> WireValue? {
        var fields = walk
        var found: WireValue?
        do {
            while let (key, value) = try fields.step() {
                if found == nil, JSONText.isEqual(key.range.bytes(in: payload), hasEscapes: key.hasEscapes, to: name) {
                    found = WireValue(value)
                }
            }
        } catch {
            return nil
        }
        return found
    }

    private static func field(_ name: StaticString, of payload: UnsafeRawBufferPointer, _ walk: MessagePackFields) -> WireValue? {
        var fields = walk
        var found: WireValue?
        do {
            while let (key, value) = try fields.step() {
                if found == nil, JSONText.isEqual(key.range.bytes(in: payload), hasEscapes: false, to: name) { found = WireValue(value) }
            }
        } catch {
            return nil
        }
        return found
    }
}
