import HubBase
import HubCore
import HubWire
import Testing

/// A machine that only sweeps, and a store that never finds anything.
private final class SweepBench {
    let machine = MembersMachine(timers: PresenceTimers(), node: "aaaaaaaaaaaa", tagSpace: 77, chance: Chance(seed: 1))
    var now = Instant(nanoseconds: 1_000_000_000)
    private(set) var swept: [Int] = []

    init() {
        machine.setNamespaces([:])
        machine.storeHealth(.up, at: now)
    }

    func pass(_ span: Span, answering: Bool = true) {
        let end = now + span
        while now < end {
            now = now + .milliseconds(10)
            machine.tick(at: now)
            if answering { answer() }
        }
    }

    private func answer() {
        for case .sweep(let partition, let tag) in machine.takeActions() {
            swept.append(partition)
            machine.swept(.success(MembersSwept()), tag: tag, at: now)
        }
    }
}

@Suite("Sweeps of members") struct MembersSweepTests {
    @Test(
        "every partition is swept again and again, the more nodes the rarer, one sweep of each at a time, and none while the store is away")
    func sweeps() {
        let bench = SweepBench()
        // A gap of 10 s makes an interval of 1 s, and two of them the pace of a node alone.
        bench.pass(.seconds(3))
        #expect(Set(bench.swept) == Set(0..<Partition.count))
        let before = bench.swept.count
        bench.pass(.seconds(10))
        #expect(((Partition.count * 4)...(Partition.count * 6)).contains(bench.swept.count - before), "\(bench.swept.count - before)")
        bench.machine.nodesLive = 10
        bench.pass(.seconds(4))
        let alone = bench.swept.count
        bench.pass(.seconds(20))
        // Ten times rarer than one alone would be more than the longest gap allows: six seconds it is.
        #expect((Partition.count * 2...Partition.count * 5).contains(bench.swept.count - alone), "\(bench.swept.count - alone)")
        // Nobody answers: nothing is asked twice.
        bench.pass(.seconds(15), answering: false)
        let unanswered = bench.machine.takeActions().count
        #expect((1...Partition.count).contains(unanswered))
        bench.machine.storeHealth(.down("away"), at: bench.now)
        bench.pass(.seconds(60), answering: false)
        #expect(bench.machine.takeActions().isEmpty)
        #expect(bench.machine.numbers.failures == UInt64(unanswered), "who doesn't answer is taken to have refused")
    }

    @Test("a heartbeat that falls due while a channel's first member is being said isn't the last one")
    func heartbeatWhileSaying() {
        let machine = MembersMachine(timers: PresenceTimers(), node: "aaaaaaaaaaaa", tagSpace: 77, chance: Chance(seed: 1))
        var now = Instant(nanoseconds: 1_000_000_000)
        machine.setNamespaces([:])
        machine.storeHealth(.up, at: now)
        var refreshes = 0
        var (said, waiting): (RequestTag?, RequestTag?) = (nil, nil)
        func say(_ tag: RequestTag) {
            said = nil
            machine.changed(.success(MembersTip(sequence: 5, begun: 1, occupancy: 1, isNew: false)), tag: tag, at: now)
        }
        func pass(_ span: Span, answering: Bool) {
            let end = now + span
            while now < end {
                now = now + .milliseconds(20)
                machine.tick(at: now)
                var actions = machine.takeActions()
                while !actions.isEmpty {
                    for action in actions {
                        switch action {
                        case .change(_, _, _, _, let tag) where answering: said = tag
                        case .change(_, _, _, _, let tag): waiting = tag
                        case .refresh: refreshes += 1
                        default: break
                        }
                    }
                    if let tag = said { say(tag) }
                    actions = machine.takeActions()
                }
            }
        }
        // Alice makes the channel known, and goes; Bob, who is invisible, keeps it.
        machine.joined("room", connection: 1, user: "alice", device: "phone", isVisible: true, at: now)
        machine.joined("room", connection: 2, user: "bob", device: "phone", isVisible: false, at: now)
        pass(.seconds(1), answering: true)
        machine.left("room", connection: 1, at: now)
        pass(.seconds(12), answering: true)
        machine.joined("room", connection: 3, user: "carol", device: "phone", isVisible: true, at: now)
        // A heartbeat is due 15 to 30 s after Alice came.
        pass(.seconds(19), answering: false)
        let before = refreshes
        guard let tag = waiting else {
            Issue.record("carol wasn't said")
            return
        }
        say(tag)
        pass(.seconds(31), answering: true)
        #expect(refreshes > before)
    }
}
