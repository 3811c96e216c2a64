// Presence of many users without their sockets: one node's machine and store on a Redis, as hubd has them. What that Redis then costs is
// asked of it (`Benchmarks/presence-scale` does).
//
//   bench-presence PORT USERS TRANSITIONS-PER-SECOND
//
// Says "registered" when all users are in the store, then keeps them alive, with so many changes of status a second, until it's killed.
import CHubShims
import Glibc
import HubBase
import HubCore
import HubNet
import HubRedis
import HubWire

final class Crowd: LoopHandler, PresenceStoreDelegate {
    private let loop: NetLoop
    private let store: RedisPresenceStore
    private var machine: PresenceMachine
    private var chance = Chance(seed: 1)
    private let users: Int
    private let perSecond: Double
    private var registered = 0
    private var isTold = false
    private var lastTurn = Instant(nanoseconds: 0)
    private var owed = 0.0
    private var refused = 0

    init(_ loop: NetLoop, _ store: RedisPresenceStore, users: Int, perSecond: Double) {
        self.loop = loop
        self.store = store
        self.users = users
        self.perSecond = perSecond
        machine = PresenceMachine(
            timers: PresenceTimers(), node: "bench", tagSpace: 1, chance: Chance(seed: 2), at: loop.now)
    }

    private static func connection(_ number: Int) -> Name { Name(trusted: Array("benchbenchbe-\(number)".utf8)) }

    /// 36 characters, as UUIDs have: the design's figures are for those.
    private static func user(_ number: Int) -> Name {
        let digits = String(number)
        return Name(trusted: Array(("01234567-89ab-cdef-0123-" + String(repeating: "0", count: 12 - digits.count) + digits).utf8))
    }

    func woken() {}
    func timerFired(kind: UInt32, value: UInt64) {}

    func turnEnding() {
        let now = loop.now
        machine.tick(at: now)
        if !machine.isStale {
            for _ in 0..<min(500, users - registered) {
                machine.connected(
                    connection: Self.connection(registered), user: Self.user(registered), device: "phone", at: now)
                registered += 1
            }
            if isTold { toggle(at: now) }
        }
        lastTurn = now
        carryOut(at: now)
        store.advance(at: now)
        carryOut(at: now)
    }

    private func toggle(at now: Instant) {
        owed += perSecond * Double(now.since(lastTurn).milliseconds) / 1_000
        while owed >= 1 {
            owed -= 1
            let status: Payload.Status = chance.next() % 2 == 0 ? .away : .online
            machine.requested(
                connection: Self.connection(Int(chance.next() % UInt64(users))), status: status, tag: RequestTag(high: 2, low: 1), at: now)
        }
    }

    private func carryOut(at now: Instant) {
        var isIdle = true
        for action in machine.takeActions(at: now) {
            switch action {
            case .apply(let operations, let partition, let tag):
                isIdle = false
                store.apply(operations, partition: partition, tag: tag, at: now)
            case .refresh(let renewal, let partition, let tag): store.refresh(renewal, partition: partition, tag: tag, at: now)
            case .sweep(let partition, let tag): store.sweep(partition: partition, tag: tag, at: now)
            case .read(let users, let tag): store.read(users, tag: tag, at: now)
            case .announce(let connections, let tag): store.announce(NodeFacts(connections: connections), tag: tag, at: now)
            case .probe, .watchAnswer, .changed, .presenceAck, .follow, .unfollow: break
            }
        }
        if isIdle && registered == users && stored == users && !isTold {
            isTold = true
            print("registered")
            fflush(nil)
        }
    }

    private var stored = 0

    func applied(_ result: Result<[UInt64], WireError>, tag: RequestTag) {
        if case .success(let versions) = result, !isTold { stored += versions.count }
        machine.applied(result, tag: tag, at: loop.now)
    }
    func refreshed(_ result: Result<[Int], WireError>, tag: RequestTag) { machine.refreshed(result, tag: tag, at: loop.now) }
    func swept(_ result: Result<Int, WireError>, partition: Int, tag: RequestTag) {
        machine.swept(result, partition: partition, tag: tag, at: loop.now)
    }
    func read(_ result: Result<PresenceSnapshot, WireError>, tag: RequestTag) { machine.read(result, tag: tag, at: loop.now) }
    func inspected(_ result: Result<PresenceRecord, WireError>, tag: RequestTag) {}
    func nodes(_ result: Result<[NodeEntry], WireError>, tag: RequestTag) { machine.nodes(result, tag: tag, at: loop.now) }
    func changed(_ changes: [PresenceChange], partition: Int, gap: Bool) {
        machine.changed(changes, partition: partition, gap: gap, at: loop.now)
    }
    func storeHealth(_ health: BackendHealth) { machine.storeHealth(health, at: loop.now) }
}

hub_ignore_sigpipe()
let arguments = CommandLine.arguments
guard arguments.count == 4, let users = Int(arguments[2]), (1...10_000_000).contains(users), let perSecond = Double(arguments[3]) else {
    print("usage: bench-presence PORT USERS TRANSITIONS-PER-SECOND")
    exit(2)
}
var configuration = Configuration()
configuration.redis.url = "redis://127.0.0.1:\(arguments[1])"
let loop = try NetLoop(NetLoop.Options(name: "bench", tick: .milliseconds(20)))
let backend = try RedisBackend(
    loop: loop, redis: configuration.redis, timers: configuration.presence, namespaces: configuration.namespaces,
    incarnation: "benchbenchbe",
    node: "bench", chance: Chance(seed: 3))
let store = RedisPresenceStore(backend)
let crowd = Crowd(loop, store, users: users, perSecond: perSecond)
store.delegate = crowd
loop.handler = crowd
store.start(at: loop.now)
loop.run()
