import HubBase
import HubCore
import HubWire
import Testing

/// What every implementation of the webhooks' queues promises, filled by the presence store of the same kind. Each check has its own users.
package enum HookQueueContract {
    package static let checks: [HookQueueCheck] = [
        HookQueueCheck("transitions are queued in order, each with what it was and when", transitions),
        HookQueueCheck("a sweep's transitions are queued too", sweeps),
        HookQueueCheck("kinds that nobody asked for aren't queued, and without rules nothing is", kinds),
        HookQueueCheck("what is settled is gone, once, and the rest stays in order", settling),
        HookQueueCheck("what is given up counts as lost, once, until the receiver knows", givingUp),
        HookQueueCheck("a full queue loses its oldest, and counts them", overflow),
        HookQueueCheck("a partition is one node's until it lets go", letGo),
        HookQueueCheck("who holds a partition that another asks for is told so, once, and keeps it as long as it likes", wanted),
        HookQueueCheck("a node that says nothing any more loses its partition at the end of the lease", leaseEnds),
        HookQueueCheck("who doesn't hold a partition reads nothing of it, but may settle", notHolder),
        HookQueueCheck("nothing is told from inside a call", neverInside),
    ]

    static let rules = HookRules(kinds: HookKinds([.userOnline, .userOffline]), perPartition: 10_000, keep: .seconds(3600))
    static var all: HookRules {
        var all = rules
        all.kinds = HookKinds(HookKind.allCases)
        return all
    }

    static func transitions(_ fixture: any HookQueueFixture) {
        let node = HookNode(fixture, "aaaaaaaaaaaa", all)
        let user: Name = "hook|order \"é\""
        var versions: [UInt64] = []
        for (kind, connection) in [
            (.up(.online), "a-1"), (.up(.away), "a-1"), (.up(.online), "a-2"), (.down(grace: .zero), "a-2"), (.down(grace: .zero), "a-1"),
            (.up(.away), "a-3"),
        ] as [(PresenceOperation.Kind, Name)] {
            guard let version = node.apply(kind, user, connection) else { return giveUp("an operation was refused") }
            versions.append(version)
        }
        guard let page = node.claim(of: user, .take, limit: 100) else { return giveUp("no page") }
        #expect(page.holder == .us)
        #expect(page.events.map(\.kind) == [.userOnline, .userStatus, .userStatus, .userStatus, .userOffline, .userOnline])
        #expect(page.events.map(\.status) == [.online, .away, .online, .away, .offline, .away])
        #expect(page.events.map(\.version) == versions)
        #expect(page.events.allSatisfy { $0.name == user })
        #expect(zip(page.events, page.events.dropFirst()).allSatisfy { $0.id < $1.id })
        #expect(page.length == 6 && page.oldest == page.events[0].id.milliseconds && page.lost == 0)
        #expect(page.events.allSatisfy { $0.id.milliseconds <= page.now && page.now - $0.id.milliseconds < 60_000 })
        #expect(page.events.allSatisfy { $0.time <= $0.id.milliseconds && $0.id.milliseconds - $0.time < 60_000 })
    }

    static func sweeps(_ fixture: any HookQueueFixture) {
        let node = HookNode(fixture, "aaaaaaaaaaaa", rules)
        let (expired, left): (Name, Name) = ("hook-expired", "hook-grace")
        _ = node.apply(.up(.online), expired, "a-1")
        _ = node.apply(.up(.online), left, "a-2")
        _ = node.apply(.down(grace: .milliseconds(300)), left, "a-2")
        for user in [expired, left] {
            let isThere = node.sweeping(user) {
                node.claim(of: user, .take, limit: 10)?.events.map(\.kind) == [.userOnline, .userOffline]
            }
            #expect(isThere, "\(user)")
        }
    }

    static func kinds(_ fixture: any HookQueueFixture) {
        let user: Name = "hook-kinds"
        let node = HookNode(fixture, "aaaaaaaaaaaa", rules)
        _ = node.apply(.up(.online), user, "a-1")
        _ = node.apply(.up(.away), user, "a-1")
        #expect(node.claim(of: user, .take, limit: 10)?.events.map(\.kind) == [.userOnline])
        node.queue.setHookRules(.none)
        _ = node.apply(.down(grace: .zero), user, "a-1")
        #expect(node.claim(of: user, .take, limit: 10)?.events.map(\.kind) == [.userOnline])
        node.queue.setHookRules(rules)
        _ = node.apply(.up(.online), user, "a-1")
        #expect(node.claim(of: user, .take, limit: 10)?.events.map(\.kind) == [.userOnline, .userOnline])
    }

    static func settling(_ fixture: any HookQueueFixture) {
        let node = HookNode(fixture, "aaaaaaaaaaaa", rules)
        let user: Name = "hook-settled"
        node.flip(user, times: 3)
        guard let all = node.claim(of: user, .take, limit: 100)?.events, all.count == 6 else { return giveUp("six weren't queued") }
        #expect(node.claim(of: user, .take, limit: 2)?.events == Array(all[..<2]))
        let ids = all[..<4].map(\.id)
        for _ in 0..<2 {
            let page = node.claim(of: user, .take, settled: ids, limit: 100)
            #expect(page?.events == Array(all[4...]) && page?.length == 2 && page?.lost == 0)
        }
        let empty = node.claim(of: user, .take, settled: all[4...].map(\.id), limit: 100)
        #expect(empty?.events == [] && empty?.length == 0 && empty?.oldest == nil)
        node.flip(user, times: 1)
        #expect(node.claim(of: user, .take, limit: 100)?.events.first.map { $0.id > all[5].id } == true)
    }

    static func givingUp(_ fixture: any HookQueueFixture) {
        let node = HookNode(fixture, "aaaaaaaaaaaa", rules)
        let user: Name = "hook-given-up"
        node.flip(user, times: 2)
        guard let all = node.claim(of: user, .take, limit: 100)?.events, all.count == 4 else { return giveUp("four weren't queued") }
        for _ in 0..<2 {
            let page = node.claim(of: user, .take, settled: [all[0].id], dropped: [all[1].id, all[2].id], limit: 100)
            #expect(page?.events == [all[3]] && page?.givenUp == 2 && page?.told == 0)
        }
        #expect(node.claim(of: user, .take, told: 2, limit: 1)?.told == 2)
        // One who knows more than there is knows all.
        #expect(node.claim(of: user, .take, told: 77, limit: 1)?.told == 2)
        #expect(node.claim(of: user, .take, told: 1, limit: 1)?.told == 2)
    }

    static func overflow(_ fixture: any HookQueueFixture) {
        var few = rules
        few.perPartition = 200
        let node = HookNode(fixture, "aaaaaaaaaaaa", few)
        let user: Name = "hook-overflow"
        let versions = node.flip(user, times: 300)
        guard let page = node.claim(of: user, .take, limit: 1_000) else { return giveUp("no page") }
        // Redis drops blocks of a hundred at most.
        #expect((200...300).contains(page.length))
        #expect(page.events.count == page.length && page.overflowed == UInt64(600 - page.length))
        #expect(page.events.map(\.version) == versions.suffix(page.length))
    }

    static func letGo(_ fixture: any HookQueueFixture) {
        let (one, two) = HookNode.pair(fixture, rules)
        let user: Name = "hook-let-go"
        one.flip(user, times: 1)
        #expect(one.claim(of: user, .take, limit: 10)?.events.count == 2)
        guard fixture.nodeLimit > 1 else { return }
        guard case .other(let left)? = two.claim(of: user, .take, limit: 10)?.holder else { return giveUp("held by nobody") }
        #expect(left > .zero && left <= HookNode.lease)
        #expect(one.claim(of: user, .take, limit: 10)?.holder == .us)
        #expect(one.claim(of: user, .letGo)?.holder == .nobody)
        #expect(two.claim(of: user, .take, limit: 10)?.events.count == 2)
        // What isn't held can't be let go.
        #expect(one.claim(of: user, .letGo).map { if case .other = $0.holder { true } else { false } } == true)
        #expect(two.claim(of: user, .take)?.holder == .us)
    }

    static func wanted(_ fixture: any HookQueueFixture) {
        guard fixture.nodeLimit > 1 else { return }
        let (one, two) = HookNode.pair(fixture, rules)
        let user: Name = "hook-wanted"
        // What nobody holds is taken, and then it isn't wanted.
        #expect(one.claim(of: user, .want).map { $0.holder == .us && !$0.isWanted } == true)
        for _ in 0..<2 {
            guard case .other(let left)? = two.claim(of: user, .want)?.holder else { return giveUp("held by nobody") }
            #expect(left <= HookNode.lease)
        }
        #expect(one.claim(of: user, .take).map { $0.holder == .us && $0.isWanted } == true)
        #expect(one.claim(of: user, .take).map { $0.holder == .us && !$0.isWanted } == true)
        _ = two.claim(of: user, .want)
        #expect(one.claim(of: user, .letGo)?.holder == .nobody)
        #expect(two.claim(of: user, .want).map { $0.holder == .us && !$0.isWanted } == true)
        // Asking prolongs nothing.
        var holder: HookPage.Holder?
        for _ in 0..<100 {
            holder = one.claim(of: user, .want)?.holder
            if holder == .us { break }
            fixture.pass(.milliseconds(100))
        }
        #expect(holder == .us)
    }

    static func leaseEnds(_ fixture: any HookQueueFixture) {
        guard fixture.nodeLimit > 1 else { return }
        let (one, two) = HookNode.pair(fixture, rules)
        let user: Name = "hook-lease"
        one.flip(user, times: 1)
        #expect(one.claim(of: user, .take)?.holder == .us)
        var holder: HookPage.Holder?
        for _ in 0..<100 {
            holder = two.claim(of: user, .take, limit: 10)?.holder
            if holder == .us { break }
            fixture.pass(.milliseconds(100))
        }
        #expect(holder == .us)
        #expect(one.claim(of: user, .take, limit: 10)?.events == [])
    }

    static func notHolder(_ fixture: any HookQueueFixture) {
        guard fixture.nodeLimit > 1 else { return }
        let (one, two) = HookNode.pair(fixture, rules)
        let user: Name = "hook-late"
        one.flip(user, times: 2)
        guard let all = one.claim(of: user, .take, limit: 10)?.events, all.count == 4 else { return giveUp("four weren't queued") }
        _ = one.claim(of: user, .letGo)
        _ = two.claim(of: user, .take, limit: 10)
        // It delivered them before it stood still.
        let late = one.claim(of: user, .take, settled: [all[0].id, all[1].id], limit: 10)
        #expect(late?.events == [])
        #expect(two.claim(of: user, .take, limit: 10)?.events == Array(all[2...]))
    }

    static func neverInside(_ fixture: any HookQueueFixture) {
        let node = HookNode(fixture, "aaaaaaaaaaaa", rules)
        #expect(node.claim(of: "hook-inside", .take, limit: 10) != nil)
        #expect(node.toldInsideCall == 0)
    }
}

