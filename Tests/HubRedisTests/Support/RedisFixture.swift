import HubBase
import HubContracts
import HubCore
import HubNet
import HubRedis

/// Nodes on one Redis of their own and one loop, for the contracts and for faults.
final class RedisFixture: BrokerFixture, PresenceStoreFixture {
    let server: RedisServer
    let stepped = SteppedLoop()
    private var kept: [AnyObject] = []
    private var made: UInt64 = 0
    var nodeLimit: Int { .max }
    var now: Instant { SteppedLoop.now }
    var timers = PresenceStoreContract.timers

    init(server: RedisServer = RedisServer()) { self.server = server }

    deinit { stepped.stop() }

    func backend(incarnation: Name, name: Name) -> RedisBackend {
        made += 1
        var redis = Configuration.Redis()
        redis.url = server.url
        do {
            return try RedisBackend(
                loop: stepped.loop, redis: redis, timers: timers, namespaces: BrokerContract.namespaces, incarnation: incarnation,
                node: name, chance: Chance(seed: made))
        } catch {
            fatalError("\(error)")
        }
    }

    func makeNode() -> any Broker {
        let number = made + 1
        let broker = RedisBroker(backend(incarnation: Name(trusted: [UInt8]("brokernode\(number)".utf8)), name: "north"))
        kept.append(broker)
        stepped.inTurn.append { broker.advance(at: $0) }
        return broker
    }

    func makeNode(incarnation: Name, name: Name) -> any PresenceStore {
        let store = RedisPresenceStore(backend(incarnation: incarnation, name: name))
        kept.append(store)
        stepped.inTurn.append { store.advance(at: $0) }
        return store
    }

    func run(until condition: () -> Bool) -> Bool { stepped.run(until: condition) }
    func run(limit: Span, until condition: () -> Bool) -> Bool { stepped.run(limit: limit, until: condition) }
    func pass(_ span: Span) { stepped.pass(span) }

    func forgetRecord(of user: Name) {
        let keys = KeySpace(prefix: "hub")!
        _ = server.client().text([[UInt8]("DEL".utf8), keys.key(Partition.of(user), KeySpace.Kind.user, user.bytes)])
    }
}
