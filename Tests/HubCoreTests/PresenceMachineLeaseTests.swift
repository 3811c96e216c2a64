import HubBase
import HubCore
import HubWire
import Testing

@Suite("Presence machine: leases, sweeps, nodes")
struct PresenceMachineLeaseTests {
    @Test("every open connection is refreshed once a heartbeat, spread over the period, 250 at most in a call")
    func heartbeats() {
        let bench = PresenceMachineBench()
        let users = (0..<1_000).map { Name(trusted: [UInt8]("user-\($0)".utf8)) }
        for (number, user) in users.enumerated() { bench.connect(Name(trusted: [UInt8]("c-\(number)".utf8)), user) }
        for number in 0..<600 { bench.connect(Name(trusted: [UInt8]("many-\(number)".utf8)), "one user") }
        bench.settle()
        // Over the refresh after the start, and what brings the partitions to their places.
        bench.pass(.seconds(36)) { if case .refresh(_, _, let tag) = $0 { bench.machine.refreshed(.success([]), tag: tag, at: bench.now) } }
        var counts: [Name: Int] = [:]
        var times: [Instant] = []
        bench.pass(.seconds(300)) { action in
            guard case .refresh(let renewal, _, let tag) = action else { return }
            #expect(renewal.leases.count <= 250)
            times.append(bench.now)
            for lease in renewal.leases { counts[lease.connection, default: 0] += 1 }
            bench.machine.refreshed(.success([]), tag: tag, at: bench.now)
        }
        #expect(counts.count == 1_600)
        #expect(counts.values.allSatisfy { $0 >= 9 && $0 <= 11 }, "30 s ± 10 % in 300 s")
        let perSecond = Dictionary(grouping: times) { $0.nanoseconds / 1_000_000_000 }.mapValues(\.count)
        #expect(perSecond.values.max()! < 30, "256 partitions over 30 s are some 9 a second")
    }

    @Test("after the store came back all leases are refreshed within 5 s")
    func refreshesAtOnce() {
        let bench = PresenceMachineBench()
        for number in 0..<500 {
            bench.connect(Name(trusted: [UInt8]("c-\(number)".utf8)), Name(trusted: [UInt8]("user-\(number)".utf8)))
        }
        bench.settle()
        bench.pass(.seconds(60))
        bench.machine.storeHealth(.down("cut"), at: bench.now)
        let frozen = bench.pass(.seconds(40))
        #expect(frozen.isEmpty)
        bench.machine.storeHealth(.up, at: bench.now)
        var refreshed: Set<Name> = []
        bench.pass(.milliseconds(5_100)) {
            if case .refresh(let renewal, _, _) = $0 { refreshed.formUnion(renewal.leases.map(\.connection)) }
        }
        #expect(refreshed.count == 500)
    }

    @Test("records are renewed with every fourth heartbeat, where userTTL allows it, and at once after trouble")
    func recordsWithSomeHeartbeats() {
        let bench = PresenceMachineBench()
        bench.connect("c-1")
        bench.settle()
        var beats: [(at: Instant, coversRecords: Bool)] = []
        let answer = { (action: PresenceAction) in
            guard case .refresh(let renewal, _, let tag) = action else { return }
            beats.append((bench.now, renewal.coversRecords))
            bench.machine.refreshed(.success([]), tag: tag, at: bench.now)
        }
        bench.pass(.seconds(600), answer)
        let timers = PresenceTimers()
        #expect(timers.beatsOfRecord == 4)
        let renewed = beats.filter(\.coversRecords).map(\.at)
        #expect(beats.count >= 18 && renewed.count >= 4 && renewed.count <= beats.count / 4 + 2)
        for (before, after) in zip(renewed, renewed.dropFirst()) {
            #expect(after.since(before) + timers.lease + timers.hold <= timers.userTTL)
        }

        bench.machine.storeHealth(.down("cut"), at: bench.now)
        bench.machine.storeHealth(.up, at: bench.now)
        beats = []
        bench.pass(.milliseconds(5_100), answer)
        #expect(beats.first?.coversRecords == true)
    }

    @Test(
        "a record outlives the leases renewed since it was, and a hold",
        arguments: [
            (300, 4), (149, 1), (180, 1), (182, 2), (215, 3), (240, 3), (248, 4),
        ])
    func beatsOfRecords(userTTL: Int, beats: Int) {
        var timers = PresenceTimers()
        timers.userTTL = .seconds(UInt64(userTTL))
        #expect(timers.problems() == [] && timers.beatsOfRecord == beats)
    }

