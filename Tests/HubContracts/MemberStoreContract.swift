import HubBase
import HubCore
import HubWire
import Testing

/// What the member store's contract needs from an implementation under test.
package protocol MemberStoreFixture: AnyObject {
    /// Nodes share one backend. Timers: `PresenceStoreContract.timers`.
    func makeMemberNode(incarnation: Name) -> any MemberStore
    /// The webhooks' queues that the nodes' channels are told in, of all kinds.
    var memberHooks: any HookQueue { get }
    /// The node hears the channel once this returns.
    func carry(_ channel: Name, on node: any MemberStore)
    var now: Instant { get }
    func run(until condition: () -> Bool) -> Bool
    func pass(_ span: Span)
    /// The channel's members end with their time to live, as when nobody swept for long.
    func endMembers(of channel: Name)
}

package struct MemberStoreCheck: Sendable, CustomTestStringConvertible {
    package let name: String
    package let run: @Sendable (any MemberStoreFixture) -> Void

    package var testDescription: String { name }
}

/// What every member store promises. Each check has its own channel.
package enum MemberStoreContract {
    package static let checks: [MemberStoreCheck] = [
        MemberStoreCheck(name: "join, leave and update are three different events, told to every node in one order", run: threeEvents),
        MemberStoreCheck(name: "a user on two nodes is one member until the last has gone", run: twoNodes),
        MemberStoreCheck(name: "saying again what is known tells nothing", run: repeated),
        MemberStoreCheck(name: "a call of many is answered with where the channel stands, and told at once", run: batch),
        MemberStoreCheck(name: "nothing is told from inside a call", run: neverInside),
        MemberStoreCheck(name: "a node that isn't heard of is dead, and its users leave once, whoever takes them out", run: deadNode),
        MemberStoreCheck(name: "a renewed lease doesn't end, and a living node isn't taken out", run: renewed),
        MemberStoreCheck(name: "a node that was taken out must say all again", run: takenOut),
        MemberStoreCheck(name: "nobody is taken for dead by one who comes late itself", run: late),
        MemberStoreCheck(name: "who only looks on sees the dead too, and needs no members", run: observer),
        MemberStoreCheck(name: "a small list comes whole, a large one in pages that hold everybody", run: pages),
        MemberStoreCheck(name: "a channel that nobody was ever in is empty", run: unknown),
        MemberStoreCheck(name: "backends are told once when the first member comes and once when the last one goes", run: occupied),
        MemberStoreCheck(
            name: "when all nodes of a channel are gone, whoever sweeps takes their members out and tells, once", run: allGone),
        MemberStoreCheck(
            name: "what all nodes said may have ended by itself before anybody sweeps: that's told all the same", run: allEnded),
        MemberStoreCheck(
            name: "a sweep leaves a channel to whoever lives in it, and when that one has left the dead go too", run: besideTheLiving),
        MemberStoreCheck(name: "a sweep after a long time without any finds nobody dead for a hold", run: sweptLate),
        MemberStoreCheck(name: "names of all shapes come back as they are", run: names),
    ]

    private static func threeEvents(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:three")
        #expect(one.change(["alice": 1])?.isNew == true)
        #expect(two.change(["bob": 2])?.occupancy == 2)
        #expect(one.change(["alice": 3])?.isNew == false)
        #expect(two.change(["bob": 0])?.occupancy == 1)
        let told = ["joined alice 1", "joined bob 2", "updated alice 3", "left bob 0"]
        #expect(fixture.run { one.told == told && two.told == told }, "\(one.told) \(two.told)")
        expectChained(one.news)
        #expect(one.news.map(\.occupancy) == [1, 2, 2, 1])
    }

    private static func twoNodes(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:two")
        one.change(["alice": 1])
        two.change(["alice": 1])
        one.change(["alice": 0])
        #expect(one.list()?.members == [MemberEntry(user: "alice", devices: 1)])
        two.change(["alice": 0])
        let told = ["joined alice 1", "updated alice 2", "updated alice 1", "left alice 0"]
        #expect(fixture.run { two.told == told }, "\(two.told)")
    }

    private static func repeated(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:again")
        let first = one.change(["alice": 1, "bob": 1])
        let second = one.change(["alice": 1, "bob": 1])
        #expect(first?.sequence == second?.sequence && second?.occupancy == 2)
        one.change(["carol": 0])
        one.change(["alice": 0])
        one.change(["alice": 0])
        #expect(fixture.run { two.told.last == "left alice 0" })
        fixture.pass(.milliseconds(50))
        #expect(two.told.count == 3, "\(two.told)")
    }

    private static func batch(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:batch")
        let users = Dictionary(uniqueKeysWithValues: (0..<MemberLimits.changes).map { (Name(validating: "user\($0)")!, UInt32(1)) })
        #expect(one.change(users)?.occupancy == UInt64(MemberLimits.changes))
        #expect(fixture.run { two.news.first?.users.count == MemberLimits.changes && two.news.count == 1 })
        #expect(one.change(users.mapValues { _ in 0 })?.occupancy == 0)
        #expect(fixture.run { two.news.last?.kind == .left && two.news.last?.users.count == MemberLimits.changes })
    }

    private static func neverInside(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:inside")
        one.change(["alice": 1])
        _ = one.refresh()
        _ = one.list()
        _ = one.reap(two.incarnation)
        #expect(one.toldInsideCall == 0)
    }

    private static func deadNode(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:dead")
        one.change(["alice": 1, "both": 1])
        let users = Dictionary(uniqueKeysWithValues: (0..<30).map { (Name(validating: "gone\($0)")!, UInt32(1)) })
        two.change(users)
        two.change(["both": 1])
        #expect(one.reap(two.incarnation) == 0, "it lives")
        // One stays, two is silent.
        var dead: [Name] = []
        for _ in 0..<8 where dead.isEmpty {
            fixture.pass(.milliseconds(600))
            dead = one.refresh()?.dead ?? []
        }
        #expect(dead == [two.incarnation])
        #expect(one.reap(two.incarnation) == 30)
        #expect(one.reap(two.incarnation) == 0)
        #expect(one.refresh()?.dead == [])
        #expect(fixture.run { one.told.filter { $0.hasPrefix("left") }.count == 30 }, "\(one.told)")
        #expect(one.told.contains("updated both 1"))
        #expect(Set(one.list()?.members.map(\.user) ?? []) == ["alice", "both"])
        expectChained(one.news)
    }

    private static func renewed(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:renewed")
        one.change(["alice": 1])
        two.change(["bob": 1])
        for _ in 0..<6 {
            fixture.pass(.milliseconds(500))
            #expect(two.refresh()?.dead == [])
            let lease = one.refresh()
            #expect(lease?.isKnown == true && lease?.dead == [] && lease?.occupancy == 2)
            #expect(lease?.othersEnd.map { $0 > .milliseconds(1_500) } == true)
            #expect(one.reap(two.incarnation) == 0)
        }
        #expect(one.told == ["joined alice 1", "joined bob 1"] || one.told.count == 2)
    }

    private static func takenOut(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:out")
        one.change(["alice": 1])
        two.change(["bob": 1])
        for _ in 0..<8 where one.refresh()?.dead.isEmpty != false { fixture.pass(.milliseconds(600)) }
        #expect(one.reap(two.incarnation) == 1)
        #expect(two.refresh()?.isKnown == false)
        #expect(two.change(["bob": 1])?.isNew == true)
        #expect(two.refresh()?.isKnown == true)
        #expect(fixture.run { one.told == ["joined alice 1", "joined bob 1", "left bob 0", "joined bob 1"] }, "\(one.told)")
    }

    private static func late(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:late")
        one.change(["alice": 1])
        two.change(["bob": 1])
        for _ in 0..<6 { fixture.pass(.milliseconds(500)) }
        // Both come late: whoever is first can't know that it's the only one who was silent.
        #expect(one.refresh()?.dead == [])
        #expect(one.reap(two.incarnation) == 0)
        #expect(two.refresh()?.isKnown == true)
        #expect(one.refresh()?.dead == [])
        #expect(one.told.allSatisfy { $0.hasPrefix("joined") })
    }

    private static func observer(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:observer")
        #expect(one.refresh(isObserver: true) == MembersLease(isKnown: true, sequence: 0, begun: 0, occupancy: 0, othersEnd: nil, dead: []))
        #expect(one.refresh()?.isKnown == false)
        two.change(["bob": 1])
        #expect(one.refresh(isObserver: true)?.occupancy == 1)
        for _ in 0..<8 where one.refresh(isObserver: true)?.dead.isEmpty != false { fixture.pass(.milliseconds(600)) }
        #expect(one.refresh(isObserver: true)?.dead == [two.incarnation])
        #expect(one.reap(two.incarnation) == 1)
        #expect(one.list()?.occupancy == 0)
    }

    private static func pages(_ fixture: any MemberStoreFixture) {
        let (one, _) = MemberNode.pair(fixture, "c:pages")
        var expected: Set<Name> = []
        for call in 0..<14 {
            let users = (0..<50).map { Name(validating: "user-\(call)-\($0)")! }
            expected.formUnion(users)
            one.change(Dictionary(uniqueKeysWithValues: users.map { ($0, 1) }))
        }
        let whole = one.list(whole: 1_000)
        #expect(whole?.cursor == nil && Set(whole?.members.map(\.user) ?? []) == expected)
        var found: Set<Name> = []
        var cursor: String? = "0"
        var calls = 0
        while let next = cursor, calls < 100 {
            let page = one.list(cursor: next, limit: 60, whole: 0)
            #expect(page?.occupancy == 700 && page?.sequence == whole?.sequence)
            found.formUnion(page?.members.map(\.user) ?? [])
            #expect(page.map { $0.members.count < 400 } == true)
            cursor = page?.cursor
            calls += 1
        }
        #expect(found == expected && calls > 3)
    }

    private static func unknown(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:never")
        #expect(one.list() == MembersList(members: [], sequence: 0, begun: 0, occupancy: 0, cursor: nil))
        #expect(one.change(["alice": 0])?.isNew == true)
        #expect(one.list()?.sequence == 0)
        #expect(one.reap(two.incarnation) == 0)
    }

    private static func occupied(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:occupied")
        for _ in 0..<2 {
            one.change(["alice": 1])
            two.change(["alice": 1, "bob": 1])
            one.change(["alice": 0])
            two.change(["alice": 0, "bob": 0])
            two.change(["bob": 0])
        }
        #expect(one.toldBackends() == ["occupied", "vacated", "occupied", "vacated"])
    }

    private static func allGone(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:gone")
        let third = MemberNode(fixture, "cccccccccccc", "c:gone")
        one.change(["alice": 1, "both": 1])
        two.change(["bob": 2, "both": 1])
        for _ in 0..<16 {
            #expect(one.refresh()?.isKnown == true && two.refresh()?.isKnown == true)
            #expect(third.sweep() == MembersSwept(), "all live")
        }
        #expect(third.sweeping { third.list()?.occupancy == 0 })
        fixture.pass(.milliseconds(50))
        #expect(Set(third.told.filter { $0.hasPrefix("left") }) == ["left alice 0", "left bob 0", "left both 0"], "\(third.told)")
        #expect(third.sweptUsers == 3 && third.news.last?.occupancy == 0)
        #expect(third.toldBackends() == ["occupied", "vacated"])
        // The late ones begin a new round, which is told as such.
        #expect(one.refresh()?.isKnown == false)
        one.change(["alice": 1])
        #expect(third.toldBackends() == ["occupied", "vacated", "occupied"])
        expectChained(third.news)
    }

    private static func allEnded(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:ended")
        one.change(["alice": 1])
        fixture.endMembers(of: "c:ended")
        #expect(two.list()?.occupancy == 0)
        #expect(two.toldBackends() == ["occupied"])
        #expect(two.sweeping { two.toldBackends() == ["occupied", "vacated"] })
        for _ in 0..<20 { #expect(two.sweep() == MembersSwept()) }
        #expect(two.toldBackends() == ["occupied", "vacated"])
    }

    private static func besideTheLiving(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:beside")
        let third = MemberNode(fixture, "cccccccccccc", "c:beside")
        one.change(["alice": 1])
        two.change(["bob": 1])
        // One renews what it said, but leaves the dead to others; at last it goes itself.
        var isKept = true
        _ = third.sweeping(meanwhile: { if one.refresh()?.isKnown != true { isKept = false } }, atMost: 40) { false }
        #expect(isKept, "who renews what it said isn't taken out")
        #expect(third.list()?.members.contains(MemberEntry(user: "alice", devices: 1)) == true)
        one.change(["alice": 0])
        #expect(third.sweeping { third.list()?.occupancy == 0 })
        #expect(third.toldBackends() == ["occupied", "vacated"])
    }

    private static func sweptLate(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:blind")
        one.change(["alice": 1])
        for _ in 0..<12 { _ = two.sweep() }
        // Longer than a lease and the longest gap: all may have been cut off.
        fixture.pass(.milliseconds(3_000))
        #expect(two.sweep() == MembersSwept())
        fixture.pass(.milliseconds(200))
        #expect(two.sweep() == MembersSwept())
        #expect(one.refresh()?.isKnown == true)
        for _ in 0..<10 { #expect(two.sweep() == MembersSwept()) }
        #expect(two.list()?.occupancy == 1 && two.toldBackends() == ["occupied"])
    }

    private static func names(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "a:b:{c}:1:2")
        let users = ["a:b", "0", "{x}", "böb", "1:1:x", String(repeating: "n", count: 255)].map { Name(validating: $0)! }
        one.change(Dictionary(uniqueKeysWithValues: users.map { ($0, 1) }))
        #expect(fixture.run { Set(two.news.first?.users.map(\.user) ?? []) == Set(users) })
        #expect(Set(one.list()?.members.map(\.user) ?? []) == Set(users))
        #expect(one.refresh()?.isKnown == true)
    }

    private static func expectChained(_ news: [MembersNews]) {
        for (before, after) in zip(news, news.dropFirst()) { #expect(after.sequence == before.sequence + 1) }
    }
}

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
    package func change(_ users: [Name: UInt32]) -> MembersTip? {
        let counts = users.map { MemberCount(user: $0.key, devices: $0.value) }
        let tag = call { store.change(counts, in: channel, tag: $0, at: fixture.now) }
        _ = fixture.run { tips[tag] != nil }
        return answer(tips[tag])
    }

    package func refresh(isObserver: Bool = false) -> MembersLease? {
        let tag = call { store.refresh(channel, isObserver: isObserver, tag: $0, at: fixture.now) }
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