/// One node of a check: store and queue, and calls that wait for their answers.
final class HookNode: HookQueueDelegate {
    static let lease = Span.milliseconds(1_500)

    let queue: any HookQueue
    private let store: any PresenceStore
    private let incarnation: Name
    private let recorder = PresenceRecorder()
    private let fixture: any HookQueueFixture
    private var lastTag: UInt64 = 0
    private var pages: [RequestTag: HookPage] = [:]
    private var isInsideCall = false
    private(set) var toldInsideCall = 0

    init(_ fixture: any HookQueueFixture, _ incarnation: Name, _ rules: HookRules) {
        self.fixture = fixture
        self.incarnation = incarnation
        (store, queue) = fixture.makeHookNode(incarnation: incarnation, name: "north", rules: rules)
        store.delegate = recorder
        queue.hookDelegate = self
        store.start(at: fixture.now)
        _ = fixture.run { recorder.health.contains(.up) }
    }

    static func pair(_ fixture: any HookQueueFixture, _ rules: HookRules) -> (HookNode, HookNode) {
        let first = HookNode(fixture, "aaaaaaaaaaaa", rules)
        return (first, fixture.nodeLimit > 1 ? HookNode(fixture, "bbbbbbbbbbbb", rules) : first)
    }

    func claimed(_ result: Result<HookPage, WireError>, partition: Int, tag: RequestTag) {
        if isInsideCall { toldInsideCall += 1 }
        if case .success(let page) = result { pages[tag] = page }
    }

