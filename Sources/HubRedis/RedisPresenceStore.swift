import HubBase
import HubCore
import HubWire

/// The presence store on Redis (redis-design §2): leases, records, versions and feeds, by scripts that judge time by Redis's clock.
package final class RedisPresenceStore: PresenceStore {
    package weak var delegate: (any PresenceStoreDelegate)?
    private let backend: RedisBackend
    /// Answers that mustn't be given from within a call.
    private var refused: [(Call, WireError)] = []
    /// The incarnations that announced themselves.
    private var living: Set<[UInt8]> = []
    private var offsets: [Int64] = []
    /// Until when each partition was warming after its first sweep, as the last sweep said: where that's another moment, so are the data.
    private var warm = [UInt64?](repeating: nil, count: Partition.count)
    private static let offsetsKept = 6

    /// A sweep that never comes to an end is a bug or somebody else's hand: it's cut here and goes on with the next one.
    private static let roundLimit = 1000

    package init(_ backend: RedisBackend) {
        self.backend = backend
        backend.store = self
    }

    deinit { backend.store = nil }

    package func start(at now: Instant) { backend.start(at: now) }

    package func stop(at now: Instant) {
        backend.stop()
        giveAnswers()
    }

    package func advance(at now: Instant) {
        backend.advance(at: now)
        giveAnswers()
    }

    private func giveAnswers() {
        guard !refused.isEmpty else { return }
        let due = refused
        refused.removeAll(keepingCapacity: true)
        for (call, error) in due { backend.failed(call, error) }
    }

    private func send(_ call: Call, replies: Int = 1) {
        if let refusal = backend.link.refusal(replies: replies) {
            refused.append((call, refusal))
        } else {
            backend.link.send(call)
        }
    }

    package func apply(_ operations: [PresenceOperation], partition: Int, tag: RequestTag, at now: Instant) {
        precondition(operations.count <= PresenceLimits.operations, "\(operations.count) operations in one call")
        send(.apply(ApplyCall(operations: operations, partition: partition, tag: tag)))
    }

    package func refresh(_ renewal: LeaseRenewal, partition: Int, tag: RequestTag, at now: Instant) {
        precondition(renewal.leases.count <= PresenceLimits.leases, "\(renewal.leases.count) leases in one call")
        send(.refresh(RefreshCall(renewal: renewal, partition: partition, tag: tag)))
    }

    package func sweep(partition: Int, tag: RequestTag, at now: Instant) {
        send(.find(Sweep(partition: partition, tag: tag)))
    }

    package func read(_ users: [Name], tag: RequestTag, at now: Instant) {
        precondition(users.count <= PresenceLimits.reads, "\(users.count) users in one call")
        let call = StatesCall(users: users, tag: tag)
        send(.states(call), replies: call.replies)
    }

    package func inspect(_ user: Name, explains: Bool, tag: RequestTag, at now: Instant) {
        send(.inspect(user, explains: explains, tag))
    }

    package var clockOffset: Int64? { offsets.max() }

    package func announce(_ facts: NodeFacts, tag: RequestTag, at now: Instant) {
        send(.announce(facts: NodeFactsText.text(facts, name: backend.node), tag))
    }

    // MARK: Users that are watched by themselves

    package var followsUsers: Bool { backend.feeds == .users }

    package func follow(_ users: [Name]) {
        for user in users { _ = backend.subscriber.set.want(backend.keys.userFeedChannel(user), .user(user)) }
    }

    package func unfollow(_ users: [Name], at now: Instant) {
        for user in users {
            guard let index = backend.subscriber.set.find(backend.keys.userFeedChannel(user)) else { continue }
            backend.subscriber.set.unwant(index, at: now)
        }
    }

    /// False when it isn't ours to read.
    func heard(_ body: UnsafeRawBufferPointer, of user: Name) -> Bool {
        guard let changes = FeedPayload.parse(body), changes.count == 1, changes[0].user == user else { return false }
        delegate?.changed(changes, partition: Partition.of(user), gap: false)
        return true
    }

    // MARK: Called by the backend

    /// Which nodes live, by the last announcement; nil: it can't be read.
    func announced(_ nodes: [NodeEntry]?, time: UInt64?, at now: Instant) {
        if let time {
            // The answer took its time to come, so that each one says a little too little: the largest of the last few is the nearest.
            offsets.append(Int64(time) - Int64(clamping: now.nanoseconds / 1_000_000))
            if offsets.count > RedisPresenceStore.offsetsKept { offsets.removeFirst() }
            if !backend.masters.isCluster { backend.encoder.clocks.heard(time, from: .announcement, at: now) }
        }
        guard let nodes else { return }
        living = Set(nodes.map(\.incarnation.bytes))
    }

    /// A connection id begins with its node's incarnation. One that we can't read, or before the first announcement: not that we know.
    private func isDead(nodeOf connection: [UInt8]) -> Bool {
        guard !living.isEmpty, let dash = connection.firstIndex(of: UInt8(ascii: "-")) else { return false }
        return !living.contains([UInt8](connection[..<dash]))
    }

    func found(_ sweep: Sweep, _ reply: borrowing Reply) {
        var sweep = sweep
        guard PresenceReplies.found(reply, into: &sweep) else {
            delegate?.swept(.failure(.notOurs), partition: sweep.partition, tag: sweep.tag)
            return
        }
        if let time = sweep.time { backend.encoder.clocks.heard(time, from: .sweep(partition: sweep.partition), at: backend.loop.now) }
        if let until = sweep.warm {
            let before = warm[sweep.partition]
            warm[sweep.partition] = until
            if let before, before != until { delegate?.lost(partition: sweep.partition) }
        }
        if sweep.entries.isEmpty {
            delegate?.swept(.success(sweep.offline), partition: sweep.partition, tag: sweep.tag)
        } else {
            sweep.rounds += 1
            for place in sweep.entries.indices where sweep.entries[place].isLease {
                sweep.entries[place].isNodeDead = isDead(nodeOf: sweep.entries[place].connection)
            }
            send(.expire(sweep))
        }
    }

    func expired(_ sweep: Sweep, _ reply: borrowing Reply) {
        var sweep = sweep
        sweep.offline += Int(reply.integer(0) ?? 0)
        if sweep.isFull && sweep.rounds < RedisPresenceStore.roundLimit {
            send(.find(sweep))
        } else {
            delegate?.swept(.success(sweep.offline), partition: sweep.partition, tag: sweep.tag)
        }
    }

    /// The next of a read's replies: TIME, the partitions, the users.
    func stateRead(_ call: StatesCall, _ reply: borrowing Reply) {
        let place = call.seen
        call.seen += 1
        if place == 0 {
            if let time = PresenceReplies.time(reply) { call.milliseconds = time } else { call.failure = .notOurs }
        } else if place < call.heads {
            partitionRead(call, reply, place)
        } else {
            let user = call.users[place - call.heads]
            let change = PresenceReplies.state(reply, of: user)
            if change == nil { backend.foreign(.states(call), reply: place) }
            if change?.version == 0 { call.stateless.append(user) } else { call.unshown[Partition.of(user), default: 0] -= 1 }
            if change == nil || call.strange.contains(Partition.of(user)) { call.unreadable.insert(user) }
            call.changes.append(change ?? PresenceChange(user: user, status: .offline, version: 0, lastSeen: 0))
        }
        if call.seen == call.replies { examine(call) }
    }

    /// Where one of a partition's keys is somebody else's nobody is registered any more: what its records say proves nothing.
    private func partitionRead(_ call: StatesCall, _ reply: borrowing Reply, _ place: Int) {
        let (index, what) = call.ofPartition(place)
        var isStrange = reply.isError
        switch what {
        case .head:
            // Where nobody has swept yet, a missing record proves nothing either.
            if reply.string(1)?.decimal.map({ call.milliseconds < $0 }) ?? true { call.isWarming = true }
            call.hasHead = reply.elements(0) == 6 && (1...6).contains { reply.string($0) != nil }
        case .fields: if !call.hasHead, let count = reply.integer(0), count > 0 { isStrange = true }
        case .leases, .grace: break
        case .records:
            if let count = reply.integer(0) { call.unshown[call.partitions[index], default: 0] += Int(clamping: count) }
        }
        guard isStrange else { return }
        call.strange.insert(call.partitions[index])
        backend.foreign(.states(call), reply: place)
    }

    /// A record that shows no state has connections that count for nobody, and else nothing; or it's somebody else's. Seldom, so a second way.
    private func examine(_ call: StatesCall) {
        let doubtful = call.failure == nil ? call.stateless.filter { call.unshown[Partition.of($0), default: 0] > 0 } : []
        guard !doubtful.isEmpty else { return statesEnded(call) }
        call.examined = doubtful.count
        for user in doubtful { send(.examine(call, user)) }
    }

    func examined(_ call: StatesCall, _ user: Name, isOurs: Bool) {
        if !isOurs { call.unreadable.insert(user) }
        call.examined -= 1
        if call.examined == 0 { statesEnded(call) }
    }

    /// A read, or a part of one, is over, well or with a failure.
    func statesEnded(_ call: StatesCall) {
        guard let whole = call.partEnded() else { return }
        if let failure = whole.failure {
            delegate?.read(.failure(failure), tag: whole.tag)
        } else {
            var snapshot = PresenceSnapshot(changes: whole.changes, isWarming: whole.isWarming)
            snapshot.unreadable = whole.unreadable
            delegate?.read(.success(snapshot), tag: whole.tag)
        }
    }

    func inspected(_ user: Name, explains: Bool, _ tag: RequestTag, _ reply: borrowing Reply) {
        var record = PresenceReplies.record(reply, of: user, lease: backend.encoder.timers.lease)
        if explains { record?.transitions = PresenceReplies.transitions(reply) }
        delegate?.inspected(record.map { .success($0) } ?? .failure(.notOurs), tag: tag)
    }

    func heard(_ body: UnsafeRawBufferPointer, _ verdict: Chain.Verdict, partition: Int) {
        let isGap: Bool
        switch verdict {
        case .drop: return
        case .deliver: isGap = false
        case .resync: isGap = true
        }
        // What can't be read is a hole like any other.
        guard let changes = FeedPayload.parse(body) else {
            delegate?.changed([], partition: partition, gap: true)
            return
        }
        delegate?.changed(changes, partition: partition, gap: isGap)
    }
}
