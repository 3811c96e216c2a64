import HubBase
import HubWire

extension ClientMachine {
    /// What a message from the hub is to this client. Ranges in an envelope belong to the message that was passed in.
    package enum Received: Sendable {
        case welcome(ServerWelcome)
        /// `subscription` is nil for a channel that the hub itself subscribed us to (the token's channels, the inbox).
        case publication(ServerEnvelope, subscription: Int?, Subscription.Order)
        /// A `chat` or `event` of a channel that we want, but aren't subscribed to on this connection as far as we know: for who judges the hub.
        case early(ServerEnvelope, subscription: Int)
        case acknowledged(PendingRequest, ServerEnvelope)
        /// Several channels of one request, each with its own end.
        case subscribed(PendingRequest, [SubscribeOutcome])
        /// What was missed, handed out by `takeMissed` before the ack that it came in. The envelope belongs to its own bytes.
        case missed(ServerEnvelope, Subscription.Order)
        case refused(PendingRequest, ServerEnvelope, WireError)
        /// A refusal of something that had no id, or of a request given up before.
        case refusedUnasked(ServerEnvelope)
        case presence(ServerEnvelope)
        case members(ServerEnvelope)
        case system(ServerEnvelope)
        /// A gap that the hub can't fill: the application must load afresh; `subscription` stands at the new position.
        case resync(ServerEnvelope, subscription: Int)
        /// The hub took a subscription away.
        case unsubscribed(ServerEnvelope, Subscription)
        /// Nothing for anybody: a pong, a late ack, a type of tomorrow.
        case ignored
        /// Not an envelope: the peer is no hub.
        case violation(WireError)
    }

    /// Takes one text message. Cost: one scan, no allocation for a publication of a subscribed channel.
    package mutating func received(_ message: UnsafeRawBufferPointer, now: Instant) -> Received {
        let envelope: ServerEnvelope
        do throws(WireError) {
            guard let scanned = try ServerEnvelope.scan(message, depthMax: options.depthMax) else { return .ignored }
            envelope = scanned
        } catch {
            return .violation(error)
        }
        switch envelope.kind {
        case .chat, .event, .read, .typing:
            let index = subscriptions.index(of: envelope.channel.bytes(in: message), hasEscapes: envelope.escapes)
            guard let index else { return .publication(envelope, subscription: nil, .unknown) }
            // The answer that it follows came too late and was given up: the next answer brings it again, from where we stand.
            guard subscriptions.list[index].state == .active else {
                let isNumbered = envelope.kind == .chat || envelope.kind == .event
                return isNumbered && !subscriptions.list[index].isAnswerLate ? .early(envelope, subscription: index) : .ignored
            }
            let order = subscriptions.advance(at: index, to: position(envelope, message))
            return .publication(envelope, subscription: index, order)
        case .ack: return acknowledged(envelope, message, now)
        case .error: return refused(envelope, message, now)
        case .presence: return .presence(envelope)
        case .members: return .members(envelope)
        case .system: return system(envelope, message, now)
        case .pong: return .ignored
        }
    }

    private func position(_ envelope: ServerEnvelope, _ message: UnsafeRawBufferPointer) -> Position? {
        envelope.position.isPresent ? Position(text: envelope.position.bytes(in: message)) : nil
    }

    private mutating func acknowledged(_ envelope: ServerEnvelope, _ message: UnsafeRawBufferPointer, _ now: Instant) -> Received {
        guard let id = envelope.id, let request = pending.take(id) else { return .ignored }
        switch request.kind {
        case .subscribe where envelope.channels.isPresent:
            return .subscribed(request, subscribed(id, envelope.channels, message, now))
        case .subscribe, .history:
            if let index = subscriptions.index(asked: id) { joined(index, envelope, message) }
        case .outbox: outbox.settle(id)
        default: break
        }
        return .acknowledged(request, envelope)
    }

    private mutating func refused(_ envelope: ServerEnvelope, _ message: UnsafeRawBufferPointer, _ now: Instant) -> Received {
        guard let id = envelope.id, let request = pending.take(id) else { return .refusedUnasked(envelope) }
        let hint = envelope.retryAfter.map { min(Span.milliseconds($0), ReconnectRule.hintMax) }
        if request.kind == .outbox {
            if envelope.retry { outbox.retry(id, notBefore: now + (hint ?? options.subscribeAgain)) } else { outbox.settle(id) }
        }
        // All of one request are refused together when it can't be read as a whole.
        while let index = subscriptions.index(asked: id) {
            if envelope.retry {
                subscriptions.set(.wanted(at: now + (hint ?? options.subscribeAgain)), at: index)
            } else {
                _ = subscriptions.remove(at: index)
            }
        }
        return .refused(request, envelope, envelope.wireError(in: message))
    }

    private mutating func system(_ envelope: ServerEnvelope, _ message: UnsafeRawBufferPointer, _ now: Instant) -> Received {
        let event = envelope.event.bytes(in: message)
        if event.elementsEqual("welcome".utf8) {
            becomeOpen(now: now)
            let welcome = ServerWelcome(envelope, in: message)
            node = welcome.node
            return .welcome(welcome)
        }
        let index = subscriptions.index(of: envelope.channel.bytes(in: message), hasEscapes: envelope.escapes)
        if event.elementsEqual("drain".utf8) {
            drainHint = envelope.returnAfter.map { min(.milliseconds($0), ReconnectRule.hintMax) }
        } else if event.elementsEqual("resync".utf8), let index, let position = position(envelope, message) {
            subscriptions.set(position: position, at: index)
            return .resync(envelope, subscription: index)
        } else if event.elementsEqual("unsubscribed".utf8), let index {
            return .unsubscribed(envelope, subscriptions.remove(at: index))
        }
        return .system(envelope)
    }
}

/// What the hub says of itself in its `welcome`; an absent or odd field is nil.
package struct ServerWelcome: Sendable, Equatable {
    package var connection: Name?
    package var node: Name?
    package var user: Name?
    /// How often the hub pings.
    package var ping: Span?

    init(_ envelope: ServerEnvelope, in message: UnsafeRawBufferPointer) {
        func name(_ range: ByteRange) -> Name? {
            guard range.isPresent else { return nil }
            return JSONText.name(range.bytes(in: message), hasEscapes: envelope.escapes, limit: Name.lengthMax)
        }
        connection = name(envelope.connection)
        node = name(envelope.node)
        user = name(envelope.user)
        ping = envelope.ping.map { .milliseconds($0) }
    }
}

extension ServerEnvelope {
    /// The refusal as a value; a code of tomorrow becomes `internal`, with its name in the message.
    package func wireError(in message: UnsafeRawBufferPointer) -> WireError {
        let name = String(decoding: code.bytes(in: message), as: UTF8.self)
        var text = ByteBuffer(capacity: 128)
        if !JSONText.unescape(self.message.bytes(in: message), into: &text) { text.removeAll() }
        let sentence = String(decoding: text.bytes, as: UTF8.self)
        guard let code = ErrorCode(rawValue: name) else { return WireError(.internal, "\(name): \(sentence)", retryAfter: retryAfter) }
        return WireError(code, sentence, retryAfter: retryAfter)
    }
}
