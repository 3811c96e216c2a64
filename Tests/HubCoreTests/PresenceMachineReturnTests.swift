import HubBase
import HubCore
import HubWire
import Testing

/// A machine whose store says which leases are gone.
private final class Bench {
    let bench = PresenceMachineBench()
    var missing: Set<Name> = []
    var answersRefreshes = true
    private(set) var refreshed: [(leases: [Name], coversRecords: Bool)] = []
    private(set) var probed: [Name] = []
    private(set) var operations: [PresenceOperation] = []
    var reads: (([Name]) -> PresenceSnapshot)?
    private(set) var news: [PresenceChange] = []

    init(_ connections: [(Name, Name)]) {
        for (connection, user) in connections { bench.connect(connection, user) }
        pass(.seconds(3))
        operations = []
    }

    func pass(_ span: Span, step: Span = .milliseconds(50)) { bench.pass(span, step: step, answer) }

    func answer(_ action: PresenceAction) {
        switch action {
        case .apply(let operations, _, let tag):
            self.operations += operations
            bench.machine.applied(.success(operations.map { _ in 100 }), tag: tag, at: bench.now)
        case .refresh(let renewal, _, let tag):
            refreshed.append((renewal.leases.map(\.connection), renewal.coversRecords))
            guard answersRefreshes else { return }
            let gone = renewal.leases.indices.filter { missing.contains(renewal.leases[$0].connection) }
            bench.machine.refreshed(.success(gone), tag: tag, at: bench.now)
        case .read(let users, let tag): if let reads { bench.machine.read(.success(reads(users)), tag: tag, at: bench.now) }
        case .probe(let connection): probed.append(connection)
        case .changed(let changes): news += changes
        default: break
        }
    }

    /// The process stood still.
    func stop(for span: Span) { bench.now = bench.now + span }
    func prove(_ connection: Name) { bench.machine.proved(connection: connection, at: bench.now) }
}

@Suite("Presence machine: who comes back")
struct PresenceMachineReturnTests {
    @Test(
        "after a pause nobody who turned idle is written before the store, or the peer, has said that it's there, presence.md What is promised"
    )
    func idleAfterAPause() {
        let bench = Bench([("c-1", "alice"), ("c-2", "bob")])
        bench.missing = ["c-1"]
        bench.answersRefreshes = false
        bench.stop(for: .seconds(400))
        bench.pass(.seconds(6))
        #expect(bench.operations == [] && Set(bench.refreshed.flatMap(\.leases)) == ["c-1", "c-2"])
        bench.answersRefreshes = true
        bench.pass(.seconds(40))
        // His lease stood; hers is gone, and nothing is known of her peer.
        #expect(bench.operations.map(\.user) == ["bob"] && bench.operations.first?.kind == .up(.away))
        #expect(Set(bench.probed) == ["c-1"])
        bench.prove("c-1")
        bench.pass(.seconds(3))
        let back = bench.operations.last
        #expect(bench.operations.count == 2 && back?.user == "alice" && back?.kind == .up(.away) && back?.isKnown == true)
    }

    @Test("what the client itself asks for after a pause isn't held back")
    func askedAfterAPause() {
        let bench = Bench([("c-1", "alice")])
        bench.answersRefreshes = false
        bench.stop(for: .seconds(100))
        bench.bench.machine.tick(at: bench.bench.now)
        bench.bench.request(.invisible, "c-1")
        bench.pass(.milliseconds(100))
        #expect(bench.operations.map(\.kind) == [.up(.invisible)] && bench.operations.first?.isKnown == true)
    }

    @Test("a pause within which no lease can have ended holds nobody back")
    func shortPause() {
        let bench = Bench([("c-1", "alice")])
        bench.pass(.seconds(290), step: .milliseconds(500))
        bench.answersRefreshes = false
        bench.stop(for: .seconds(30))
        bench.pass(.seconds(6))
        #expect(bench.operations.map(\.kind) == [.up(.away)])
    }

    @Test("a connection is new once: whatever is written of it after the store has acknowledged it is of one that was known")
    func knownOnce() {
        let bench = PresenceMachineBench()
        bench.connect("c-1")
        let refusal = WireError(.unavailable, "refused")
        let first = bench.applies()
        #expect(first.flatMap(\.operations).map(\.isKnown) == [false])
        bench.machine.applied(.failure(refusal), tag: first[0].tag, at: bench.now)
        var sent: [PresenceOperation] = []
        // Over the pace of the next one too.
        bench.pass(.seconds(5)) { action in
            guard case .apply(let operations, _, let tag) = action else { return }
            sent += operations
            bench.machine.applied(.success([100]), tag: tag, at: bench.now)
        }
        #expect(sent.map(\.isKnown) == [false] && sent[0].age >= .seconds(2))
        bench.request(.away, "c-1")
        let change = bench.applies()
        #expect(change.flatMap(\.operations).map(\.isKnown) == [true])
        bench.machine.applied(.failure(refusal), tag: change[0].tag, at: bench.now)
        sent = []
        bench.pass(.seconds(3)) { action in
            guard case .apply(let operations, _, _) = action else { return }
            sent += operations
        }
        #expect(sent.map(\.isKnown) == [true])
    }

    @Test(
        "a partition that lost its data has its connections written again within 5 s, and ends whoever has no record a hold later, decision 0337"
    )
    func lost() {
        let bench = Bench([("c-1", "alice")])
        bench.pass(.seconds(60), step: .milliseconds(500))
        func change(_ user: Name, _ status: PresenceStatus, _ version: UInt64) -> PresenceChange {
            PresenceChange(user: user, status: status, version: version, lastSeen: 0)
        }
        var isWarming = false
        var records: [Name: PresenceChange] = ["alice": change("alice", .online, 100), "ghost": change("ghost", .online, 50)]
        bench.reads = { PresenceSnapshot(changes: $0.map { records[$0] ?? change($0, .offline, 0) }, isWarming: isWarming) }
        bench.bench.machine.watch(["alice", "ghost"], loop: 0, tag: RequestTag(high: 1, low: 7), at: bench.bench.now)
        bench.pass(.milliseconds(200))
        records = [:]
        bench.missing = ["c-1"]
        isWarming = true
        let began = bench.bench.now
        for user in [Name("alice"), "ghost"] { bench.bench.machine.lost(Partition.of(user), at: began) }
        bench.pass(.milliseconds(5_100))
        #expect(Set(bench.probed) == ["c-1"])
        bench.prove("c-1")
        bench.pass(.milliseconds(200))
        #expect(bench.operations.map(\.kind) == [.restore(.online)])
        records["alice"] = change("alice", .online, 101)
        bench.missing = []
        // What HTTP is told meanwhile isn't sure.
        var snapshot = PresenceSnapshot(changes: [change("ghost", .offline, 0)], isWarming: true)
        #expect(bench.bench.machine.judge(&snapshot, at: bench.bench.now) && snapshot.changes[0].status == .online)
        var stranger = PresenceSnapshot(changes: [change("stranger", .offline, 0)], isWarming: true)
        bench.pass(.seconds(8))
        #expect(bench.bench.machine.judge(&stranger, at: bench.bench.now))
        bench.pass(.seconds(25), step: .milliseconds(500))
        isWarming = false
        #expect(bench.news.allSatisfy { $0.status == .online })
        bench.pass(.seconds(8), step: .milliseconds(100))
        #expect(bench.bench.now.since(began) < .seconds(50))
        #expect(bench.news.filter { $0.user == "ghost" } == [change("ghost", .offline, 51)])
        #expect(bench.news.allSatisfy { $0.user == "ghost" || $0.status == .online })
    }
}
