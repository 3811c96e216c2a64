import HubBase
import HubContracts
import HubCore
import HubRedis
import HubWire
import Testing

/// Somebody else's hands, and full memory, at the queues of webhooks.
@Suite(.serialized) struct HookQueueFaultTests {
    private static let user: Name = "hook-fault"
    private static let rules = HookRules(kinds: HookKinds([.userOnline, .userOffline]), perPartition: 1_000, keep: .seconds(3600))

    private final class Told: HookQueueDelegate {
        var last: Result<HookPage, WireError>?
        func claimed(_ result: Result<HookPage, WireError>, partition: Int, tag: RequestTag) { last = result }
    }

    private static func key(_ kind: StaticString) -> [UInt8] { KeySpace(prefix: "hub")!.key(Partition.of(user), kind) }

    private struct Node {
        let fixture: RedisFixture
        let store: any PresenceStore
        let queue: any HookQueue
        let told = Told()
        let client: RawClient

        init(_ fixture: RedisFixture) {
            self.fixture = fixture
            (store, queue) = fixture.makeHookNode(incarnation: "aaaaaaaaaaaa", name: "north", rules: rules)
            queue.hookDelegate = told
            store.start(at: fixture.now)
            client = fixture.server.client()
            // Refused until the link is up.
            var isUp = false
            for _ in 0..<200 where !isUp {
                if case .success? = claim(limit: 1) { isUp = true } else { fixture.stepped.pass(.milliseconds(100)) }
            }
            #expect(isUp)
        }

        func claim(limit: Int, settled: [HookEventID] = [], dropped: [HookEventID] = []) -> Result<HookPage, WireError>? {
            told.last = nil
            let claim = HookClaim(holding: .take, lease: .seconds(60), settled: settled, dropped: dropped, limit: limit)
            queue.claim(claim, partition: Partition.of(user), tag: RequestTag(high: 1, low: 1), at: fixture.now)
            _ = fixture.run { told.last != nil }
            return told.last
        }

        func page(limit: Int = 100, settled: [HookEventID] = [], dropped: [HookEventID] = []) -> HookPage? {
            try? claim(limit: limit, settled: settled, dropped: dropped)?.get()
        }

        /// The user's state in the record afterwards.
        func apply(_ kind: PresenceOperation.Kind, _ state: String) -> Bool {
            let operation = PresenceOperation(
                kind: kind, user: user, connection: "a-1", node: "north", device: "phone", versionFloor: 0)
            store.apply([operation], partition: Partition.of(user), tag: RequestTag(high: 2, low: 1), at: fixture.now)
            let record = KeySpace(prefix: "hub")!.key(Partition.of(user), KeySpace.Kind.user, user.bytes)
            return fixture.run { client.text([[UInt8]("HGET".utf8), record, [UInt8]("s".utf8)]) == "\"\(state)\"" }
        }
    }

    @Test(
        "a queue, a lease or counts that hold something else are told by name and left as they are, and presence goes on",
        arguments: [("hq", "SET"), ("hl", "RPUSH"), ("hl", "SET"), ("hm", "SET")])
    func foreignKeys(kind: String, command: String) {
        let node = Node(RedisFixture())
        let key = Self.key(kind == "hq" ? KeySpace.Kind.hookQueue : kind == "hl" ? KeySpace.Kind.hookLease : KeySpace.Kind.hookCounts)
        _ = node.client.text([[UInt8]("DEL".utf8), key])
        _ = node.client.text([[UInt8](command.utf8), key, [UInt8]("mine".utf8)])
        func dump() -> String { node.client.text([[UInt8]("DUMP".utf8), key]) + node.client.text([[UInt8]("PTTL".utf8), key]) }
        let before = dump()
        #expect(node.apply(.up(.online), "online"))
        #expect(node.apply(.down(grace: .zero), "offline"))
        guard case .failure(let error)? = node.claim(limit: 10) else {
            Issue.record("a claim succeeded")
            return
        }
        #expect(error == WireError.foreignKey("some of the webhooks") && !error.mayRetry)
        #expect(dump() == before)
    }

