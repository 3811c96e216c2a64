import HubBase
import HubContracts
import HubCore
import HubRedis
import HubWire
import Testing

/// Nodes with a rate store each, on one Redis.
final class RedisRateFixture: RateStoreFixture {
    let redis = RedisFixture()
    private var nodes: [Node] = []

    func makeRateStore() -> any RateStore {
        let node = Node(redis, Name(trusted: [UInt8]("ratenode\(nodes.count)".utf8)))
        nodes.append(node)
        if !node.goUp() { Issue.record("the node doesn't go up") }
        let store = RedisRateStore(node.backend)
        redis.stepped.inTurn.append { store.advance(at: $0) }
        return store
    }

    var now: Instant { redis.now }
    func run(until condition: () -> Bool) -> Bool { redis.run(until: condition) }
    func pass(_ span: Span) { redis.pass(span) }
}

@Suite(.serialized) struct RateStoreTests {
    private final class Recorder: RateStoreDelegate {
        var answers: [Result<[Span], WireError>] = []
        func settled(_ result: Result<[Span], WireError>, tag: RequestTag) { answers.append(result) }
    }

    private let fixture = RedisRateFixture()
    private let recorder = Recorder()
    private let key: [UInt8]

    init() throws {
        key = try #require(KeySpace(prefix: "hub")).key(Partition.of("alice"), KeySpace.Kind.budgets, [UInt8]("alice".utf8))
    }

    private func command(_ words: String..., key: [UInt8]) -> String {
        fixture.redis.server.client().text([[UInt8](words[0].utf8), key] + words.dropFirst().map { [UInt8]($0.utf8) })
    }

    private func charge(_ store: any RateStore, _ cost: Span) -> Result<[Span], WireError>? {
        store.delegate = recorder
        let before = recorder.answers.count
        let report = RateReport(user: "alice", charges: [.init(kind: .messages, cost: cost, depth: .seconds(5))])
        store.settle(report, tag: .none, at: fixture.now)
        return fixture.run(until: { recorder.answers.count > before }) ? recorder.answers.last : nil
    }

    @Test("a user's budgets are born with a TTL, and end by it")
    func ttl() throws {
        let store = fixture.makeRateStore()
        #expect(try charge(store, .seconds(2))?.get() == [.zero])
        let left = command("PTTL", key: key)
        let milliseconds = try #require(Int(left.filter(\.isNumber)))
        #expect((50_000...66_000).contains(milliseconds), "\(left)")
    }

    @Test("a key of another type, and a hash that isn't a hub's, are errors by name and stay as they are", arguments: ["SET", "HSET"])
    func foreign(command word: String) {
        let store = fixture.makeRateStore()
        if word == "SET" { _ = command("SET", "theirs", key: key) } else { _ = command("HSET", "theirs", "1", key: key) }
        guard case .failure(let error)? = charge(store, .seconds(2)) else { Issue.record("was taken"); return }
        #expect(error.code == .internal)
        #expect(command("PTTL", key: key).contains("-1"))
        #expect(command("TYPE", key: key).contains(word == "SET" ? "string" : "hash"))
    }

    @Test("fields that hold no number, or one from a clock that was ahead, count as nothing or as the longest overdraft")
    func strange() throws {
        let store = fixture.makeRateStore()
        _ = command("HSET", "m", "nonsense", key: key)
        #expect(try charge(store, .seconds(2))?.get() == [.zero])
        _ = command("HSET", "m", "9007199254740991", key: key)
        let owed = try #require(try charge(store, .seconds(2))?.get().first)
        #expect(owed <= .seconds(60) && owed > .seconds(50))
    }

    @Test("when memory is full it says so, and nothing is written")
    func full() {
        let store = fixture.makeRateStore()
        let client = fixture.redis.server.client()
        _ = client.text(["CONFIG", "SET", "maxmemory", "1"].map { [UInt8]($0.utf8) })
        let answer = charge(store, .seconds(2))
        _ = client.text(["CONFIG", "SET", "maxmemory", "0"].map { [UInt8]($0.utf8) })
        guard case .failure(let error)? = answer else { Issue.record("was taken: \(String(describing: answer))"); return }
        #expect(error.code == .storeFull)
        #expect(command("TYPE", key: key).contains("none"))
    }

    @Test("without a link the answer is that it's unavailable, never from within the call")
    func away() {
        let store = fixture.makeRateStore()
        fixture.redis.server.stop()
        for _ in 0..<50 {
            if case .failure? = charge(store, .seconds(1)) { break }
            fixture.pass(.milliseconds(50))
        }
        store.delegate = recorder
        let before = recorder.answers.count
        store.settle(
            RateReport(user: "alice", charges: [.init(kind: .messages, cost: .seconds(1), depth: .seconds(5))]), tag: .none, at: fixture.now
        )
        #expect(recorder.answers.count == before)
        #expect(fixture.run(until: { recorder.answers.count > before }))
        guard case .failure(let error)? = recorder.answers.last else { Issue.record("an answer without Redis"); return }
        #expect(error.code == .unavailable)
    }
}
