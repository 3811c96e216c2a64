import HubBase
import HubCore
import HubWire

/// One publication of `POST /v1/publish`: `{"channel","class","messageId","user","payload","age","since"}`, the payload taken as it stands.
struct PublishBody {
    var channel = Name.empty
    var messageClass = MessageClass.chat
    var messageId: Name?
    var user = Name.empty
    var payload: [UInt8] = []
    var attempt: PublishAttempt?

    /// What a request brings: one, or several, each of which may be wrong on its own.
    enum Batch {
        case one(PublishBody)
        case many([Result<PublishBody, WireError>])
    }

    /// `key` is the request's `Idempotency-Key`: the message id of a publication that has none; of several with their number behind it.
    static func read(_ body: UnsafeRawBufferPointer, key: Name?, limits: Configuration.Limits) throws(WireError) -> Batch {
        var list: ByteRange?
        // As deep as can be read: how deep each publication nests is its own matter, and one that's too deep doesn't refuse the others.
        try BodyFields.each(body, limits: limits, depth: .max) { (name, value) throws(WireError) in
            guard name == "messages" else { return }
            guard value.kind == .array else { throw WireError(.malformed, "messages must be an array of publications") }
            list = value.range
        }
        guard let list else {
            var one = try PublishBody(body, limits: limits)
            if let key {
                guard one.messageId ?? key == key else {
                    throw WireError(.malformed, "Idempotency-Key and messageId are different: send one of them")
                }
                one.messageId = key
            }
            return .one(one)
        }
        var bodies: [Result<PublishBody, WireError>] = []
        var elements = JSONElements(body, range: list, depthMax: .max)
        while let element = try elements.next() {
            guard bodies.count < Configuration.Limits.publishBatch else {
                throw WireError(.tooMany, "more than \(Configuration.Limits.publishBatch) publications in one request")
            }
            bodies.append(publication(element, body, number: bodies.count, key: key, limits: limits))
        }
        guard !bodies.isEmpty else { throw WireError(.malformed, "messages is empty") }
        // Rather none than the first ten of twelve.
        for (number, body) in bodies.enumerated() {
            if case .failure(let error) = body, error == keyTooLong(number, limits) { throw error }
        }
        return .many(bodies)
    }

    private static func keyTooLong(_ number: Int, _ limits: Configuration.Limits) -> WireError {
        WireError(.badName, "Idempotency-Key and \":\(number)\" must be \(limits.messageIdBytes) bytes at most together")
    }

    private static func publication(
        _ element: JSONValue, _ body: UnsafeRawBufferPointer, number: Int, key: Name?, limits: Configuration.Limits
    ) -> Result<PublishBody, WireError> {
        guard element.kind == .object else { return .failure(WireError(.malformed, "messages[\(number)] must be an object")) }
        do throws(WireError) {
            var one = try PublishBody(element.range.bytes(in: body), limits: limits)
            if let key, one.messageId == nil {
                guard let derived = Name(validating: key.bytes + Array(":\(number)".utf8), limit: limits.messageIdBytes) else {
                    throw keyTooLong(number, limits)
                }
                one.messageId = derived
            }
            return .success(one)
        } catch {
            return .failure(error)
        }
    }

    private init(_ body: UnsafeRawBufferPointer, limits: Configuration.Limits) throws(WireError) {
        var hasPayload = false
        var age: UInt64?
        var since: Position?
        try BodyFields.each(body, limits: limits) { (key, value) throws(WireError) in
            switch key {
            case "channel": channel = try BodyFields.name(value, body, key, limit: Name.lengthMax)
            case "user": user = try BodyFields.name(value, body, key, limit: Name.lengthMax)
            case "messageId": messageId = try BodyFields.name(value, body, key, limit: limits.messageIdBytes)
            case "age":
                guard value.kind == .number, let number = JSONText.unsigned(value.range.bytes(in: body)) else {
                    throw WireError(.malformed, "age must be milliseconds (an integer from 0 to 2^53 - 1)")
                }
                age = number
            case "since":
                guard value.kind == .string, let position = Position(text: value.range.bytes(in: body)) else {
                    throw WireError(.badPosition, "since must be a position that this hub gave out")
                }
                since = position
            case "class":
                switch try? BodyFields.name(value, body, key, limit: Name.lengthMax) {
                case Name("chat"): messageClass = .chat
                case Name("event"): messageClass = .event
                default: throw WireError(.malformed, "class must be \"chat\" or \"event\"")
                }
            case "payload":
                payload = [UInt8](value.wholeToken(in: body))
                hasPayload = true
            default: break
            }
        }
        guard !channel.isEmpty else { throw WireError(.malformed, "channel is missing") }
        guard hasPayload else { throw WireError(.malformed, "payload is missing") }
        guard payload.count <= limits.messageBytes else {
            throw WireError(.tooLarge, "payload has \(payload.count) bytes, the limit is \(limits.messageBytes) (limits.messageBytes)")
        }
        if let age { attempt = PublishAttempt(age: .milliseconds(age), since: since) }
    }
}
