import HubBase
import HubCore
import HubRedis
import HubWire
import Testing

/// Somebody else's keys under our names (issue 4, "Bad input"): each is named, none is changed, and whoever doesn't need it isn't harmed. Those of
/// channels: HistoryFaultTests.
@Suite(.serialized) struct ForeignKeyTests {
    static let keys = KeySpace(prefix: "hub")!
    static let partition = 11

    /// A node on a Redis, with users of one partition, and one of another.
    final class Bench {
        let fixture = RedisFixture()
        let node: Node
        let client: RawClient
        let users: [Name]
        let elsewhere: Name

        init() {
            node = Node(fixture, "aaaaaaaaaaaa")
            client = fixture.server.client()
            users = HubRedisTests.users(3, of: ForeignKeyTests.partition, "foreign")
            elsewhere = HubRedisTests.users(1, of: ForeignKeyTests.partition + 1, "foreign")[0]
            #expect(node.goUp())
        }

        func record(_ user: Name) -> [UInt8] { ForeignKeyTests.keys.key(ForeignKeyTests.partition, KeySpace.Kind.user, user.bytes) }

        /// Runs commands in which KEY stands for a key.
        func make(_ commands: [String], _ key: [UInt8]) {
            for command in commands { _ = client.text(command.split(separator: " ").map { $0 == "KEY" ? key : [UInt8]($0.utf8) }) }
        }

        func state(_ key: [UInt8]) -> String {
            ["DUMP", "PTTL"].map { client.text([[UInt8]($0.utf8), key]) }.joined()
        }

        func applied(_ kind: PresenceOperation.Kind, _ users: [Name]) -> String {
            let tag = node.apply(kind, users)
            _ = fixture.run { node.applied[tag] != nil }
            return HistoryFaultTests.code(node.applied[tag])
        }

        func swept() -> String {
            let tag = node.sweep(ForeignKeyTests.partition)
            _ = fixture.run { node.sweeps[tag] != nil }
            return HistoryFaultTests.code(node.sweeps[tag])
        }

        func read(_ users: [Name]) -> PresenceSnapshot? {
            let tag = node.read(users)
            _ = fixture.run { node.reads[tag] != nil }
            return try? node.reads[tag]?.get()
        }

        func inspected(_ user: Name) -> String {
            let tag = node.inspect(user)
            _ = fixture.run { node.inspections[tag] != nil }
            return HistoryFaultTests.code(node.inspections[tag])
        }

        func tells(_ key: [UInt8]) -> Bool {
            let text = String(decoding: key, as: UTF8.self)
            return fixture.run { node.foreign.contains(text) }
        }
    }

    struct OfPartition: Sendable, CustomTestStringConvertible {
        var kind: StaticString
        var made: [String]
        var testDescription: String { "\(kind) \(made)" }
    }

    static let ofPartition: [OfPartition] = [
        OfPartition(kind: KeySpace.Kind.leases, made: ["SET KEY mine"]),
        OfPartition(kind: KeySpace.Kind.grace, made: ["RPUSH KEY mine"]),
        OfPartition(kind: KeySpace.Kind.presenceMeta, made: ["SET KEY mine"]),
        OfPartition(kind: KeySpace.Kind.presenceMeta, made: ["RPUSH KEY mine"]),
        OfPartition(kind: KeySpace.Kind.presenceMeta, made: ["HSET KEY name value"]),
    ]

    @Test(
        "a partition's key that holds something else is named and left; the partition's users wait, all others don't",
        arguments: ofPartition)
    func partitions(_ one: OfPartition) {
        let bench = Bench()
        let key = Self.keys.key(Self.partition, one.kind)
        bench.make(one.made, key)
        let before = bench.state(key)
        #expect(bench.applied(.up(.online), bench.users) == "foreignKey")
        #expect(bench.swept() == "foreignKey")
        #expect(bench.applied(.down(grace: .zero), [bench.users[0]]) == "foreignKey")
        #expect(bench.state(key) == before)
        #expect(bench.tells(key))
        // Whether they're online can't be told, and isn't: by no answer.
        #expect(bench.read([bench.elsewhere] + bench.users)?.unreadable == Set(bench.users))
        #expect(bench.inspected(bench.users[0]) == "foreignKey" && bench.inspected(bench.elsewhere) == "fine")
        // Nothing of those who couldn't be registered stands anywhere.
        #expect(bench.client.text([[UInt8]("EXISTS".utf8), bench.record(bench.users[1])]) == ":0")
        #expect(bench.applied(.up(.online), [bench.elsewhere]) == "fine")
        #expect(bench.read([bench.elsewhere])?.changes.map(\.status) == [.online])
        _ = bench.client.text([[UInt8]("DEL".utf8), key])
        #expect(bench.applied(.up(.online), bench.users) == "fine")
        #expect(bench.read(bench.users)?.unreadable == [] && bench.inspected(bench.users[0]) == "fine")
        #expect(bench.node.health == [.up])
    }

