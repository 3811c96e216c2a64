import HubBase
import HubCore
import HubWire

/// The member store on Redis (redis-design §3): scripts on the keys of a channel; what they tell comes over the channel itself.
package final class RedisMemberStore: MemberStore {
    package weak var delegate: (any MemberStoreDelegate)?
    private let backend: RedisBackend
    /// Changes and heartbeats that wait for room on the link of their lane (decision 0361). A channel's go in their order.
    private var waiting = LaneRings<MembersCall>()
    /// Answers that mustn't be given from within a call.
    private var refused: [(MembersCall, WireError)] = []
    private var refusedSweeps: [(MemberSweep, WireError)] = []

    /// A reap that never comes to an end is a bug or somebody else's hand: it's cut here, and the next one goes on.
    private static let stepLimit = 10_000

    package init(_ backend: RedisBackend) {
        self.backend = backend
        backend.members = self
    }

    deinit { backend.members = nil }

    package func start(at now: Instant) { backend.start(at: now) }

    package func stop(at now: Instant) {
        backend.stop()
        while let call = waiting.removeFirst(in: .all) { failed(call, .redisAway) }
        giveAnswers()
    }

    package func isSilent(for span: Span, at now: Instant) -> Bool { backend.masters.all.contains { $0.link.isSilent(for: span, at: now) } }

    package func advance(at now: Instant) {
        // Broker or presence store drive the backend where they are there.
        if backend.broker == nil && backend.store == nil { backend.advance(at: now) }
        giveAnswers()
    }

    private func giveAnswers() {
        guard !refused.isEmpty || !refusedSweeps.isEmpty else { return }
        let (due, sweeps) = (refused, refusedSweeps)
        refused.removeAll(keepingCapacity: true)
        refusedSweeps.removeAll(keepingCapacity: true)
        for (call, error) in due { failed(call, error) }
        for (sweep, error) in sweeps { failed(sweep, error) }
    }

    private func enqueue(_ call: MembersCall) {
        if let refusal = backend.link.refusal() ?? (waiting.count < RedisLink.callLimit ? nil : .redisFull) {
            refused.append((call, refusal))
        } else {
            waiting.append(call, lane: backend.masters.isCluster ? Partition.of(call.channel) : 0)
            sendWaiting()
        }
    }

    /// Sends what there's room for. What has no link is told at once that it can't be done, or goes the way that its lane's calls take.
    func sendWaiting() {
        guard !waiting.isEmpty else { return }
        var others = LaneSet.all
        for master in backend.masters.all where master.link.isUp {
            others = others.subtracting(master.lanes)
            while master.link.hasRoom(for: .members), let call = waiting.removeFirst(in: master.lanes) { backend.link.send(.members(call)) }
        }
        while let call = waiting.removeFirst(in: others) { backend.link.send(.members(call)) }
    }

    private func send(_ call: MembersCall) {
        if let refusal = backend.link.refusal() {
            refused.append((call, refusal))
        } else {
            backend.link.send(.members(call))
        }
    }

    package func change(_ users: [MemberCount], in channel: Name, known: MembersKnown, mayBeLate: Bool, tag: RequestTag, at now: Instant) {
        precondition(users.count <= MemberLimits.changes && !users.isEmpty, "\(users.count) users in one call")
        enqueue(MembersCall(channel: channel, kind: .change(users, known, mayBeLate: mayBeLate), tag: tag, at: now))
    }

    package func refresh(_ channel: Name, as role: MemberRole, known: MembersKnown, tag: RequestTag, at now: Instant) {
        enqueue(MembersCall(channel: channel, kind: .refresh(role, known), tag: tag, at: now))
    }

    package func reap(_ node: Name, in channel: Name, tag: RequestTag, at now: Instant) {
        send(MembersCall(channel: channel, kind: .reap(node), tag: tag, at: now))
    }

    package func list(_ channel: Name, cursor: String, limit: Int, whole: Int, tag: RequestTag, at now: Instant) {
        send(MembersCall(channel: channel, kind: .list(cursor: cursor, limit: limit, whole: whole), tag: tag, at: now))
    }

    package func sweep(partition: Int, tag: RequestTag, at now: Instant) { find(MemberSweep(partition: partition, tag: tag)) }

    // MARK: Sweeps

    private func find(_ sweep: MemberSweep) {
        if let refusal = backend.link.refusal() {
            refusedSweeps.append((sweep, refusal))
        } else {
            backend.link.send(.memberFind(sweep))
        }
    }

    func found(_ sweep: MemberSweep, _ reply: borrowing Reply) {
        guard sweep.found(reply) else { return failed(sweep, .notOurs) }
        sweep.rounds += 1
        goOn(sweep)
    }

    /// The next step: the next of a channel's dead, the next channel, more channels, or the end.
    private func goOn(_ sweep: MemberSweep) {
        if let channel = sweep.channels.last {
            if let node = sweep.dead.popLast() {
                send(MembersCall(channel: channel, kind: .reap(node), tag: sweep.tag, at: backend.loop.now, sweep: sweep))
            } else if sweep.isLooked {
                sweep.channels.removeLast()
                sweep.isLooked = false
                goOn(sweep)
            } else {
                sweep.isLooked = true
                send(MembersCall(channel: channel, kind: .look, tag: sweep.tag, at: backend.loop.now, sweep: sweep))
            }
        } else if sweep.isFull && sweep.rounds < MemberSweep.roundsMax {
            find(sweep)
        } else {
            delegate?.membersSwept(.success(sweep.swept), partition: sweep.partition, tag: sweep.tag)
        }
    }

    func failed(_ sweep: MemberSweep, _ error: WireError) {
        delegate?.membersSwept(.failure(error), partition: sweep.partition, tag: sweep.tag)
    }

    // MARK: Called by the backend

    func replied(_ call: MembersCall, _ reply: borrowing Reply) {
        switch call.kind {
        case .change:
            let tip = MemberReplies.tip(reply)
            delegate?.membersChanged(tip.map { .success($0) } ?? .failure(.notOurs), tag: call.tag)
        case .refresh:
            let lease = MemberReplies.lease(reply)
            delegate?.membersRefreshed(lease.map { .success($0) } ?? .failure(.notOurs), tag: call.tag)
        case .look:
            guard let sweep = call.sweep else { return }
            if sweep.looked(reply) { goOn(sweep) } else { failed(call, .notOurs) }
        case .list:
            let list = MemberReplies.list(reply)
            delegate?.membersListed(list.map { .success($0) } ?? .failure(.notOurs), tag: call.tag)
        case .reap:
            guard let left = reply.integer(1), left >= 0, let next = reply.string(2), next.isEmpty || MemberLimits.isCursor(next) else {
                failed(call, .notOurs)
                return
            }
            var call = call
            call.reaped += Int(clamping: left)
            call.steps += 1
            call.cursor = [UInt8](next)
            if !call.cursor.isEmpty && call.steps < RedisMemberStore.stepLimit {
                send(call)
            } else if let sweep = call.sweep {
                sweep.swept.users += call.reaped
                goOn(sweep)
            } else {
                delegate?.membersReaped(.success(call.reaped), tag: call.tag)
            }
        }
    }

    func failed(_ call: MembersCall, _ error: WireError) {
        if let sweep = call.sweep {
            // Without a store there's no use in going on; what one channel's keys are like is no other's trouble.
            guard error.code == .internal else { return failed(sweep, error) }
            sweep.dead = []
            return goOn(sweep)
        }
        switch call.kind {
        case .look: break
        case .change: delegate?.membersChanged(.failure(error), tag: call.tag)
        case .refresh: delegate?.membersRefreshed(.failure(error), tag: call.tag)
        case .list: delegate?.membersListed(.failure(error), tag: call.tag)
        case .reap: delegate?.membersReaped(.failure(error), tag: call.tag)
        }
    }
}
