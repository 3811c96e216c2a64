import HubBase
import HubCore
import HubRedis
import HubWire
import Testing

/// Full memory, wrong settings, hostile servers; sweeps that race (redis-design §7, §11).
@Suite(.serialized) struct StoreFaultTests {
    @Test("of two nodes that sweep at once, each user's end is told exactly once, whatever the number, redis-design §2")
    func racingSweepers() {
        let fixture = RedisFixture()
        let (one, two) = (Node(fixture, "aaaaaaaaaaaa"), Node(fixture, "bbbbbbbbbbbb"))
        #expect(one.goUp() && two.goUp())
        let everybody = users(450, of: 7, "race")
        let ups = stride(from: 0, to: 450, by: 50).map { one.apply(.up(.online), Array(everybody[$0..<$0 + 50])) }
        #expect(fixture.run { ups.allSatisfy { one.applied[$0] != nil } })
        // The lease is 2.4 s; until then sweeps keep the partition from looking blind.
        var last: [RequestTag] = []
        var offline = 0
        for _ in 0..<80 where offline < 450 {
            last = [one.sweep(7), two.sweep(7)]
            #expect(fixture.run { one.sweeps[last[0]] != nil && two.sweeps[last[1]] != nil })
            fixture.pass(.milliseconds(60))
            offline =
                one.sweeps.values.reduce(0) { $0 + ((try? $1.get()) ?? 0) } + two.sweeps.values.reduce(0) { $0 + ((try? $1.get()) ?? 0) }
        }
        #expect(offline == 450)
        for node in [one, two] {
            #expect(fixture.run { node.changes.count == 900 })
            #expect(node.feedGaps == 0)
            var ends: [Name: Int] = [:]
            for change in node.changes where change.status == .offline { ends[change.user, default: 0] += 1 }
            #expect(ends.count == 450 && ends.values.allSatisfy { $0 == 1 })
        }
    }

    @Test("a feed's last message that was lost shows by its tip, once, decision 0356")
    func feedTip() {
        let fixture = RedisFixture()
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(node.goUp())
        let up = node.apply(.up(.online), ["alice"])
        #expect(fixture.run { node.applied[up] != nil && node.changes.count == 1 })
        let key = KeySpace(prefix: "hub")!.key(Partition.of("alice"), KeySpace.Kind.presenceMeta)
        _ = fixture.server.client().text([[UInt8]("HINCRBY".utf8), key, [UInt8]("s".utf8), [UInt8]("1".utf8)])
        #expect(fixture.run { node.feedGaps == 1 })
        fixture.pass(.seconds(2))
        #expect(node.feedGaps == 1)
        let away = node.apply(.up(.away), ["alice"])
        #expect(fixture.run { node.applied[away] != nil && node.changes.count == 2 })
        #expect(node.feedGaps == 1)
    }

    @Test("the record of somebody who is awaited lives for userTTL from the end on, however long nobody renewed it, decision 0335")
    func awaitedRecordLives() {
        let fixture = RedisFixture()
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(node.goUp())
        let up = node.apply(.up(.online), ["alice"])
        #expect(fixture.run { node.applied[up] != nil })
        let key = KeySpace(prefix: "hub")!.key(Partition.of("alice"), KeySpace.Kind.user, Name("alice").bytes)
        let client = fixture.server.client()
        _ = client.text([[UInt8]("PEXPIRE".utf8), key, [UInt8]("900".utf8)])
        let down = node.apply(.down(grace: .seconds(5)), ["alice"])
        #expect(fixture.run { node.applied[down] != nil })
        let left = Int(client.text([[UInt8]("PTTL".utf8), key]).drop { !$0.isNumber }) ?? 0
        #expect(left > 9_000 && left <= 10_000)
    }

