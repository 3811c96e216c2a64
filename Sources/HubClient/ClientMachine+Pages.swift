import HubBase
import HubWire

/// What comes in pages: the answers to `subscribe` and `history`.
extension ClientMachine {
    /// A publication out of an ack.
    package struct Missed: Sendable {
        /// Its bytes in the message that was passed in.
        package var range: ByteRange
        package var received: Received
    }

    /// How one channel of a `subscribe` for several ended.
    package struct SubscribeOutcome: Sendable {
        package var channel: Name
        package var recovered: Bool?
        /// As the answer said beside its position.
        package var offset: UInt64?
        package var error: WireError?
    }

    /// What the message that was received last brought from the past, in order; to be handed on before it. Mostly empty.
    package mutating func takeMissed() -> [Missed] {
        guard !missed.isEmpty else { return [] }
        defer { missed = [] }
        return missed
    }

    /// An ack (or an entry of one) says where a subscription stands.
    mutating func joined(_ index: Int, _ envelope: ServerEnvelope, _ message: UnsafeRawBufferPointer) {
        takePage(index, envelope.publications, message)
        if envelope.position.isPresent, let position = Position(text: envelope.position.bytes(in: message)) {
            subscriptions.set(position: position, at: index)
        }
        subscriptions.set(envelope.more ? .behind(request: nil) : .active, at: index)
    }

    private mutating func takePage(_ index: Int, _ list: ByteRange, _ message: UnsafeRawBufferPointer) {
        guard list.isPresent else { return }
        var elements = JSONElements(message, range: list, depthMax: options.depthMax)
        // The whole message was scanned before: what throws here isn't JSON's fault, and ends the page.
        while let element = try? elements.next() {
            let bytes = element.range.bytes(in: message)
            guard let envelope = try? ServerEnvelope.scan(bytes, depthMax: options.depthMax), envelope.position.isPresent else { continue }
            let order = subscriptions.advance(at: index, to: Position(text: envelope.position.bytes(in: bytes)))
            missed.append(Missed(range: element.range, received: .missed(envelope, order)))
        }
    }

    mutating func subscribed(
        _ id: UInt64, _ list: ByteRange, _ message: UnsafeRawBufferPointer, _ now: Instant
    ) -> [SubscribeOutcome] {
        var outcomes: [SubscribeOutcome] = []
        var elements = JSONElements(message, range: list, depthMax: options.depthMax)
        while let element = try? elements.next() {
            guard let entry = try? ServerEnvelope.scan(entry: message, element.range, depthMax: options.depthMax),
                let channel = JSONText.name(entry.channel.bytes(in: message), hasEscapes: entry.escapes, limit: Name.lengthMax),
                let index = subscriptions.index(of: channel), subscriptions.list[index].state == .asked(request: id)
            else { continue }
            guard entry.code.isPresent else {
                joined(index, entry, message)
                outcomes.append(SubscribeOutcome(channel: channel, recovered: entry.recovered, offset: entry.offset, error: nil))
                continue
            }
            if entry.retry {
                let hint = entry.retryAfter.map { min(Span.milliseconds($0), ReconnectRule.hintMax) }
                subscriptions.set(.wanted(at: now + (hint ?? options.subscribeAgain)), at: index)
            } else {
                _ = subscriptions.remove(at: index)
            }
            outcomes.append(SubscribeOutcome(channel: channel, recovered: nil, error: entry.wireError(in: message)))
        }
        // What the answer leaves out is asked for again.
        for index in subscriptions.indexes(asked: id) { subscriptions.set(.wanted(at: now + options.subscribeAgain), at: index) }
        return outcomes
    }
}
