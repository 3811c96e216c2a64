import HubBase
import HubCore
import HubWire

/// One node of a check, in one channel: its store, what it told, and calls that wait for their answers.
package final class MemberNode: MemberStoreDelegate {
    package let store: any MemberStore
    package let incarnation: Name
    package let channel: Name
    private let fixture: any MemberStoreFixture
    private var lastTag: UInt64 = 0
    private var isInsideCall = false
    package private(set) var toldInsideCall = 0
    private var tips: [RequestTag: Result<MembersTip, WireError>] = [:]
    private var leases: [RequestTag: Result<MembersLease, WireError>] = [:]
    private var reaps: [RequestTag: Result<Int, WireError>] = [:]
    private var lists: [RequestTag: Result<MembersList, WireError>] = [:]
    private var sweeps: [RequestTag: Result<MembersSwept, WireError>] = [:]
    /// Users whom this node's sweeps took out.
    package private(set) var sweptUsers = 0
    /// Without the beginning.
    package private(set) var news: [MembersNews] = []
    package private(set) var rejoins: [MembersNews] = []
    /// What the node was told, and its last call that was answered.
    package private(set) var known = MembersKnown()
    package private(set) var isUp = false
    package private(set) var lastError: WireError?

    package init(_ fixture: any MemberStoreFixture, _ incarnation: Name, _ channel: Name) {
        self.fixture = fixture
        self.incarnation = incarnation
        self.channel = channel
        store = fixture.makeMemberNode(incarnation: incarnation)
        store.delegate = self
        store.start(at: fixture.now)
        _ = fixture.run { isUp }
        fixture.carry(channel, on: store)
    }

    package static func pair(_ fixture: any MemberStoreFixture, _ channel: Name) -> (MemberNode, MemberNode) {
        (MemberNode(fixture, "aaaaaaaaaaaa", channel), MemberNode(fixture, "bbbbbbbbbbbb", channel))
    }

    /// "joined alice 1", one for each user.
    package var told: [String] { news.flatMap { one in one.users.map { "\(one.kind) \($0.user) \($0.devices)" } } }

    private func call(_ body: (RequestTag) -> Void) -> RequestTag {
        lastTag += 1
        let tag = RequestTag(high: 7, low: lastTag)
        isInsideCall = true
        body(tag)
        isInsideCall = false
        return tag
    }

    private func answer<Value>(_ result: Result<Value, WireError>?) -> Value? {
        if case .failure(let error)? = result { lastError = error }
        return try? result?.get()
    }

    @discardableResult
    /// `number`: of an earlier call, so that this one comes too late.
    package func change(_ users: [Name: UInt32], known: MembersKnown? = nil, number: UInt64? = nil) -> MembersTip? {
        let counts = users.map { MemberCount(user: $0.key, devices: $0.value) }
        let tag = call {
            let tag = number.map { RequestTag(high: 7, low: $0) } ?? $0
            tips[tag] = nil
            store.change(counts, in: channel, known: known ?? self.known, mayBeLate: true, tag: tag, at: fixture.now)
        }
        let sent = number.map { RequestTag(high: 7, low: $0) } ?? tag
        _ = fixture.run { tips[sent] != nil }
        guard let tip = answer(tips[sent]) else { return nil }
        if number == nil { self.known = MembersKnown(sequence: max(self.known.sequence, tip.sequence), call: tag.low) }
        return tip
    }

    package func refresh(as role: MemberRole = .host, known: MembersKnown? = nil) -> MembersLease? {
        let tag = call { store.refresh(channel, as: role, known: known ?? self.known, tag: $0, at: fixture.now) }
        _ = fixture.run { leases[tag] != nil }
        return answer(leases[tag])
    }

    package func reap(_ node: Name) -> Int? {
        let tag = call { store.reap(node, in: channel, tag: $0, at: fixture.now) }
        _ = fixture.run { reaps[tag] != nil }
        return answer(reaps[tag])
    }

    /// A sweep of the channel's partition; the next one is due when it returns.
    package func sweep() -> MembersSwept? {
        let partition = Partition.of(channel)
        let tag = call { store.sweep(partition: partition, tag: $0, at: fixture.now) }
        _ = fixture.run { sweeps[tag] != nil }
        let swept = answer(sweeps[tag])
        sweptUsers += swept?.users ?? 0
        fixture.pass(.milliseconds(130))
        return swept
    }

    /// Time passes, with sweeps, until this node is told that others are dead; empty: it never was. It has members in the channel, or somebody else
    /// has who is heard of meanwhile: otherwise the sweeps take the dead out.
    package func findDead(as role: MemberRole = .host, meanwhile: () -> Void = {}) -> [Name] {
        for _ in 0..<60 {
            meanwhile()
            let lease = refresh(as: role)
            if let dead = lease?.dead, !dead.isEmpty { return dead }
            // The moment is near: a sweep that finds it first would take the dead out.
            if let left = lease?.othersEnd, left < .milliseconds(500) { fixture.pass(left + .milliseconds(5)) } else { _ = sweep() }
        }
        return []
    }

    /// Sweeps until `condition` holds; false: it never did.
    package func sweeping(meanwhile: () -> Void = {}, atMost count: Int = 80, until condition: () -> Bool) -> Bool {
        for _ in 0..<count {
            meanwhile()
            _ = sweep()
            if condition() { return true }
        }
        return false
    }

    /// What backends are told of the channel so far: "occupied" and "vacated".
    package func toldBackends() -> [String] {
        let reader = HookReader()
        fixture.memberHooks.hookDelegate = reader
        let claim = HookClaim(holding: .take, lease: .seconds(60), limit: 1_000)
        fixture.memberHooks.claim(claim, partition: Partition.of(channel), tag: RequestTag(high: 8, low: 1), at: fixture.now)
        _ = fixture.run { reader.page != nil }
        fixture.memberHooks.hookDelegate = nil
        return reader.page?.events.filter { $0.name == channel }.map { $0.kind == .channelOccupied ? "occupied" : "vacated" } ?? ["nothing"]
    }

    package func list(cursor: String = "0", limit: Int = 100, whole: Int = 200) -> MembersList? {
        let tag = call { store.list(channel, cursor: cursor, limit: limit, whole: whole, tag: $0, at: fixture.now) }
        _ = fixture.run { lists[tag] != nil }
        return answer(lists[tag])
    }

    private func note() { if isInsideCall { toldInsideCall += 1 } }

    package func membersChanged(_ result: Result<MembersTip, WireError>, tag: RequestTag) {
        note()
        tips[tag] = result
    }

    package func membersRefreshed(_ result: Result<MembersLease, WireError>, tag: RequestTag) {
        note()
        leases[tag] = result
    }

    package func membersReaped(_ result: Result<Int, WireError>, tag: RequestTag) {
        note()
        reaps[tag] = result
    }

    package func membersSwept(_ result: Result<MembersSwept, WireError>, partition: Int, tag: RequestTag) {
        note()
        sweeps[tag] = result
    }

    package func membersListed(_ result: Result<MembersList, WireError>, tag: RequestTag) {
        note()
        lists[tag] = result
    }

    package func heard(_ news: MembersNews, channel: Name) {
        note()
        guard channel == self.channel else { return }
        if case .rejoin = news.kind { rejoins.append(news) } else { self.news.append(news) }
    }

    package func memberStoreHealth(_ health: BackendHealth) {
        note()
        isUp = health == .up
    }
}

private final class HookReader: HookQueueDelegate {
    var page: HookPage?

    func claimed(_ result: Result<HookPage, WireError>, partition: Int, tag: RequestTag) { page = try? result.get() }
}