    @Test("a record with connections alone, of a user whom nobody ever saw, is a hub's")
    func neverSeen() {
        let bench = Bench()
        #expect(bench.applied(.up(.invisible), [bench.users[0]]) == "fine")
        #expect(bench.inspected(bench.users[0]) == "fine" && bench.read(bench.users)?.unreadable == [])
    }

    @Test(
        "a partition's feed does without a stream whose key holds something else, and leaves it",
        arguments: [["SET KEY mine"], ["XADD KEY 7-7 name value"]])
    func feedStream(_ made: [String]) {
        let bench = Bench()
        let key = Self.keys.key(Self.partition, KeySpace.Kind.presenceStream)
        bench.make(made, key)
        let before = bench.state(key)
        #expect(bench.applied(.up(.online), bench.users) == "fine")
        #expect(bench.applied(.up(.away), bench.users) == "fine")
        #expect(bench.fixture.run { bench.node.changes.count == 6 })
        #expect(bench.state(key) == before)
        #expect(bench.node.feedGaps == 0)
    }

    @Test(
        "a user's key that holds something else is named and left; the others of the same calls are registered, read and told",
        arguments: [["SET KEY mine"], ["RPUSH KEY mine"], ["HSET KEY name value"], ["HSET KEY s mine v 1"]])
    func records(_ made: [String]) {
        let bench = Bench()
        let key = bench.record(bench.users[1])
        bench.make(made, key)
        let before = bench.state(key)
        #expect(bench.applied(.up(.online), bench.users) == "foreignKey")
        #expect(bench.fixture.run { bench.node.changes.map(\.user) == [bench.users[0], bench.users[2]] })
        let snapshot = bench.read([bench.elsewhere] + bench.users)
        #expect(snapshot?.changes.map(\.user) == [bench.elsewhere] + bench.users)
        #expect(snapshot?.changes.map(\.status) == [.offline, .online, .offline, .online])
        #expect(snapshot?.unreadable == [bench.users[1]])
        #expect(bench.inspected(bench.users[1]) == (made[0].contains(" s ") ? "internal" : "foreignKey"))
        let alone = bench.node.apply(.up(.online), [bench.users[1]])
        #expect(bench.fixture.run { bench.node.applied[alone] != nil })
        if case .failure(let error)? = bench.node.applied[alone] { #expect(error.message.contains("\(bench.users[1])")) }
        #expect(bench.applied(.down(grace: .zero), [bench.users[1]]) == "fine")
        #expect(bench.state(key) == before)
        #expect(bench.tells(key))
        _ = bench.client.text([[UInt8]("DEL".utf8), key])
        #expect(bench.applied(.up(.online), bench.users) == "fine")
        #expect(bench.node.health == [.up])
    }

    @Test("a record that turned into something else is gone for its heartbeat, ends with its lease, and gets no time to live by either")
    func turnedRecord() {
        let bench = Bench()
        let key = bench.record(bench.users[1])
        #expect(bench.applied(.up(.online), bench.users) == "fine")
        bench.make(["SET KEY mine"], key)
        let before = bench.state(key)
        let refresh = bench.node.refresh(bench.users)
        #expect(bench.fixture.run { bench.node.refreshed[refresh] != nil })
        #expect(bench.node.refreshed[refresh] == .success([1]))
        #expect(bench.state(key) == before)
        // The lease is 2.4 s; until then sweeps keep the partition from looking blind.
        for _ in 0..<80 where bench.node.changes.count(where: { $0.status == .offline }) < 3 {
            #expect(bench.swept() == "fine")
            bench.fixture.pass(.milliseconds(60))
        }
        #expect(Set(bench.node.changes.filter { $0.status == .offline }.map(\.user)) == Set(bench.users))
        #expect(bench.state(key) == before)
    }

    @Test(
        "a dedup key that holds something else is named and refuses that message id alone",
        arguments: [["SET KEY mine"], ["RPUSH KEY mine"]])
    func dedup(_ made: [String]) {
        let bench = Bench()
        let channel: Name = "chat:dedup"
        func publish(_ id: String) -> Result<PublishResult, WireError>? {
            let tag = bench.node.publish("x", id: id, to: channel)
            _ = bench.fixture.run { bench.node.published[tag] != nil }
            return bench.node.published[tag]
        }
        #expect(HistoryFaultTests.code(publish("m1")) == "fine")
        let key = [UInt8](bench.client.strings("KEYS", "hub:*:d:*").first?.utf8 ?? "none".utf8)
        bench.make(["DEL KEY"] + made, key)
        let before = bench.state(key)
        let again = publish("m1")
        #expect(HistoryFaultTests.code(again) == "foreignKey")
        if case .failure(let error)? = again { #expect(error.message.contains("\(channel)")) }
        #expect(bench.state(key) == before)
        #expect(bench.tells(key))
        #expect(HistoryFaultTests.code(publish("m2")) == "fine")
        #expect((try? publish("m3")?.get())?.position.offset == 3)
    }

    struct OfAll: Sendable, CustomTestStringConvertible {
        var key: String
        var made: [String]
        var testDescription: String { "\(made)" }
    }

    static let ofAll: [OfAll] = [
        OfAll(key: "hub:nodes", made: ["SET KEY mine"]), OfAll(key: "hub:nodes", made: ["ZADD KEY 1 Alice 2 Bob"]),
        OfAll(key: "hub:{hub:nodes}:facts", made: ["SET KEY mine"]),
    ]

    @Test("where the list of nodes should be is something else: named, left, and nobody but the list does without", arguments: ofAll)
    func nodes(_ one: OfAll) {
        let bench = Bench()
        let key = [UInt8](one.key.utf8)
        bench.make(["DEL KEY"] + one.made, key)
        let before = bench.state(key)
        #expect(HistoryFaultTests.code(bench.node.list()) == "foreignKey")
        #expect(bench.state(key) == before)
        #expect(bench.tells(key))
        #expect(bench.applied(.up(.online), bench.users) == "fine")
        _ = bench.client.text([[UInt8]("DEL".utf8), key])
        #expect(bench.node.announce() == ["aaaaaaaaaaaa"])
        #expect(bench.node.announce() == ["aaaaaaaaaaaa"])
    }

    @Test("a configuration key of another type is named, and nobody works with that Redis")
    func configuration() {
        let fixture = RedisFixture()
        fixture.server.client().text("RPUSH", "hub:cfg", "mine")
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(fixture.run { !node.health.isEmpty })
        guard case .down(let reason)? = node.health.first else {
            Issue.record("taken")
            return
        }
        #expect(reason.contains("hub:cfg holds something that isn't a hub's") && reason.contains("redis.prefix"))
        #expect(fixture.server.client().text("LRANGE", "hub:cfg", "0", "-1") == "[\"mine\"]")
    }

    @Test("a configuration key of another text is told by its kind, though not by what it holds")
    func otherConfiguration() {
        let fixture = RedisFixture()
        fixture.server.client().text("SET", "hub:cfg", "somebody else's LOADING")
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(fixture.run { !node.health.isEmpty })
        #expect(
            node.broker.outage == "the link to Redis is down: a key of Redis that the hub needs is somebody else's, or of another version")
    }

    @Test("a user's record that can't be read is an error of that user alone, by name")
    func inspection() {
        let bench = Bench()
        let key = bench.record(bench.users[0])
        bench.make(["SET KEY mine"], key)
        let (bad, good) = (bench.node.inspect(bench.users[0]), bench.node.inspect(bench.users[1]))
        #expect(bench.fixture.run { bench.node.inspections[bad] != nil && bench.node.inspections[good] != nil })
        #expect(HistoryFaultTests.code(bench.node.inspections[bad]) == "foreignKey")
        #expect(HistoryFaultTests.code(bench.node.inspections[good]) == "fine")
        #expect(bench.tells(key))
    }
}
