import HubBase

/// Reads one client envelope in place: one pass, no copy, no allocation.
///
/// Why it is our own: docs/decisions/0010-envelope-scanner.md; for MessagePack: 0085-messagepack-codec.md.
package enum EnvelopeScanner {
    package enum Outcome: Sendable {
        case request(Request)
        /// `id` is the request's id when it could still be found, so that the refusal reaches the one who asked.
        case refused(WireError, id: ByteRange)
    }

    /// The longest `id` that is a string, in bytes as it's written between the quotes.
    package static let idLengthMax = 64

    /// As JSON, `message` must already be valid UTF-8 (the frame decoder checked it). Unknown fields are ignored, of a repeated field the first
    /// counts, an unknown `type` is `unknownType`, nesting deeper than `depthMax` is `tooDeep`, all else that isn't the envelope's
    /// shape is `malformed` with the field's name. Cost: linear in the bytes.
    ///
    /// The envelope itself is level 1 of the nesting; more than 64 levels are never taken. When several things are wrong, bad JSON (or
    /// MessagePack) is said before a bad `id`, that before a bad or unknown `type`, that before the first of the other fields.
    package static func scan(_ message: UnsafeRawBufferPointer, format: WireFormat = .json, depthMax: Int) -> Outcome {
        guard message.count < Int(UInt32.max) else {
            return .refused(WireError(.tooLarge, "the message has \(message.count) bytes"), id: .absent)
        }
        let whole = ByteRange(offset: 0, count: message.count)
        switch format {
        case .json: return scanJSON(message, whole, depthMax)
        case .messagePack: return scanMessagePack(message, whole, depthMax)
        case .short: return scanShort(message, whole, depthMax)
        }
    }

    // The first two loops differ in their types alone. One generic loop was a quarter slower: its errors' type is known too late.

    private static func scanJSON(_ message: UnsafeRawBufferPointer, _ whole: ByteRange, _ depthMax: Int) -> Outcome {
        var draft = RequestDraft(.json)
        var fields = JSONFields(message, range: whole, depthMax: depthMax)
        do {
            while let (key, value) = try fields.step() {
                guard let name = ShortText(fields.cursor.bytes(key.range), hasEscapes: key.hasEscapes),
                    let field = RequestField(name)
                else { continue }
                draft.take(field, value, in: message)
            }
        } catch {
            return .refused(error.error, id: draft.request.id)
        }
        return draft.outcome(in: message)
    }

    private static func scanMessagePack(_ message: UnsafeRawBufferPointer, _ whole: ByteRange, _ depthMax: Int) -> Outcome {
        var draft = RequestDraft(.messagePack)
        var fields = MessagePackFields(message, range: whole, depthMax: depthMax)
        do {
            while let (key, value) = try fields.step() {
                guard let name = ShortText(fields.cursor.bytes(key.range), hasEscapes: false), let field = RequestField(name)
                else { continue }
                draft.take(field, value, in: message)
            }
        } catch {
            return .refused(error.error, id: draft.request.id)
        }
        return draft.outcome(in: message)
    }

    /// Numbers stand for names in all of the envelope, but not in what is the application's.
    private static func scanShort(_ message: UnsafeRawBufferPointer, _ whole: ByteRange, _ depthMax: Int) -> Outcome {
        var draft = RequestDraft(.short)
        var fields = MessagePackFields(message, range: whole, depthMax: depthMax, isShort: true)
        do {
            while let key = try fields.key() {
                let field = RequestField(key)
                let value = try fields.value(isShort: field != .payload)
                if let field { draft.take(field, value, in: message) }
            }
        } catch {
            return .refused(error.error, id: draft.request.id)
        }
        return draft.outcome(in: message)
    }
}

extension RequestField {
    @inline(__always) fileprivate init?(_ key: MessagePackFields.Key) {
        switch key {
        case .number(let number): self.init(number: number)
        case .text(let text):
            guard let name = ShortText(text, hasEscapes: false) else { return nil }
            self.init(name)
        }
    }
}

/// What a scan has found so far. A wrong field doesn't end the scan, so that an `id` behind it is still found.
private struct RequestDraft {
    var request: Request
    private var seen: UInt32 = 0
    private var hasType = false
    private var unknownType: ByteRange = .absent
    /// The short form's alone.
    private var unknownWord: UInt64?
    private var isIdBad = false
    private var isTypeBad = false
    private var firstBad: RequestField?

    init(_ format: WireFormat) { request = Request(type: .ping, format: format) }

