import HubBase
import HubCore
import HubWire

/// Posts to streams on their way between loops and nodes (`PostExchange`), and the node's control channel.
extension Backplane {
    func pass(_ post: StreamPost, tag: RequestTag) {
        guard let holder = NodeIdentity.incarnation(of: post.connection) else { return carryOut(.tell(.unknown, tag: tag)) }
        guard let action = exchange.begin(post, to: holder, tag: tag, at: now) else { return carryOut(.tell(.refused, tag: tag)) }
        if holder != node.incarnation { numbers.postsForwarded += 1 }
        carryOut(action)
    }

    func advanceExchange() {
        for action in exchange.advance(at: now) { carryOut(action) }
    }

    private func carryOut(_ action: PostExchange.Action?) {
        switch action {
        case .send(let post, let number, let holder) where holder == node.incarnation:
            _ = exchange.sent(number, .heard(1), at: now)
            if !hand(post, .here(number)) { carryOut(exchange.answered(.unknown, number, by: holder)) }
        case .send(let post, let number, let holder):
            let message = ControlMessage.post(post, number: number, from: node.incarnation)
            broker.send(message.bytes(), to: holder, tag: RequestTag(high: Backplane.controlTags, low: number), at: now)
        case .tell(let outcome, let tag): self.post(.postAnswered(outcome, tag: tag.low), to: tag.high)
        case nil: break
        }
    }

    /// False when no loop of ours can hold that stream.
    private func hand(_ post: StreamPost, _ origin: PostOrigin) -> Bool {
        guard let serial = node.serial(of: post.connection), serial.loop < loopCount else { return false }
        self.post(.post(post, origin), to: UInt64(serial.loop))
        return true
    }

    /// A loop has looked at a post.
    func passBack(_ outcome: StreamPostOutcome, to origin: PostOrigin) {
        switch origin {
        case .here(let number): carryOut(exchange.answered(outcome, number, by: node.incarnation))
        case .node(let from, let number): answer(outcome, number, to: from)
        }
    }

    private func answer(_ outcome: StreamPostOutcome, _ number: UInt64, to other: Name) {
        let message = ControlMessage.answer(outcome, number: number, from: node.incarnation)
        // Should it get lost, the other node says after its deadline that it doesn't know.
        broker.send(message.bytes(), to: other, tag: .none, at: now)
    }

    func sent(_ result: Result<Int, WireError>, tag: RequestTag) {
        if tag.high == Backplane.inquiryTags { return asked(tag.low, result) }
        guard tag.high == Backplane.controlTags else { return }
        let sending: PostExchange.Sending
        switch result {
        case .success(let count): sending = .heard(count)
        case .failure(let error): sending = error.code == .uncertain ? .uncertain : .refused
        }
        carryOut(exchange.sent(tag.low, sending, at: now))
    }

    func received(control message: UnsafeRawBufferPointer) {
        switch ControlMessage(message, bodyMax: postBytesMax) {
        case .post(let post, let number, let from):
            numbers.postsReceived += 1
            if !hand(post, .node(from, number: number)) { answer(.unknown, number, to: from) }
        case .answer(let outcome, let number, let from): carryOut(exchange.answered(outcome, number, by: from))
        case .ask(let connection, let number, let from):
            if !look(connection, .node(from, number: number)) { tell(.gone, number, to: from) }
        case .told(let answer, let number, let from): told(answer, number, by: from)
        case .hooksLetGo: hooks.othersLetGo()
        case nil: numbers.controlForeign += 1
        }
    }
}
