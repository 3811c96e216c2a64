import HubBase
import HubCore
import HubWire
import Testing

/// One machine with the time, and all that it asks the store for, answered at once.
private final class Desk {
    var machine: PresenceMachine
    var now = Instant(nanoseconds: 1_000_000_000)
    let timers = PresenceTimers()
    private(set) var operations: [PresenceOperation] = []
    private(set) var probed: [Name] = []
    private var version: UInt64 = 100

    init() {
        machine = PresenceMachine(timers: timers, node: "nodenodenode", tagSpace: 5, chance: Chance(seed: 3), at: now)
        machine.storeHealth(.up, at: now)
    }

    func pass(_ span: Span) {
        let end = now + span
        while now < end {
            now = now + .milliseconds(100)
            machine.tick(at: now)
            answer()
        }
    }

    func answer() {
        while true {
            let actions = machine.takeActions(at: now)
            if actions.isEmpty { return }
            for action in actions {
                switch action {
                case .apply(let operations, _, let tag):
                    self.operations += operations
                    version += 1
                    machine.applied(.success(operations.map { _ in version }), tag: tag, at: now)
                case .refresh(_, _, let tag): machine.refreshed(.success([]), tag: tag, at: now)
                case .sweep(let partition, let tag): machine.swept(.success(0), partition: partition, tag: tag, at: now)
                case .probe(let connection): probed.append(connection)
                default: break
                }
            }
        }
    }

    func connect(_ connection: Name, _ user: Name, _ status: Payload.Status = .online) {
        machine.connected(connection: connection, user: user, device: "phone", status: status, at: now)
        answer()
    }

    func request(_ status: Payload.Status, _ connection: Name) {
        machine.requested(connection: connection, status: status, tag: RequestTag(high: 1, low: 1), at: now)
        answer()
    }

    func offline(_ user: Name, _ version: UInt64) {
        let change = PresenceChange(user: user, status: .offline, version: version, lastSeen: 1)
        machine.changed([change], partition: Partition.of(user), gap: false, at: now)
    }

    var falseOfflines: UInt64 { machine.falseOfflines }
}

@Suite("Presence machine: what goes wrong")
struct PresenceMachineFaultTests {
    @Test(
        "what the store acknowledged shortly before it was lost is written again, once the peer has shown that it lives; older things aren't"
    )
    func rewrites() {
        let desk = Desk()
        desk.connect("c-1", "alice")
        desk.pass(.seconds(31))
        desk.connect("c-2", "bob")
        desk.pass(.seconds(3))
        desk.request(.invisible, "c-2")
        desk.pass(.seconds(1))
        let before = desk.operations.count
        desk.machine.storeHealth(.down("failover"), at: desk.now)
        desk.pass(.seconds(60))
        desk.machine.storeHealth(.up, at: desk.now)
        desk.pass(.seconds(1))
        #expect(desk.probed == ["c-2"])
        #expect(desk.operations.count == before)
        desk.machine.proved(connection: "c-2", at: desk.now)
        desk.pass(.seconds(3))
        #expect(desk.operations.dropFirst(before).map(\.kind) == [.restore(.invisible)])
        // Once is enough.
        desk.machine.storeHealth(.down("link"), at: desk.now + .seconds(40))
        desk.now = desk.now + .seconds(40)
        desk.machine.storeHealth(.up, at: desk.now)
        desk.pass(.seconds(1))
        #expect(desk.operations.count == before + 1)
    }

    @Test("what was acknowledged is written again also for who, while the store was away, turned idle and was active again")
    func rewritesWhoTurnedAndCameBack() {
        let desk = Desk()
        desk.connect("c-1", "alice")
        desk.pass(.seconds(31))
        desk.request(.away, "c-1")
        desk.pass(.seconds(3))
        desk.request(.online, "c-1")
        desk.pass(.seconds(1))
        let before = desk.operations.count
        desk.machine.storeHealth(.down("restart"), at: desk.now)
        desk.pass(desk.timers.awayAfter + .seconds(6))
        desk.machine.activity(connection: "c-1", at: desk.now)
        desk.machine.storeHealth(.up, at: desk.now)
        desk.pass(.seconds(1))
        #expect(desk.probed == ["c-1"])
        desk.machine.proved(connection: "c-1", at: desk.now)
        desk.pass(.seconds(3))
        #expect(desk.operations.dropFirst(before).map(\.kind) == [.restore(.online)])
    }

    @Test("an offline that the feed tells of a user with a connection here in good order is counted")
    func falseOffline() {
        let desk = Desk()
        desk.connect("c-1", "alice")
        desk.connect("c-2", "ghost", .invisible)
        desk.pass(.seconds(76))
        desk.offline("alice", 90)
        desk.offline("ghost", 1_000)
        desk.offline("stranger", 1_000)
        #expect(desk.falseOfflines == 0, "news of the past, an invisible user, somebody else's user")
        desk.offline("alice", 1_000)
        #expect(desk.falseOfflines == 1)
        // Closing is under way.
        desk.machine.closed(connection: "c-1", clean: true, at: desk.now)
        desk.offline("alice", 2_000)
        #expect(desk.falseOfflines == 1)
    }