    @Test("entries of others in the queue are read as unreadable, and can be given up; ours beside them are whole")
    func foreignEntries() {
        let node = Node(RedisFixture())
        let queue = Self.key(KeySpace.Kind.hookQueue)
        func add(_ words: String...) {
            _ = node.client.text([[UInt8]("XADD".utf8), queue, [UInt8]("*".utf8)] + words.map { [UInt8]($0.utf8) })
        }
        add("name", "value")
        #expect(node.apply(.up(.online), "online"))
        add("k", "x", "d", "online", "v", "1", "t", "1", "n", "ann")
        add("k", "n", "d", "online", "v", "99999999999999999999", "t", "1", "n", "ann")
        add("k", "n", "d", "there", "v", "1", "t", "1", "n", "ann")
        add("k", "n", "d", "online", "v", "1", "t", "1", "n", "a\u{7}b")
        add("k", "o", "d", "many", "v", "1", "t", "1", "n", "room")
        guard let page = node.page() else {
            Issue.record("no page")
            return
        }
        #expect(page.events.map(\.isReadable) == [false, true, false, false, false, false, false])
        #expect(page.events[1].name == Self.user && page.events[1].kind == .userOnline)
        let after = node.page(settled: [page.events[1].id], dropped: page.events.filter { !$0.isReadable }.map(\.id))
        #expect(after?.length == 0 && after?.givenUp == 6)
    }

    @Test("an entry at the end of time keeps ours out, which counts as lost, and breaks nothing else")
    func endOfTime() {
        let node = Node(RedisFixture())
        _ = node.client.text(
            [[UInt8]("XADD".utf8), Self.key(KeySpace.Kind.hookQueue)]
                + ["18446744073709551615-18446744073709551615", "k", "n"].map { [UInt8]($0.utf8) })
        #expect(node.apply(.up(.online), "online"))
        #expect(node.client.text([[UInt8]("HGET".utf8), Self.key(KeySpace.Kind.hookCounts), [UInt8]("x".utf8)]) == "\"1\"")
    }

    @Test("with memory full what was delivered is taken away all the same, and a lease is taken")
    func fullMemory() {
        let node = Node(RedisFixture())
        #expect(node.apply(.up(.online), "online"))
        #expect(node.apply(.down(grace: .zero), "offline"))
        guard let page = node.page(), page.events.count == 2 else {
            Issue.record("two weren't queued")
            return
        }
        _ = node.client.text([[UInt8]("DEL".utf8), Self.key(KeySpace.Kind.hookLease)])
        node.client.text("CONFIG", "SET", "maxmemory", "1")
        let after = node.page(settled: [page.events[0].id])
        #expect(after?.holder == .us && after?.events == [page.events[1]])
    }

    @Test("a lease of a clock that went back is cut to one from now, whoever asks")
    func clockBack() {
        let node = Node(RedisFixture())
        let key = Self.key(KeySpace.Kind.hookLease)
        // As if an hour had been taken away since another node, which has died, took the partition.
        _ = node.client.text([[UInt8]("SET".utf8), key] + ["bbbbbbbbbbbb", "PX", "3660000"].map { [UInt8]($0.utf8) })
        let page = node.page()
        #expect(page?.holder == .other(left: .seconds(60)), "\(String(describing: page))")
        let left = node.client.call([[UInt8]("PTTL".utf8), key]) { $0.integer(0) ?? 0 } ?? 0
        #expect(left > 50_000 && left <= 60_000, "\(left) ms")
        // One that's only somewhat longer than ours is of a node with another setting.
        _ = node.client.text([[UInt8]("PEXPIRE".utf8), key, [UInt8]("63000".utf8)])
        #expect(node.page().map { if case .other(let left) = $0.holder { left > .seconds(61) } else { false } } == true)
    }

    @Test("each key of the queues has an end")
    func timesToLive() {
        let fixture = RedisFixture()
        let node = Node(fixture)
        #expect(node.apply(.up(.online), "online"))
        let first = node.page()?.events.first?.id
        _ = node.page(dropped: [first].compactMap { $0 })
        #expect(node.apply(.down(grace: .zero), "offline"))
        for kind in [KeySpace.Kind.hookQueue, KeySpace.Kind.hookLease, KeySpace.Kind.hookCounts] {
            let left = node.client.call([[UInt8]("PTTL".utf8), Self.key(kind)]) { $0.integer(0) ?? 0 } ?? 0
            #expect(left > 0 && left <= 7_200_000, "\(kind): \(left) ms")
        }
    }
}