    /// nil when it was refused or not answered.
    func claim(
        of user: Name, _ holding: HookClaim.Holding, settled: [HookEventID] = [], dropped: [HookEventID] = [], told: UInt64 = 0,
        limit: Int = 0
    ) -> HookPage? {
        lastTag += 1
        let tag = RequestTag(high: 7, low: lastTag)
        let claim = HookClaim(
            holding: holding, lease: HookNode.lease, settled: settled, dropped: dropped, told: told, limit: limit)
        isInsideCall = true
        queue.claim(claim, partition: Partition.of(user), tag: tag, at: fixture.now)
        isInsideCall = false
        _ = fixture.run { pages[tag] != nil }
        guard var page = pages.removeValue(forKey: tag) else { return nil }
        // Other checks' users may share the partition.
        page.events.removeAll { $0.name != user }
        return page
    }

    func apply(_ kind: PresenceOperation.Kind, _ user: Name, _ connection: Name) -> UInt64? {
        apply([(kind, connection)], user)?.last
    }

    private func apply(_ kinds: [(PresenceOperation.Kind, Name)], _ user: Name) -> [UInt64]? {
        lastTag += 1
        let tag = RequestTag(high: 9, low: lastTag)
        let operations = kinds.map {
            PresenceOperation(
                kind: $0.0, user: user, connection: $0.1, node: incarnation, device: "phone", versionFloor: 0)
        }
        store.apply(operations, partition: Partition.of(user), tag: tag, at: fixture.now)
        _ = fixture.run { recorder.applied[tag] != nil }
        guard case .success(let versions)? = recorder.applied[tag] else { return nil }
        return versions
    }

    /// Online and offline again and again; the versions.
    @discardableResult func flip(_ user: Name, times: Int) -> [UInt64] {
        var versions: [UInt64] = []
        for first in stride(from: 0, to: times, by: 25) {
            let kinds = (first..<min(first + 25, times)).flatMap { _ -> [(PresenceOperation.Kind, Name)] in
                [(.up(.online), "a-1"), (.down(grace: .zero), "a-1")]
            }
            versions += apply(kinds, user) ?? []
        }
        return versions
    }

    /// Sweeps the user's partition until `condition` holds.
    func sweeping(_ user: Name, until condition: () -> Bool) -> Bool {
        for _ in 0..<80 {
            lastTag += 1
            store.sweep(partition: Partition.of(user), tag: RequestTag(high: 9, low: lastTag), at: fixture.now)
            fixture.pass(.milliseconds(110))
            if condition() { return true }
        }
        return false
    }
}