    @inline(__always) mutating func take<Value: ScannedValue>(_ field: RequestField, _ value: Value, in message: UnsafeRawBufferPointer) {
        let bit: UInt32 = 1 &<< UInt32(field.rawValue)
        guard seen & bit == 0 else { return }
        seen |= bit
        guard field.accepts(value.kind) else {
            takeWord(field, value, in: message)
            return
        }
        switch field {
        case .type: takeType(value, in: message)
        case .id: takeId(value, in: message)
        case .channel: request.channel = value.range
        case .channels: request.channels = value.range
        case .messageId: request.messageId = value.range
        case .device: request.device = value.range
        case .token: request.token = value.range
        case .position: request.position = value.range
        case .cursor: request.cursor = value.range
        case .payload: request.payload = value.token
        case .users: request.users = value.range
        case .since:
            takeNumber(.since, value, in: message)
            request.since = value.token
        case .before:
            takeNumber(.before, value, in: message)
            request.before = value.token
        case .limit:
            takeNumber(.limit, value, in: message)
            request.limit = value.range
        case .sinceTime:
            takeNumber(.sinceTime, value, in: message)
            request.sinceTime = value.range
        case .beforeTime:
            takeNumber(.beforeTime, value, in: message)
            request.beforeTime = value.range
        case .age:
            takeNumber(.age, value, in: message)
            request.age = value.range
        case .members: request.members = value.isTrue(in: message)
        case .reverse: request.reverse = value.isTrue(in: message)
        }
        if value.hasEscapes && field != .type && field != .id && field != .payload { request.escapes = true }
    }

    /// In the short form the type may be a number; any other field here is of the wrong kind.
    private mutating func takeWord<Value: ScannedValue>(_ field: RequestField, _ value: Value, in message: UnsafeRawBufferPointer) {
        guard field == .type, request.format == .short, let number = value.unsigned(in: message) else { return refuse(field) }
        if let type = UInt8(exactly: number).flatMap({ WireWord(rawValue: $0) }).flatMap({ RequestType($0) }) {
            request.type = type
            hasType = true
        } else {
            unknownWord = number
        }
    }

    private mutating func refuse(_ field: RequestField) {
        switch field {
        case .id: isIdBad = true
        case .type: isTypeBad = true
        default: if firstBad == nil { firstBad = field }
        }
    }

    @inline(__always) private mutating func takeType<Value: ScannedValue>(_ value: Value, in message: UnsafeRawBufferPointer) {
        if let name = ShortText(value.range.bytes(in: message), hasEscapes: value.hasEscapes), let type = RequestType(name) {
            request.type = type
            hasType = true
        } else {
            unknownType = value.range
        }
    }

    private mutating func takeId<Value: ScannedValue>(_ value: Value, in message: UnsafeRawBufferPointer) {
        let isGood =
            value.kind == .string
            ? Int(value.range.count) <= EnvelopeScanner.idLengthMax : value.unsigned(in: message) != nil
        if isGood {
            request.id = value.token
        } else {
            isIdBad = true
        }
    }

    private mutating func takeNumber<Value: ScannedValue>(_ field: RequestField, _ value: Value, in message: UnsafeRawBufferPointer) {
        if value.kind == .number, value.unsigned(in: message) == nil { refuse(field) }
    }

    func outcome(in message: UnsafeRawBufferPointer) -> EnvelopeScanner.Outcome {
        if hasType && firstBad == nil && !isIdBad { return .request(request) }
        let error: WireError
        if isIdBad {
            error = RequestField.id.fault
        } else if isTypeBad {
            error = RequestField.type.fault
        } else if unknownType.isPresent {
            error = WireError(.unknownType, "unknown type \"\(excerpt(unknownType.bytes(in: message)))\"")
        } else if let unknownWord {
            error = WireError(.unknownType, "unknown type \(unknownWord)")
        } else if !hasType {
            error = WireError(.malformed, "\"type\" is missing")
        } else {
            error = (firstBad ?? .payload).fault
        }
        return .refused(error, id: request.id)
    }

    /// At most 40 bytes of what the peer sent, whole characters.
    private func excerpt(_ bytes: UnsafeRawBufferPointer) -> String {
        let limit = 40
        guard bytes.count > limit else { return String(decoding: bytes, as: UTF8.self) }
        var length = limit
        while length > 0, bytes[length] & 0xC0 == 0x80 { length -= 1 }
        return String(decoding: bytes.prefix(length), as: UTF8.self) + "…"
    }
}

extension RequestType {
    @inline(__always) init?(_ name: ShortText) {
        switch name {
        case ShortText("chat"): self = .chat
        case ShortText("typing"): self = .typing
        case ShortText("ping"): self = .ping
        case ShortText("read"): self = .read
        case ShortText("event"): self = .event
        case ShortText("subscribe"): self = .subscribe
        case ShortText("unsubscribe"): self = .unsubscribe
        case ShortText("connect"): self = .connect
        case ShortText("presence"): self = .presence
        case ShortText("watch"): self = .watch
        case ShortText("unwatch"): self = .unwatch
        case ShortText("members"): self = .members
        case ShortText("history"): self = .history
        case ShortText("leave"): self = .leave
        default: return nil
        }
    }
}

extension RequestType {
    /// As the short form has it.
    init?(_ word: WireWord) {
        switch word {
        case .chat: self = .chat
        case .typing: self = .typing
        case .ping: self = .ping
        case .read: self = .read
        case .event: self = .event
        case .subscribe: self = .subscribe
        case .unsubscribe: self = .unsubscribe
        case .connect: self = .connect
        case .presence: self = .presence
        case .watch: self = .watch
        case .unwatch: self = .unwatch
        case .members: self = .members
        case .history: self = .history
        case .leave: self = .leave
        default: return nil
        }
    }
}
