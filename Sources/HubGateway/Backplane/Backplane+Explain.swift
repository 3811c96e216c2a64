import HubBase
import HubCore
import HubWire

/// Explaining a user's state: the store's record and trail, then for each connection what only its own node knows.
extension Backplane {
    /// An explanation that is being put together.
    struct Explaining {
        var tag: RequestTag
        var record: PresenceRecord?
        var isStale = false
    }

    func explain(_ user: Name, tag: RequestTag) {
        guard explaining.count < ConnectionInquiries.inquiriesMax else {
            return post(.explained(.failure(Self.tooMany), isStale: false, tag: tag.low), to: tag.high)
        }
        lastExplaining += 1
        explaining[lastExplaining] = Explaining(tag: tag)
        store.inspect(user, explains: true, tag: RequestTag(high: Backplane.explainTags, low: lastExplaining), at: now)
    }

    private static let tooMany = WireError(.overloaded, "too many explanations are under way", retryAfter: 1_000)

    func recordRead(_ result: Result<PresenceRecord, WireError>, key: UInt64) {
        guard explaining[key] != nil else { return }
        switch result {
        case .failure(let error): finish(key, .failure(error))
        case .success(let record):
            explaining[key]?.record = record
            // As the store has it: the sentence is about that.
            var judged = record
            explaining[key]?.isStale = machine.judge(&judged, at: now)
            let connections = record.connections.map { ($0.connection, NodeIdentity.incarnation(of: $0.connection)) }
            guard let actions = inquiries.begin(connections, key: key, at: now) else { return finish(key, .failure(Self.tooMany)) }
            for action in actions { carryOut(action) }
        }
    }

    func advanceInquiries() {
        for action in inquiries.advance(at: now) { carryOut(action) }
    }

    private func carryOut(_ action: ConnectionInquiries.Action?) {
        switch action {
        case .ask(let connection, let number, let holder) where holder == node.incarnation:
            if !look(connection, .here(number)) { carryOut(inquiries.answered(.gone, number, by: holder)) }
        case .ask(let connection, let number, let holder):
            let message = ControlMessage.ask(connection, number: number, from: node.incarnation)
            broker.send(message.bytes(), to: holder, tag: RequestTag(high: Backplane.inquiryTags, low: number), at: now)
        case .tell(let answers, let key): finish(key, answers: answers)
        case nil: break
        }
    }

    private func finish(_ key: UInt64, answers: [ConnectionAnswer]) {
        guard let record = explaining[key]?.record else { return }
        let living = machine.nodes.map(\.incarnation)
        finish(key, .success(PresenceExplanation(record: record, answers: answers, living: living, timers: machine.timers)))
    }

    private func finish(_ key: UInt64, _ result: Result<PresenceExplanation, WireError>) {
        guard let ended = explaining.removeValue(forKey: key) else { return }
        post(.explained(result.map { Boxed($0) }, isStale: ended.isStale, tag: ended.tag.low), to: ended.tag.high)
    }

    // MARK: What is asked of us

    /// Has the loop that would hold a connection look at it; false when none can.
    func look(_ connection: Name, _ origin: PostOrigin) -> Bool {
        guard let serial = node.serial(of: connection), serial.loop < loopCount else { return false }
        post(.look(serial.id.packed, connection: connection, origin), to: UInt64(serial.loop))
        return true
    }

    /// A loop has looked.
    func looked(_ answer: ConnectionAnswer, _ origin: PostOrigin) {
        switch origin {
        case .here(let number): carryOut(inquiries.answered(answer, number, by: node.incarnation))
        case .node(let from, let number): tell(answer, number, to: from)
        }
    }

    /// Should it get lost, the other node says after its deadline that there was no answer.
    func tell(_ answer: ConnectionAnswer, _ number: UInt64, to other: Name) {
        let message = ControlMessage.told(answer, number: number, from: node.incarnation)
        broker.send(message.bytes(), to: other, tag: .none, at: now)
    }

    func told(_ answer: ConnectionAnswer, _ number: UInt64, by other: Name) { carryOut(inquiries.answered(answer, number, by: other)) }

    func asked(_ number: UInt64, _ result: Result<Int, WireError>) {
        // Where it's unknown whether it left, the answer or the deadline tells.
        if case .failure(let error) = result, error.code == .uncertain { return }
        carryOut(inquiries.sent(number, heard: try? result.get()))
    }
}
