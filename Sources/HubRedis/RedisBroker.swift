import HubBase
import HubCore
import HubWire

/// The broker on Redis: scripts for what must hold together, pub/sub for the way to the nodes (redis-design §4).
///
/// A publication comes back over the subscription to its own node like to every other: one order for all.
package final class RedisBroker: Broker {
    package weak var delegate: (any BrokerDelegate)?
    private let backend: RedisBackend
    /// Answers that mustn't be given from within a call.
    private var answers: [Answer] = []

    private enum Answer {
        case refusedPublish(WireError, RequestTag)
        case refusedRead(WireError, RequestTag)
        case subscribed(Name, RequestTag)
        case refusedHistory(Name, WireError, RequestTag)
        case refusedMarks(Name, WireError, RequestTag)
        case noMarks(Name, RequestTag)
        case refusedProbe(WireError, RequestTag)
        case refusedSend(WireError, RequestTag)
    }

    package init(_ backend: RedisBackend) {
        self.backend = backend
        backend.broker = self
    }

    deinit { backend.broker = nil }

    package func start(at now: Instant) { backend.start(at: now) }

    package func setNamespaces(_ namespaces: [String: HistoryOptions], at now: Instant) {
        backend.encoder.setNamespaces(namespaces)
        backend.encoder.dedupWindows.adopt(namespaces, at: now)
    }

    package func stop(at now: Instant) {
        backend.stop()
        giveAnswers(at: now)
    }

    package func publish(_ publication: Publication, to channel: Name, attempt: PublishAttempt?, tag: RequestTag, at now: Instant) {
        if let refusal = backend.link.refusal(bytes: publication.payload.count) {
            answers.append(.refusedPublish(refusal, tag))
            return
        }
        let retryFor = min(RedisLink.retryFor, backend.encoder.options(channel).dedup)
        backend.link.send(
            .publish(
                PublishCall(
                    channel: channel, publication: publication, attempt: attempt, madeAt: now, tag: tag,
                    fingerprint: backend.encoder.fingerprint(publication),
                    retryUntil: now + retryFor)))
    }

    package func readHistory(of channel: Name, _ query: HistoryQuery, tag: RequestTag, at now: Instant) {
        let call = HistoryCall(channel: channel, query: query, purpose: .request(tag))
        if let refusal = backend.readHistory(call) { answers.append(.refusedHistory(channel, refusal, tag)) }
    }

    package func readMarks(of channel: Name, user: Name, limit: Int, tag: RequestTag, at now: Instant) {
        if let refusal = backend.link.refusal() { return answers.append(.refusedMarks(channel, refusal, tag)) }
        guard limit > 0 else { return answers.append(.noMarks(channel, tag)) }
        backend.link.send(.marks(MarksCall(channel: channel, user: user, limit: limit, tag: tag)))
    }

    package func broadcast(_ publication: Publication, to channel: Name, at now: Instant) {
        // Typing is worth nothing later: when it can't leave now it's shed, which its class allows.
        guard backend.link.refusal() == nil else { return }
        backend.link.send(.broadcast(channel, publication))
    }

    package func markRead(_ publication: Publication, offset: UInt64, in channel: Name, tag: RequestTag, at now: Instant) {
        if let refusal = backend.link.refusal(bytes: publication.payload.count) {
            answers.append(.refusedRead(refusal, tag))
            return
        }
        backend.moveFirst(publication.user, in: channel)
        backend.link.send(.markRead(ReadCall(channel: channel, publication: publication, offset: offset, tag: tag)))
    }

    package func subscribe(_ channel: Name, tag: RequestTag, at now: Instant) {
        let set = backend.subscriber
        let index = set.set.want(backend.keys.liveChannel(channel), .channel(channel))
        let position = set.set.isAt(.unsubscribing, index) ? nil : set.set.position(of: index)
        if position == .start, backend.lookAgain(index) {
            // No place that could be proved: why, is asked again (a key of others, memory that was full).
            set.set.wait(index, SubscriptionSet.Waiter(tag: tag, deadline: now + RedisBackend.subscribeDeadline))
        } else if position != nil {
            // Known already: also while the links are down, since a re-link checks it and announces what was missed. The position is
            // taken when the answer is given: until then more may be delivered.
            answers.append(.subscribed(channel, tag))
        } else {
            set.set.wait(index, SubscriptionSet.Waiter(tag: tag, deadline: now + RedisBackend.subscribeDeadline))
        }
    }

    package func unsubscribe(_ channel: Name, at now: Instant) {
        guard let index = backend.subscriber.set.find(backend.keys.liveChannel(channel)) else { return }
        backend.subscriber.set.unwant(index, at: now)
    }

    package func probe(tag: RequestTag, at now: Instant) {
        if let refusal = backend.probe(tag: tag, at: now) { answers.append(.refusedProbe(refusal, tag)) }
    }

    package var outage: String? { backend.outage }

    package var forgottenAcknowledgements: UInt64 { backend.ledger.forgotten }

    package func send(_ message: [UInt8], to node: Name, tag: RequestTag, at now: Instant) {
        if let refusal = backend.link.refusal() {
            answers.append(.refusedSend(refusal, tag))
        } else {
            backend.link.send(.control(node, message, tag))
        }
    }

    package func advance(at now: Instant) {
        backend.advance(at: now)
        giveAnswers(at: now)
    }

    private func giveAnswers(at now: Instant) {
        guard !answers.isEmpty else { return }
        let due = answers
        answers.removeAll(keepingCapacity: true)
        for answer in due {
            switch answer {
            case .refusedPublish(let error, let tag): delegate?.published(.failure(error), tag: tag)
            case .refusedRead(let error, let tag): delegate?.readMoved(.failure(error), tag: tag)
            case .refusedHistory(let channel, let error, let tag): delegate?.historyRead(channel, .failure(error), tag: tag)
            case .refusedMarks(let channel, let error, let tag): delegate?.readMarks(channel, .failure(error), tag: tag)
            case .noMarks(let channel, let tag): delegate?.readMarks(channel, .success([]), tag: tag)
            case .refusedProbe(let error, let tag): delegate?.probed(.failure(error), tag: tag)
            case .refusedSend(let error, let tag): delegate?.sent(.failure(error), tag: tag)
            case .subscribed(let channel, let tag): answerSubscribed(channel, tag, at: now)
            }
        }
    }

    private func answerSubscribed(_ channel: Name, _ tag: RequestTag, at now: Instant) {
        let subscriber = backend.subscriber
        guard let index = subscriber.set.find(backend.keys.liveChannel(channel)) else {
            delegate?.subscribed(channel, .failure(.redisAway), tag: tag)
            return
        }
        if let position = subscriber.set.position(of: index) {
            delegate?.subscribed(channel, .success(position), tag: tag)
        } else {
            subscriber.set.wait(index, SubscriptionSet.Waiter(tag: tag, deadline: now + RedisBackend.subscribeDeadline))
        }
    }

    // MARK: Called by the backend

    /// The reply to PUBLISH: how many connections heard it.
    func controlSent(_ reply: borrowing Reply, _ tag: RequestTag) {
        guard let count = reply.integer(0), count >= 0 else {
            delegate?.sent(.failure(.notOurs), tag: tag)
            return
        }
        delegate?.sent(.success(Int(clamping: count)), tag: tag)
    }

    /// The reply to the publish scripts: `{0, position}`, `{1, what the dedup key holds}`, `{2, ''}` where it can't be told, or `{3, what the
    /// dedup key holds}` where the channel has lost that place since.
    func published(_ call: PublishCall, _ reply: borrowing Reply) {
        var known = Mark.none
        if reply.integer(1) == 2 {
            delegate?.published(.failure(.uncertain), tag: call.tag)
            return
        }
        guard reply.elements(0) == 2, let kind = reply.integer(1), let text = reply.string(2),
            let position = Position(reply: text, fingerprint: &known)
        else {
            let isKnown = reply.integer(1) == 1
            if isKnown { backend.foreign(.publish(call), "the dedup key") }
            delegate?.published(.failure(isKnown ? .foreignKey(channel: call.channel) : .notOurs), tag: call.tag)
            return
        }
        if kind != 0 && known != call.fingerprint {
            let error = WireError(.duplicateConflict, "This message id was used for another message; a new message needs a new id.")
            delegate?.published(.failure(error), tag: call.tag)
        } else if kind == 3 {
            delegate?.published(.failure(.takenBack), tag: call.tag)
        } else {
            backend.acknowledged(call, at: position)
            delegate?.published(.success(PublishResult(position: position, isDuplicate: kind == 1)), tag: call.tag)
        }
    }

    /// What continues the channel.
    func heard(_ position: Position, previous: Mark, _ body: UnsafeRawBufferPointer, _ channel: Name) {
        guard let publication = PublicationCodec.decode(body) else {
            // It has a place in the channel but can't be shown: a hole, and holes are announced.
            delegate?.resync(channel, to: position, reason: .gap)
            return
        }
        delegate?.received(PositionedPublication(position: position, previous: previous, publication: publication), channel: channel)
    }

    /// What a hole is filled with, and what waited behind it.
    func tell(_ told: [ChannelFeed.Told], _ channel: Name) {
        for one in told {
            switch one {
            case .publication(let publication): delegate?.received(publication, channel: channel)
            case .resync(let position, let reason): delegate?.resync(channel, to: position, reason: reason)
            case .stranger: backend.foreignMessages += 1
            }
        }
    }

    /// What has no place. `epoch`: the one that the channel is in here.
    func heard(_ body: UnsafeRawBufferPointer, _ channel: Name, epoch: Mark?) {
        guard let publication = PublicationCodec.decode(body), !publication.messageClass.isDurable else { return }
        if publication.messageClass == .read, let epoch { backend.readPassed(publication, in: channel, epoch: epoch) }
        delegate?.received(publication, channel: channel)
    }
}
