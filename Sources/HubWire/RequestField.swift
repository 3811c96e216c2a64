/// The fields of a client's envelope that the hub reads, and what each must be. Any other field is ignored.
package enum RequestField: UInt8, CaseIterable {
    case type, id, channel, channels, messageId, device, token, position, cursor, payload, users, since, before, limit, members, reverse
    case sinceTime, beforeTime, age

    init?(_ key: ShortText) {
        switch key {
        case ShortText("type"): self = .type
        case ShortText("payload"): self = .payload
        case ShortText("channel"): self = .channel
        case ShortText("id"): self = .id
        case ShortText("messageId"): self = .messageId
        case ShortText("channels"): self = .channels
        case ShortText("device"): self = .device
        case ShortText("token"): self = .token
        case ShortText("position"): self = .position
        case ShortText("cursor"): self = .cursor
        case ShortText("users"): self = .users
        case ShortText("since"): self = .since
        case ShortText("before"): self = .before
        case ShortText("limit"): self = .limit
        case ShortText("members"): self = .members
        case ShortText("reverse"): self = .reverse
        case ShortText("age"): self = .age
        case ShortText("sinceTime"): self = .sinceTime
        case ShortText("beforeTime"): self = .beforeTime
        default: return nil
        }
    }

    /// By its number in the short form; nil for one that isn't the hub's to read, or that isn't given out yet.
    @inline(__always) package init?(number: UInt64) {
        guard let number = UInt8(exactly: number), let field = WireField(rawValue: number) else { return nil }
        switch field {
        case .type: self = .type
        case .payload: self = .payload
        case .channel: self = .channel
        case .id: self = .id
        case .messageId: self = .messageId
        case .channels: self = .channels
        case .device: self = .device
        case .token: self = .token
        case .position: self = .position
        case .cursor: self = .cursor
        case .users: self = .users
        case .since: self = .since
        case .before: self = .before
        case .limit: self = .limit
        case .members: self = .members
        case .reverse: self = .reverse
        case .age: self = .age
        case .sinceTime: self = .sinceTime
        case .beforeTime: self = .beforeTime
        default: return nil
        }
    }

    /// `null` isn't an absent field: it's refused like any other wrong kind. `id` is judged further.
    @inline(__always) func accepts(_ kind: WireKind) -> Bool {
        switch self {
        case .payload: true
        case .type, .channel, .messageId, .device, .token, .position, .cursor: kind == .string
        case .id, .since, .before: kind == .string || kind == .number
        case .limit, .sinceTime, .beforeTime, .age: kind == .number
        case .channels, .users: kind == .array
        case .members, .reverse: kind == .bool
        }
    }

    /// The sentence for a field that isn't what it must be.
    var fault: WireError {
        let wanted =
            switch self {
            case .payload: "any value"
            case .type, .channel, .messageId, .device, .token, .position, .cursor: "a string"
            case .id: "an integer from 0 to 2^53 - 1 or a string of at most \(EnvelopeScanner.idLengthMax) bytes"
            case .since, .before: "a position (a string) or an offset (an integer from 0 to 2^53 - 1)"
            case .sinceTime, .beforeTime: "milliseconds since 1970 (an integer from 0 to 2^53 - 1)"
            case .age: "milliseconds (an integer from 0 to 2^53 - 1)"
            case .limit: "an integer from 0 to 2^53 - 1"
            case .channels, .users: "an array"
            case .members, .reverse: "true or false"
            }
        return WireError(.malformed, "\"\(self)\" must be \(wanted)")
    }
}