    @Test("a missing lease is restored only when its peer has proved that it lives")
    func restores() {
        let bench = PresenceMachineBench()
        bench.connect("c-1")
        bench.settle()
        var probes: [Name] = []
        var restores: [PresenceOperation.Kind] = []
        let answer = { (action: PresenceAction) in
            switch action {
            case .refresh(_, _, let tag): bench.machine.refreshed(.success([0]), tag: tag, at: bench.now)
            case .probe(let connection): probes.append(connection)
            case .apply(let operations, _, let tag):
                restores += operations.map(\.kind)
                bench.machine.applied(.success([9]), tag: tag, at: bench.now)
            default: break
            }
        }
        bench.pass(.seconds(70), answer)
        #expect(!probes.isEmpty && probes.allSatisfy { $0 == "c-1" })
        #expect(restores.isEmpty)
        bench.machine.proved(connection: "c-1", at: bench.now)
        bench.machine.proved(connection: "c-1", at: bench.now)
        bench.pass(.seconds(1), answer)
        #expect(restores == [.restore(.online)])
    }

    @Test("a lost lease whose state changed meanwhile is written as a change, not restored in silence")
    func restoresChanged() {
        let bench = PresenceMachineBench()
        bench.connect("c-1")
        bench.settle()
        bench.pass(.seconds(6)) { if case .refresh(_, _, let tag) = $0 { bench.machine.refreshed(.success([0]), tag: tag, at: bench.now) } }
        bench.request(.away, "c-1")
        bench.machine.proved(connection: "c-1", at: bench.now)
        #expect(kindsApplied(bench.applies()) == [.up(.away)])
    }

    @Test("alone, each partition is swept about once a second; with 10 nodes about every 5 s; one call at a time")
    func sweeps() {
        let bench = PresenceMachineBench()
        var nodes = 1
        func count(_ seconds: UInt64) -> Int {
            var sweeps = 0
            bench.pass(.seconds(seconds), step: .milliseconds(20)) { action in
                switch action {
                case .sweep(let partition, let tag):
                    sweeps += 1
                    bench.machine.swept(.success(0), partition: partition, tag: tag, at: bench.now)
                case .announce(_, let tag):
                    let entries = (0..<nodes).map { NodeEntry(incarnation: "n", name: "n", left: UInt64($0), facts: NodeFacts()) }
                    bench.machine.nodes(.success(entries), tag: tag, at: bench.now)
                default: break
                }
            }
            return sweeps
        }
        _ = count(3)
        let alone = count(30)
        #expect(alone > 256 * 30 * 8 / 10 && alone < 256 * 30 * 12 / 10)
        nodes = 10
        _ = count(20)
        let many = count(50)
        #expect(many > 256 * 10 * 8 / 10 && many < 256 * 10 * 12 / 10)
        let nodeCount = bench.machine.nodes.count
        #expect(nodeCount == 10)
    }

    @Test("announces itself every 10 s with its connections")
    func announces() {
        let bench = PresenceMachineBench()
        bench.connect("c-1")
        bench.settle()
        let counts = bench.pass(.seconds(35)).compactMap { if case .announce(let count, _) = $0 { count } else { nil } }
        #expect(counts == [1, 1, 1, 1])
    }

    @Test("a call that's refused for somebody in it is taken apart: each is tried on its own, so that one keeps nobody out")
    func alone() {
        let bench = PresenceMachineBench()
        let users = ["alice", "bob", "carol"].map { Name(trusted: [UInt8]($0.utf8)) }
        // Of one partition: with the same name they're one user's connections.
        for (number, _) in users.enumerated() { bench.connect(Name(trusted: [UInt8]("c-\(number)".utf8)), "alice") }
        bench.request(.away, "c-0")
        let together = bench.applies()
        #expect(together.map(\.operations.count) == [3])
        bench.machine.applied(.failure(WireError(.internal, "somebody else's", mayRetry: false)), tag: together[0].tag, at: bench.now)
        // Nobody is told yet: whose fault it is isn't known.
        #expect(!bench.actions().contains { if case .presenceAck = $0 { true } else { false } })
        var sizes: [Int] = []
        var acks: [Bool] = []
        bench.pass(.seconds(3)) { action in
            switch action {
            case .apply(let operations, _, let tag):
                sizes.append(operations.count)
                let isBad = operations[0].connection == "c-1"
                bench.machine.applied(
                    isBad ? .failure(WireError(.internal, "somebody else's", mayRetry: false)) : .success([7]), tag: tag, at: bench.now)
            case .presenceAck(_, let result): acks.append((try? result.get()) != nil)
            default: break
            }
        }
        #expect(sizes == [1, 1, 1])
        #expect(acks == [true])
    }
}
