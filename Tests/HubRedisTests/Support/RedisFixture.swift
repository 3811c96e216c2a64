import HubBase
import HubContracts
import HubCore
import HubNet
import HubRedis
import HubWire

/// Nodes on one Redis of their own and one loop, for the contracts and for faults.
final class RedisFixture: BrokerFixture, PresenceStoreFixture, HookQueueFixture, MemberStoreFixture {
    let server: RedisServer
    let stepped = SteppedLoop()
    private var kept: [AnyObject] = []
    private var made: UInt64 = 0
    private var unheard: UInt64 = 0
    private lazy var meddler = server.client()
    var nodeLimit: Int { .max }
    var now: Instant { SteppedLoop.now }
    var timers = PresenceStoreContract.timers

    /// How long a channel or a feed is idle before its tip is looked at, about.
    private let tipCheck: Span

    init(server: RedisServer = RedisServer(), tipCheck: Span = .milliseconds(500)) {
        self.server = server
        self.tipCheck = tipCheck
    }

    deinit { stepped.stop() }

    /// `url`: another way to the server than the straight one.
    func backend(incarnation: Name, name: Name, url: String? = nil) -> RedisBackend {
        made += 1
        var redis = Configuration.Redis()
        redis.url = url ?? server.url
        do {
            return try RedisBackend(
                loop: stepped.loop, redis: redis, timers: timers, namespaces: BrokerContract.namespaces, incarnation: incarnation,
                node: name, chance: Chance(seed: made), tipCheck: tipCheck)
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

    func makeHookNode(incarnation: Name, name: Name, rules: HookRules) -> (store: any PresenceStore, queue: any HookQueue) {
        let backend = backend(incarnation: incarnation, name: name)
        let (store, queue) = (RedisPresenceStore(backend), RedisHookQueue(backend))
        queue.setHookRules(rules)
        kept += [store, queue]
        stepped.inTurn.append {
            store.advance(at: $0)
            queue.advance(at: $0)
        }
        return (store, queue)
    }

    private var memberBrokers: [ObjectIdentifier: RedisBroker] = [:]

    private var memberQueues: [RedisHookQueue] = []
    var memberHooks: any HookQueue { memberQueues[0] }

    func makeMemberNode(incarnation: Name) -> any MemberStore {
        let backend = backend(incarnation: incarnation, name: "north")
        let broker = RedisBroker(backend)
        let store = RedisMemberStore(backend)
        kept.append(broker)
        kept.append(store)
        memberBrokers[ObjectIdentifier(store)] = broker
        let hooks = RedisHookQueue(backend)
        hooks.setHookRules(HookRules(kinds: HookKinds(HookKind.allCases), perPartition: 10_000, keep: .seconds(3600)))
        memberQueues.append(hooks)
        stepped.inTurn.append { now in
            broker.advance(at: now)
            store.advance(at: now)
            hooks.advance(at: now)
        }
        return store
    }

    func endMembers(of channel: Name) {
        let keys = KeySpace(prefix: "hub")!
        for kind in [KeySpace.Kind.memberLeases, KeySpace.Kind.memberMeta, KeySpace.Kind.memberUsers] {
            _ = meddler.text([[UInt8]("DEL".utf8), keys.key(Partition.of(channel), kind, channel.bytes)])
        }
    }

    func carry(_ channel: Name, on node: any MemberStore) {
        guard let broker = memberBrokers[ObjectIdentifier(node)] else { return }
        let recorder = SubscribedRecorder()
        kept.append(recorder)
        broker.delegate = recorder
        let tag = RequestTag(high: 5, low: 5)
        broker.subscribe(channel, tag: tag, at: now)
        _ = run { recorder.isSubscribed }
    }

    func run(until condition: () -> Bool) -> Bool { stepped.run(until: condition) }
    func run(limit: Span, until condition: () -> Bool) -> Bool { stepped.run(limit: limit, until: condition) }
    func pass(_ span: Span) { stepped.pass(span) }

    /// As another node's publish would, but on a live channel that nobody hears.
    func publishUnheard(_ publication: Publication, to channel: Name) {
        let keys = KeySpace(prefix: "hub")!
        let namespace = String(decoding: channel.namespace, as: UTF8.self)
        let options = BrokerContract.namespaces[namespace] ?? HistoryOptions()
        func key(_ kind: StaticString, _ name: [UInt8]) -> [UInt8] { keys.key(Partition.of(channel), kind, name) }
        var body = ByteBuffer(capacity: 256)
        PublicationCodec.encode(publication, into: &body)
        unheard += 1
        let mark = [UInt8]("\(Mark(chance: unheard &* 0x9E37_79B9_7F4A_7C15))".utf8)
        let words: [[UInt8]] =
            [
                [UInt8]("EVAL".utf8), Script.publish.source, [UInt8]("5".utf8), key(KeySpace.Kind.meta, channel.bytes),
                key(KeySpace.Kind.stream, channel.bytes), key(KeySpace.Kind.dedup, [UInt8]("unheard\(unheard)".utf8)),
                key("unheard:", channel.bytes), key(KeySpace.Kind.generation, []), mark, mark,
            ]
            + [UInt64(options.size), options.ttl.milliseconds, 604_800_000, options.dedup.milliseconds].map { [UInt8]("\($0)".utf8) }
            + [[UInt8]("finger00".utf8), body.copyBytes()]
        _ = meddler.text(words)
    }

    var tailCheck: Span { .seconds(2) }

    func loseAllData() { meddler.text("FLUSHALL") }

    func endGenerations() {
        let keys = KeySpace(prefix: "hub")!
        for partition in 0..<Partition.count { _ = meddler.text([[UInt8]("DEL".utf8), keys.key(partition, KeySpace.Kind.generation)]) }
    }

    func forgetRecord(of user: Name) {
        let keys = KeySpace(prefix: "hub")!
        _ = server.client().text([[UInt8]("DEL".utf8), keys.key(Partition.of(user), KeySpace.Kind.user, user.bytes)])
    }
}

/// Waits for a subscription, and for nothing else.
private final class SubscribedRecorder: BrokerDelegate {
    private(set) var isSubscribed = false

    func subscribed(_ channel: Name, _ result: Result<Position, WireError>, tag: RequestTag) { isSubscribed = true }
    func published(_ result: Result<PublishResult, WireError>, tag: RequestTag) {}
    func readMoved(_ result: Result<UInt64, WireError>, tag: RequestTag) {}
    func historyRead(_ channel: Name, _ result: Result<HistoryPage, WireError>, tag: RequestTag) {}
    func readMarks(_ channel: Name, _ result: Result<[ReadMark], WireError>, tag: RequestTag) {}
    func probed(_ result: Result<Void, WireError>, tag: RequestTag) {}
    func received(_ publication: PositionedPublication, channel: Name) {}
    func received(_ publication: Publication, channel: Name) {}
    func resync(_ channel: Name, to position: Position, reason: ResyncReason) {}
    func brokerHealth(_ health: BackendHealth) {}
}