    @Test("with memory full publications and newcomers get storeFull, leases are kept and nobody goes offline; then all goes on")
    func outOfMemory() {
        let fixture = RedisFixture()
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(node.goUp())
        let known = users(3, of: 9, "full")
        let newcomers = users(6, of: 9, "full").suffix(3)
        let up = node.apply(.up(.online), known)
        #expect(node.findsNothing("chat:full"))
        #expect(fixture.run { node.applied[up] != nil })
        let client = fixture.server.client()
        client.text("CONFIG", "SET", "maxmemory", "1")
        let publish = node.publish("x", id: "x", to: "chat:full")
        let more = node.apply(.up(.online), Array(newcomers))
        let refresh = node.refresh(known)
        let leasesAlone = node.refresh(known, coversRecords: false)
        let leave = node.apply(.down(grace: .seconds(1)), [known[2]])
        let sweep = node.sweep(9)
        let probe = node.probe()
        #expect(
            fixture.run {
                node.probes[probe] != nil && node.published[publish] != nil && node.applied[more] != nil && node.refreshed[refresh] != nil
                    && node.refreshed[leasesAlone] != nil
                    && node.sweeps[sweep] != nil
                    && node.applied[leave] != nil
            })
        func code<Value>(_ result: Result<Value, WireError>?) -> ErrorCode? {
            if case .failure(let error)? = result { error.code } else { nil }
        }
        #expect(code(node.published[publish]) == .storeFull)
        #expect(code(node.applied[more]) == .storeFull)
        #expect(node.refreshed[refresh] == .success([]))
        #expect(node.refreshed[leasesAlone] == .success([]))
        #expect(code(node.sweeps[sweep]) == .storeFull)
        #expect(code(node.applied[leave]) == nil)
        // The message to ourselves came back, and all the same nothing can be kept.
        let second = node.probe()
        #expect(fixture.run { node.probeErrors[second] == .storeFull })
        client.text("CONFIG", "SET", "maxmemory", "0")
        let again = node.publish("x", id: "x", to: "chat:full")
        let moreAgain = node.apply(.up(.online), Array(newcomers))
        #expect(fixture.run { node.published[again] != nil && node.applied[moreAgain] != nil })
        #expect((try? node.published[again]?.get())?.position.offset == 1)
        #expect(code(node.applied[moreAgain]) == nil)
        #expect(!node.changes.contains { $0.status == .offline })
        #expect(node.resyncs("chat:full") == [])
        let third = node.probe()
        #expect(fixture.run { node.probes[third] == true })
        #expect(node.health == [.up])
        #expect(!fixture.server.client().strings("KEYS", "*").contains { $0.contains(":probe:") })
    }

    @Test(
        "a node whose link is made anew, or that starts, while memory is full, comes up and reads; one that finds no deployment there says why"
    )
    func startsFull() {
        let fixture = RedisFixture()
        let one = Node(fixture, "aaaaaaaaaaaa")
        #expect(one.goUp())
        let published = one.publish("x", id: "x", to: "chat:full")
        #expect(fixture.run { one.published[published] != nil })
        let client = fixture.server.client()
        client.text("CONFIG", "SET", "maxmemory", "1")
        client.text("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        #expect(fixture.run { !one.isUp })
        #expect(one.goUp())
        let two = Node(fixture, "bbbbbbbbbbbb")
        #expect(two.goUp())
        let page = two.readHistory("chat:full", HistoryQuery(limit: 10))
        #expect(fixture.run { two.pages[page] != nil })
        #expect((try? two.pages[page]?.get())?.publications.count == 1)
        client.text("DEL", "hub:cfg")
        let three = Node(fixture, "cccccccccccc")
        #expect(fixture.run { !three.health.isEmpty })
        guard case .down(let reason)? = three.health.first else {
            Issue.record("taken")
            return
        }
        #expect(reason.contains("hub:cfg isn't there and can't be written: Redis is out of memory"))
    }

    @Test("a deployment that is fixed to something else is refused, with the key's name, redis-design §1")
    func otherDeployment() {
        let fixture = RedisFixture()
        fixture.server.client().text("SET", "hub:cfg", "{\"v\":1,\"P\":128}")
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(fixture.run { !node.health.isEmpty })
        guard case .down(let reason)? = node.health.first else {
            Issue.record("taken")
            return
        }
        #expect(reason.contains("hub:cfg holds {\"v\":1,\"P\":128}"))
        fixture.server.client().text("DEL", "hub:cfg")
        #expect(node.goUp())
        #expect(fixture.server.client().text("GET", "hub:cfg") == "\"{\"v\":1,\"P\":256}\"")
    }

    @Test("a wrong password is named as such and not shown")
    func password() throws {
        let fixture = RedisFixture(server: RedisServer())
        let client = fixture.server.client()
        client.text("CONFIG", "SET", "requirepass", "topsecret")
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(fixture.run { !node.health.isEmpty })
        guard case .down(let reason)? = node.health.first else {
            Issue.record("taken")
            return
        }
        #expect(reason.contains("NOAUTH"))
        var redis = Configuration.Redis()
        redis.url = fixture.server.url
        for (password, isRight) in [("wrongsecret", false), ("topsecret", true)] {
            redis.password = Secret([UInt8](password.utf8))
            let backend = try RedisBackend(
                loop: fixture.stepped.loop, redis: redis, timers: PresenceTimers(), namespaces: [:], incarnation: "cccccccccccc",
                node: "west", chance: Chance(seed: 9))
            let other = HealthOnly()
            let broker = RedisBroker(backend)
            broker.delegate = other
            fixture.stepped.inTurn.append { broker.advance(at: $0) }
            broker.start(at: fixture.now)
            #expect(fixture.run { !other.health.isEmpty })
            if isRight {
                #expect(other.health == [.up])
            } else if case .down(let reason)? = other.health.first {
                #expect(reason.contains("AUTH is refused") && !reason.contains("secret"))
            }
        }
    }

    @Test("a read of many users over many partitions is answered in order, and warm where nobody has swept yet or data was just lost")
    func manyStates() {
        let fixture = RedisFixture()
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(node.goUp())
        let asked = (0..<1_000).map { Name(trusted: [UInt8]("many-\($0)".utf8)) }
        let cold = node.read(asked)
        #expect(fixture.run { node.reads[cold] != nil })
        #expect((try? node.reads[cold]?.get())?.changes.map(\.user) == asked)
        // Nobody knows yet whether anything was lost.
        #expect((try? node.reads[cold]?.get())?.isWarming == true)
        // The first sweep of a store that was never swept finds that data may have been lost.
        let sweep = node.sweep(Partition.of(asked[0]))
        #expect(fixture.run { node.sweeps[sweep] == .success(0) })
        let warm = node.read(asked)
        #expect(fixture.run { node.reads[warm] != nil })
        #expect((try? node.reads[warm]?.get())?.isWarming == true)
        // A hold later everybody has had the time to say who is there.
        fixture.pass(fixture.timers.hold + .milliseconds(100))
        let known = node.read([asked[0]])
        #expect(fixture.run { node.reads[known] != nil })
        #expect((try? node.reads[known]?.get())?.isWarming == false)
    }

    @Test(
        "a server that isn't Redis, or is hostile, is left, with the reason, and again and again, B72",
        arguments: [
            "*2147483647\r\n", "$2147483647\r\nxxxx", "HTTP/1.1 400 Bad Request\r\n\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
            "+OK\r\n+OK\r\n+OK\r\n",
            ":1\r\n:2\r\n:3\r\n:4\r\n", "-LOADING Redis is loading\r\n-LOADING\r\n", "",
        ])
    func hostile(bytes: String) {
        let server = FakeServer([UInt8](bytes.utf8))
        let fixture = RedisFixture()
        var redis = Configuration.Redis()
        redis.url = "unix://\(server.path)"
        guard
            let backend = try? RedisBackend(
                loop: fixture.stepped.loop, redis: redis, timers: PresenceTimers(), namespaces: [:], incarnation: "cccccccccccc",
                node: "west",
                chance: Chance(seed: 9))
        else {
            Issue.record("no backend")
            return
        }
        let seen = HealthOnly()
        let broker = RedisBroker(backend)
        broker.delegate = seen
        fixture.stepped.inTurn.append { broker.advance(at: $0) }
        broker.start(at: fixture.now)
        #expect(fixture.run { !seen.health.isEmpty && server.accepted >= 2 })
        if case .down? = seen.health.first {} else { Issue.record("taken for Redis") }
        #expect(seen.health.count == 1)
    }
}

/// A broker's delegate that looks at nothing but health.
final class HealthOnly: BrokerDelegate {
    private(set) var health: [BackendHealth] = []
    func published(_ result: Result<PublishResult, WireError>, tag: RequestTag) {}
    func readMoved(_ result: Result<UInt64, WireError>, tag: RequestTag) {}
    func subscribed(_ channel: Name, _ result: Result<Position, WireError>, tag: RequestTag) {}
    func historyRead(_ channel: Name, _ result: Result<HistoryPage, WireError>, tag: RequestTag) {}
    func readMarks(_ channel: Name, _ result: Result<[ReadMark], WireError>, tag: RequestTag) {}
    func probed(_ result: Result<Void, WireError>, tag: RequestTag) {}
    func received(_ publication: PositionedPublication, channel: Name) {}
    func received(_ publication: Publication, channel: Name) {}
    func resync(_ channel: Name, to position: Position, reason: ResyncReason) {}
    func brokerHealth(_ health: BackendHealth) { self.health.append(health) }
}
