import HubBase
import HubContracts
import HubCore
import HubWire
import Testing

@Suite("The embedded presence store")
struct MemoryPresenceTests {
    @Test("keeps the store's contract", arguments: PresenceStoreContract.checks)
    func contract(_ check: PresenceStoreCheck) { check.run(MemoryPresenceFixture()) }

    @Test("keeps the contract of the webhooks' queues", arguments: HookQueueContract.checks)
    func hooks(_ check: HookQueueCheck) { check.run(MemoryPresenceFixture()) }

    /// What one store told, and calls of it.
    private final class Bench: PresenceStoreDelegate {
        let store: MemoryPresenceStore
        var lines: [String] = []
        var record: PresenceRecord?

        init(node: Name) {
            store = MemoryPresenceStore(
                timers: PresenceStoreContract.timers, node: node, nodeName: "hub1", wallClockAtStart: 1_800_000_000_000,
                startedAt: Instant(nanoseconds: 5_000_000_000))
            store.delegate = self
        }

        func applied(_ result: Result<[UInt64], WireError>, tag: RequestTag) { lines.append("applied \(result)") }
        func refreshed(_ result: Result<[Int], WireError>, tag: RequestTag) { lines.append("refreshed \(result)") }
        func swept(_ result: Result<Int, WireError>, partition: Int, tag: RequestTag) { lines.append("swept \(result)") }
        func read(_ result: Result<PresenceSnapshot, WireError>, tag: RequestTag) {}
        func inspected(_ result: Result<PresenceRecord, WireError>, tag: RequestTag) { record = try? result.get() }
        func nodes(_ result: Result<[NodeEntry], WireError>, tag: RequestTag) {}
        func changed(_ changes: [PresenceChange], partition: Int, gap: Bool) { lines.append("changed \(changes) \(gap)") }
        func storeHealth(_ health: BackendHealth) {}
    }

    @Test(
        "a node's own connections, which are kept as numbers, are what the same are that are kept whole",
        arguments: [1, 2, 3, 4] as [UInt64])
    func numbers(seed: UInt64) {
        var chance = Chance(seed: seed)
        let own = Bench(node: "aaaaaaaaaaaa"), foreign = Bench(node: "bbbbbbbbbbbb")
        var now = Instant(nanoseconds: 5_000_000_000)
        for _ in 0..<3_000 {
            let user = Name(trusted: Array("user-\(Int.random(in: 0..<3, using: &chance))".utf8))
            let connection = Name(trusted: Array("aaaaaaaaaaaa-\(["1", "2", "zz"].randomElement(using: &chance)!)".utf8))
            let devices = ["phone", "tablet", DeviceName.standard(of: connection), DeviceName.standard(of: connection)]
            let states = [ConnectionState.online, .online, .away, .invisible]
            let state = states.randomElement(using: &chance)!
            let kinds: [PresenceOperation.Kind] = [
                .up(state), .up(state), .restore(state), .down(grace: .zero), .down(grace: .seconds(2)),
            ]
            let operation = PresenceOperation(
                kind: kinds.randomElement(using: &chance)!, user: user, connection: connection, node: "aaaaaaaaaaaa",
                device: devices.randomElement(using: &chance)!, versionFloor: 0)
            let action = Int.random(in: 0..<4, using: &chance)
            now = now + .milliseconds(UInt64.random(in: 0..<1_500, using: &chance))
            for bench in [own, foreign] {
                let part = Partition.of(user)
                switch action {
                case 0, 1: bench.store.apply([operation], partition: part, tag: .none, at: now)
                case 2:
                    bench.store.refresh(
                        LeaseRenewal(leases: [Lease(user: user, connection: connection)], coversRecords: false), partition: part,
                        tag: .none, at: now)
                default: bench.store.sweep(partition: part, tag: .none, at: now)
                }
                bench.store.inspect(user, explains: true, tag: .none, at: now)
                bench.store.advance(at: now)
            }
            // Who is kept in which order isn't promised.
            for bench in [own, foreign] { bench.record?.connections.sort { "\($0.connection)" < "\($1.connection)" } }
            #expect(own.record != nil && own.record == foreign.record)
            #expect(own.lines == foreign.lines)
            own.lines = []
            foreign.lines = []
        }
    }

    @Test("records come and go, and each is found wherever it stands among the others")
    func records() {
        let bench = Bench(node: "aaaaaaaaaaaa")
        let now = Instant(nanoseconds: 5_000_000_000)
        func name(_ number: Int) -> Name { Name(trusted: Array("user-\(number)".utf8)) }
        for number in 0..<300 {
            let operation = PresenceOperation(
                kind: .up(.away), user: name(number), connection: Name(trusted: Array("aaaaaaaaaaaa-\(number)".utf8)), node: "aaaaaaaaaaaa",
                device: "phone", versionFloor: 0)
            bench.store.apply([operation], partition: Partition.of(name(number)), tag: .none, at: now)
        }
        for number in stride(from: 0, to: 300, by: 3) { bench.store.forgetRecord(of: name(number)) }
        #expect(bench.store.userCount == 200)
        for number in 0..<300 {
            bench.store.inspect(name(number), explains: false, tag: .none, at: now)
            bench.store.advance(at: now)
            #expect(bench.record?.change.status == (number % 3 == 0 ? .offline : .away))
        }
    }
}
