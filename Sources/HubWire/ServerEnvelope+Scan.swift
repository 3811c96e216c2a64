import HubBase

extension ServerEnvelope {
    /// Unknown fields are ignored, an unknown type is nil: a client must not break on what a newer hub sends.
    ///
    /// A known field of the wrong kind, a missing type or bad JSON is `malformed`, with the field's name. Nesting as in `EnvelopeScanner`.
    package static func scan(_ message: UnsafeRawBufferPointer, depthMax: Int) throws(WireError) -> ServerEnvelope? {
        guard message.count < Int(UInt32.max) else { throw WireError(.tooLarge, "the message has \(message.count) bytes") }
        return try scan(message, ByteRange(offset: 0, count: message.count), isEntry: false, depthMax: depthMax)
    }

    /// One entry of an ack's `channels`, which has no type: it reads as an ack. Ranges are the whole message's.
    package static func scan(
        entry message: UnsafeRawBufferPointer, _ range: ByteRange, depthMax: Int
    ) throws(WireError) -> ServerEnvelope? {
        try scan(message, range, isEntry: true, depthMax: depthMax)
    }

    @inline(__always) private static func scan(
        _ message: UnsafeRawBufferPointer, _ range: ByteRange, isEntry: Bool, depthMax: Int
    ) throws(WireError) -> ServerEnvelope? {
        var fields = JSONFields(message, range: range, depthMax: depthMax)
        var envelope = ServerEnvelope(kind: .pong)
        var seen: UInt32 = isEntry ? 1 : 0
        var kind: Kind? = isEntry ? .ack : nil
        var bad: Field?
        do {
            while let (key, value) = try fields.step() {
                guard let name = ShortText(fields.cursor.bytes(key.range), hasEscapes: key.hasEscapes), let field = Field(name) else {
                    continue
                }
                let bit: UInt32 = 1 &<< UInt32(field.rawValue)
                guard seen & bit == 0 else { continue }
                seen |= bit
                if field == .type, value.kind == .string {
                    kind = ShortText(value.range.bytes(in: message), hasEscapes: value.hasEscapes).flatMap { Kind($0) }
                } else if !envelope.take(field, value, in: message), bad == nil {
                    bad = field
                }
            }
        } catch {
            throw error.error
        }
        if bad == .type || seen & 1 == 0 { throw WireError(.malformed, "\"type\" is missing or isn't a string") }
        guard let kind else { return nil }
        if let bad { throw WireError(.malformed, "\"\(bad)\" isn't of the right kind") }
        envelope.kind = kind
        return envelope
    }

    /// The fields that a client reads. `type` comes first: its bit is 1.
    private enum Field: UInt8 {
        case type, id, channel, user, device, messageId, payload, position, offset, time, code, message, event, reason, connection, node
        case version, retryAfter, returnAfter, ping, changes, users, channels, duplicate, recovered, retry, stale
        case publications, reads, more

        init?(_ key: ShortText) {
            switch key {
            case ShortText("type"): self = .type
            case ShortText("id"): self = .id
            case ShortText("channel"): self = .channel
            case ShortText("offset"): self = .offset
            case ShortText("position"): self = .position
            case ShortText("user"): self = .user
            case ShortText("device"): self = .device
            case ShortText("time"): self = .time
            case ShortText("messageId"): self = .messageId
            case ShortText("payload"): self = .payload
            case ShortText("code"): self = .code
            case ShortText("message"): self = .message
            case ShortText("event"): self = .event
            case ShortText("reason"): self = .reason
            case ShortText("connection"): self = .connection
            case ShortText("node"): self = .node
            case ShortText("version"): self = .version
            case ShortText("retryAfter"): self = .retryAfter
            case ShortText("returnAfter"): self = .returnAfter
            case ShortText("ping"): self = .ping
            case ShortText("changes"): self = .changes
            case ShortText("users"): self = .users
            case ShortText("channels"): self = .channels
            case ShortText("duplicate"): self = .duplicate
            case ShortText("recovered"): self = .recovered
            case ShortText("retry"): self = .retry
            case ShortText("stale"): self = .stale
            case ShortText("publications"): self = .publications
            case ShortText("reads"): self = .reads
            case ShortText("more"): self = .more
            default: return nil
            }
        }
    }

    /// False when the value isn't of the field's kind.
    private mutating func take(_ field: Field, _ value: JSONValue, in text: UnsafeRawBufferPointer) -> Bool {
        switch field {
        case .type: return false
        case .id: id = value.kind == .number ? JSONText.unsigned(value.range.bytes(in: text)) : nil
        case .payload: payload = value.token
        case .channel: return Self.text(value, &channel, &escapes)
        case .user: return Self.text(value, &user, &escapes)
        case .device: return Self.text(value, &device, &escapes)
        case .messageId: return Self.text(value, &messageId, &escapes)
        case .position: return Self.text(value, &position, &escapes)
        case .code: return Self.text(value, &code, &escapes)
        case .message: return Self.text(value, &message, &escapes)
        case .event: return Self.text(value, &event, &escapes)
        case .reason: return Self.text(value, &reason, &escapes)
        case .connection: return Self.text(value, &connection, &escapes)
        case .node: return Self.text(value, &node, &escapes)
        case .offset: return Self.number(value, &offset, in: text)
        case .time: return Self.number(value, &time, in: text)
        case .version: return Self.number(value, &version, in: text)
        case .retryAfter: return Self.number(value, &retryAfter, in: text)
        case .returnAfter: return Self.number(value, &returnAfter, in: text)
        case .ping: return Self.number(value, &ping, in: text)
        case .changes:
            changes = value.range
            return value.kind == .array
        case .users:
            users = value.range
            return value.kind == .array
        case .channels:
            channels = value.range
            return value.kind == .array || value.kind == .object
        case .publications:
            publications = value.range
            return value.kind == .array
        case .reads:
            reads = value.range
            return value.kind == .array
        case .more: return Self.flag(value, &more, in: text)
        case .duplicate: return Self.flag(value, &duplicate, in: text)
        case .retry: return Self.flag(value, &retry, in: text)
        case .stale: return Self.flag(value, &stale, in: text)
        case .recovered:
            var isTrue = false
            guard Self.flag(value, &isTrue, in: text) else { return false }
            recovered = isTrue
        }
        return true
    }

    @inline(__always) private static func text(_ value: JSONValue, _ field: inout ByteRange, _ escapes: inout Bool) -> Bool {
        field = value.range
        if value.hasEscapes { escapes = true }
        return value.kind == .string
    }

    @inline(__always) private static func number(_ value: JSONValue, _ field: inout UInt64?, in text: UnsafeRawBufferPointer) -> Bool {
        field = value.kind == .number ? JSONText.unsigned(value.range.bytes(in: text)) : nil
        return field != nil
    }

    @inline(__always) private static func flag(_ value: JSONValue, _ field: inout Bool, in text: UnsafeRawBufferPointer) -> Bool {
        field = value.range.bytes(in: text).first == UInt8(ascii: "t")
        return value.kind == .bool
    }
}

extension ServerEnvelope.Kind {
    init?(_ name: ShortText) {
        switch name {
        case ShortText("ack"): self = .ack
        case ShortText("chat"): self = .chat
        case ShortText("event"): self = .event
        case ShortText("typing"): self = .typing
        case ShortText("read"): self = .read
        case ShortText("presence"): self = .presence
        case ShortText("error"): self = .error
        case ShortText("pong"): self = .pong
        case ShortText("system"): self = .system
        case ShortText("members"): self = .members
        default: return nil
        }
    }
}
