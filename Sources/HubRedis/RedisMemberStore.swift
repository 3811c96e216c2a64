import HubBase
import HubCore
import HubWire

/// The member store on Redis (redis-design §3): four scripts on the keys of a channel; what they tell comes over the channel itself.
package final class RedisMemberStore: MemberStore {
    package weak var delegate: (any MemberStoreDelegate)?
    private let backend: RedisBackend
    /// Answers that mustn't be given from within a call.
    private var refused: [(MembersCall, WireError)] = []

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
        giveAnswers()
    }

    package func advance(at now: Instant) {
        // Broker or presence store drive the backend where they are there.
        if backend.broker == nil && backend.store == nil { backend.advance(at: now) }
        giveAnswers()
    }

    private func giveAnswers() {
        guard !refused.isEmpty else { return }
        let due = refused
        refused.removeAll(keepingCapacity: true)
        for (call, error) in due { failed(call, error) }
    }

    private func send(_ call: MembersCall) {
        if let refusal = backend.link.refusal() {
            refused.append((call, refusal))
        } else {
            backend.link.send(.members(call))
        }
    }

    package func change(_ users: [MemberCount], in channel: Name, tag: RequestTag, at now: Instant) {
        precondition(users.count <= MemberLimits.changes && !users.isEmpty, "\(users.count) users in one call")
        send(MembersCall(channel: channel, kind: .change(users), tag: tag))
    }

    package func refresh(_ channel: Name, isObserver: Bool, tag: RequestTag, at now: Instant) {
        send(MembersCall(channel: channel, kind: .refresh(isObserver: isObserver), tag: tag))
    }

    package func reap(_ node: Name, in channel: Name, tag: RequestTag, at now: Instant) {
        send(MembersCall(channel: channel, kind: .reap(node), tag: tag))
    }

    package func list(_ channel: Name, cursor: String, limit: Int, whole: Int, tag: RequestTag, at now: Instant) {
        send(MembersCall(channel: channel, kind: .list(cursor: cursor, limit: limit, whole: whole), tag: tag))
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
        case .list:
            let list = MemberReplies.list(reply)
            delegate?.membersListed(list.map { .success($0) } ?? .failure(.notOurs), tag: call.tag)
        case .reap:
            guard let left = reply.integer(1), left >= 0, let next = reply.string(2), next.isEmpty || MemberLimits.isCursor(next) else {
                delegate?.membersReaped(.failure(.notOurs), tag: call.tag)
                return
            }
            var call = call
            call.reaped += Int(clamping: left)
            call.steps += 1
            call.cursor = [UInt8](next)
            if !call.cursor.isEmpty && call.steps < RedisMemberStore.stepLimit {
                send(call)
            } else {
                delegate?.membersReaped(.success(call.reaped), tag: call.tag)
            }
        }
    }

    func failed(_ call: MembersCall, _ error: WireError) {
        switch call.kind {
        case .change: delegate?.membersChanged(.failure(error), tag: call.tag)
        case .refresh: delegate?.membersRefreshed(.failure(error), tag: call.tag)
        case .list: delegate?.membersListed(.failure(error), tag: call.tag)
        case .reap: delegate?.membersReaped(.failure(error), tag: call.tag)
        }
    }
}