    @Test("after a pause, a cut or a refused refresh nothing is counted as false for a lease")
    func soundness() {
        let desk = Desk()
        desk.connect("c-1", "alice")
        desk.pass(.seconds(76))
        desk.now = desk.now + .seconds(5)
        desk.pass(.seconds(70))
        desk.offline("alice", 1_000)
        #expect(desk.falseOfflines == 0)
        desk.pass(.seconds(6))
        desk.offline("alice", 1_001)
        #expect(desk.falseOfflines == 1)
        desk.machine.storeHealth(.down("cut"), at: desk.now)
        desk.machine.storeHealth(.up, at: desk.now)
        desk.pass(.seconds(10))
        desk.offline("alice", 1_002)
        #expect(desk.falseOfflines == 1)
    }

    @Test("a status that the opening asks for is the first that the store hears")
    func firstStatus() {
        let desk = Desk()
        desk.connect("c-1", "alice", .invisible)
        #expect(desk.operations.map(\.kind) == [.up(.invisible)])
        desk.machine.storeHealth(.down("away"), at: desk.now)
        desk.connect("c-2", "bob", .invisible)
        desk.machine.storeHealth(.up, at: desk.now)
        desk.pass(.seconds(1))
        #expect(desk.operations.map(\.kind) == [.up(.invisible), .up(.invisible)])
    }

    @Test("what the client asked for is told from what the hub found by itself")
    func asked() {
        let desk = Desk()
        desk.connect("c-1", "alice")
        desk.pass(.seconds(3))
        desk.request(.away, "c-1")
        desk.pass(.seconds(3))
        desk.request(.online, "c-1")
        desk.pass(.seconds(320))
        desk.machine.activity(connection: "c-1", at: desk.now)
        desk.pass(.seconds(3))
        desk.machine.closed(connection: "c-1", clean: true, at: desk.now)
        desk.connect("c-2", "bob")
        desk.pass(.seconds(3))
        desk.machine.closed(connection: "c-2", clean: false, at: desk.now)
        desk.pass(.seconds(3))
        let alice = desk.operations.filter { $0.user == "alice" }
        #expect(alice.dropLast().map(\.kind) == [.up(.online), .up(.away), .up(.online), .up(.away), .up(.online)])
        #expect(alice.map(\.isAsked) == [false, true, true, false, false, true])
        let graces = [alice.last, desk.operations.last].map { operation in
            if case .down(let grace, _, _) = operation?.kind { grace } else { nil as Span? }
        }
        #expect(graces == [.zero, .seconds(10)] && desk.operations.last?.isAsked == false)
    }

    @Test("whom clients may watch: themselves always, others by the rule; keys by their scope")
    func watchRule() {
        for rule in WatchRule.allCases {
            #expect(Rights.token("alice", .none).mayWatch("alice", by: rule))
            #expect(Rights.token("alice", .none).mayWatch("bob", by: rule) == (rule == .everyone))
            #expect(Rights.everything.mayWatch("bob", by: rule))
            #expect(Rights.key(reads: true, publishes: false).mayWatch("bob", by: rule))
            #expect(!Rights.key(reads: false, publishes: true).mayWatch("bob", by: rule))
        }
    }

    @Test("last seen is rounded down to the step, and versions tell no more of the time than that")
    func coarse() {
        var timers = PresenceTimers()
        #expect(timers.told(1_796_011_158_488) == 1_796_011_158_488)
        #expect(timers.versionStep == 1)
        timers.lastSeenStep = .seconds(3_600)
        #expect(timers.told(1_796_011_158_488) == 1_796_011_158_488 / 3_600_000 * 3_600_000)
        #expect(timers.told(0) == 0)
        #expect(timers.versionStep == 3_600_000_000)
        let store = MemoryPresenceStore(
            timers: timers, node: "n", nodeName: "n", wallClockAtStart: 1_796_011_260_000, startedAt: Instant(nanoseconds: 0))
        let told = Told()
        store.delegate = told
        store.start(at: Instant(nanoseconds: 0))
        for (turn, state) in [ConnectionState.online, .away, .online].enumerated() {
            let now = Instant(nanoseconds: UInt64(turn) * 60_000_000_000)
            let operation = PresenceOperation(
                kind: .up(state), user: "alice", connection: "n-1", node: "n", device: "d", versionFloor: 0)
            store.apply([operation], partition: Partition.of("alice"), tag: RequestTag(high: 1, low: 1), at: now)
            store.advance(at: now)
        }
        // The first tells its moment; from then on they count, until the next step.
        #expect(told.versions == [1_796_011_260_000_000, 1_796_011_260_000_001, 1_796_011_260_000_002])
    }
}

private final class Told: PresenceStoreDelegate {
    var versions: [UInt64] = []

    func applied(_ result: Result<[UInt64], WireError>, tag: RequestTag) { versions += (try? result.get()) ?? [] }
    func refreshed(_ result: Result<[Int], WireError>, tag: RequestTag) {}
    func swept(_ result: Result<Int, WireError>, partition: Int, tag: RequestTag) {}
    func read(_ result: Result<PresenceSnapshot, WireError>, tag: RequestTag) {}
    func inspected(_ result: Result<PresenceRecord, WireError>, tag: RequestTag) {}
    func nodes(_ result: Result<[NodeEntry], WireError>, tag: RequestTag) {}
    func changed(_ changes: [PresenceChange], partition: Int, gap: Bool) {}
    func storeHealth(_ health: BackendHealth) {}
}
