import HubBase
import HubWire

/// One node's way to the members that are kept in process: the embedded member store.
package final class MemoryMemberStore: MemberStore {
    package weak var delegate: (any MemberStoreDelegate)?
    private let members: MemoryMembers
    private let node: Name
    private let outputs = Outputs<Output>()
    private var faults = Faults()

    /// `node`: the incarnation.
    package init(_ members: MemoryMembers, node: Name) {
        self.members = members
        self.node = node
        members.add(self)
    }

    package func start(at now: Instant) { outputs.append(.health(.up)) }

    package func change(_ users: [MemberCount], in channel: Name, known: MembersKnown, mayBeLate: Bool, tag: RequestTag, at now: Instant) {
        precondition(users.count <= MemberLimits.changes, "\(users.count) users in one call")
        if let error = faults.refusal() { return outputs.append(.changed(.failure(error), tag)) }
        let result = members.change(users, in: channel, by: node, known: known, call: tag.low, at: now)
        outputs.append(.changed(faults.lost().map { .failure($0) } ?? result, tag))
    }

    package func refresh(_ channel: Name, as role: MemberRole, known: MembersKnown, tag: RequestTag, at now: Instant) {
        if let error = faults.refusal() { return outputs.append(.refreshed(.failure(error), tag)) }
        let lease = members.refresh(channel, by: node, as: role, known: known, at: now)
        outputs.append(.refreshed(faults.lost().map { .failure($0) } ?? .success(lease), tag))
    }

    package func reap(_ node: Name, in channel: Name, tag: RequestTag, at now: Instant) {
        if let error = faults.refusal() { return outputs.append(.reaped(.failure(error), tag)) }
        outputs.append(.reaped(.success(members.reap(node, in: channel, at: now)), tag))
    }

    package func sweep(partition: Int, tag: RequestTag, at now: Instant) {
        if let error = faults.refusal() { return outputs.append(.swept(.failure(error), partition, tag)) }
        outputs.append(.swept(.success(members.sweep(partition, at: now)), partition, tag))
    }

    package func list(_ channel: Name, cursor: String, limit: Int, whole: Int, tag: RequestTag, at now: Instant) {
        if let error = faults.refusal() { return outputs.append(.listed(.failure(error), tag)) }
        outputs.append(.listed(.success(members.list(channel, cursor: cursor, limit: limit, whole: whole, at: now)), tag))
    }

    package func isSilent(for span: Span, at now: Instant) -> Bool { false }

    package func stop(at now: Instant) {
        outputs.removeAll()
        delegate = nil
    }

    package func advance(at now: Instant) {
        outputs.advance {
            deliver($0)
        } rest: {
            members.advance(at: now)
        }
    }

    func hear(_ news: MembersNews, _ channel: Name) {
        if !faults.isDown && !faults.dropsFeed() { outputs.append(.news(news, channel)) }
    }

    private enum Output {
        case changed(Result<MembersTip, WireError>, RequestTag)
        case refreshed(Result<MembersLease, WireError>, RequestTag)
        case reaped(Result<Int, WireError>, RequestTag)
        case swept(Result<MembersSwept, WireError>, Int, RequestTag)
        case listed(Result<MembersList, WireError>, RequestTag)
        case news(MembersNews, Name)
        case health(BackendHealth)
    }

    private func deliver(_ output: Output) {
        guard let delegate else { return }
        switch output {
        case .changed(let result, let tag): delegate.membersChanged(result, tag: tag)
        case .refreshed(let result, let tag): delegate.membersRefreshed(result, tag: tag)
        case .reaped(let result, let tag): delegate.membersReaped(result, tag: tag)
        case .swept(let result, let partition, let tag): delegate.membersSwept(result, partition: partition, tag: tag)
        case .listed(let result, let tag): delegate.membersListed(result, tag: tag)
        case .news(let news, let channel): delegate.heard(news, channel: channel)
        case .health(let health): delegate.memberStoreHealth(health)
        }
    }
}

// What can go wrong, for tests and simulations.
extension MemoryMemberStore {
    /// The next `count` messages don't reach this node.
    package func dropFeed(_ count: Int) { faults.feedDrops += count }

    /// The next `count` calls are refused, without effect.
    package func failNext(_ count: Int, with error: WireError) {
        faults.failures += count
        faults.failure = error
    }

    /// The next `count` calls that say who is there, or that this node is, are carried out, and their answers don't come.
    package func loseAnswers(_ count: Int) { faults.answersLost += count }

    /// All nodes' members are gone, as after a restart of Redis without data.
    package func loseAllData() { members.loseAllData() }

    /// What all nodes have said so far, to come back to.
    package func rememberData() { members.remember() }

    /// As after a restart of Redis with older data.
    package func goBack() { members.goBack() }

    /// Down: every call is refused, and nothing is heard.
    package func setHealth(_ health: BackendHealth) {
        faults.isDown = health != .up
        outputs.append(.health(health))
    }
}
