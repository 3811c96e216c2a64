import HubBase
import HubCore
import HubWire
import Testing

/// A node that's stopped in order leaves its members for their grace, not for its lease.
@Suite("Members of a node that stops") struct MembersLeavingTests {
    private func roles(_ actions: [MembersAction]) -> [MemberRole] {
        actions.compactMap { if case .refresh(_, let role, _, _) = $0 { role } else { nil } }
    }

    /// One member, told to the store, and lost.
    private func lost() -> MembersBench {
        let bench = MembersBench()
        bench.join("alice", 1)
        bench.pass(.milliseconds(250))
        bench.say(bench.changes()[0].tag)
        bench.machine.closed(connection: 1, isClean: false, at: bench.now)
        return bench
    }

    @Test("what it said is to end with the grace of the last one, and it waits for the store's word")
    func cut() {
        let bench = lost()
        _ = bench.take()
        bench.machine.leave(at: bench.now)
        #expect(!bench.machine.hasLeft)
        bench.pass(.milliseconds(20))
        let actions = bench.take()
        #expect(roles(actions) == [.leaving(within: .milliseconds(9_990))])
        #expect(!bench.machine.hasLeft)
        for case .refresh(_, _, _, let tag) in actions {
            let lease = MembersLease(isKnown: true, sequence: 5, begun: 1, occupancy: 1, othersEnd: nil, dead: [])
            bench.machine.refreshed(.success(lease), tag: tag, at: bench.now)
        }
        #expect(bench.machine.hasLeft)
    }

    @Test("a call that's made after that prolongs nothing")
    func calls() {
        let bench = lost()
        bench.join("bob", 2)
        _ = bench.take()
        bench.machine.leave(at: bench.now)
        bench.pass(.milliseconds(250))
        let order = bench.take().compactMap {
            switch $0 {
            case .change: "change"
            case .refresh(_, .leaving, _, _): "leaving"
            case .refresh: "host"
            default: nil
            }
        }
        #expect(order.contains("change") && order.last == "leaving" && !order.contains("host"), "\(order)")
        #expect(!bench.machine.hasLeft)
    }

    /// What the store says to calls that cut leases.
    private func answer(_ actions: [MembersAction], _ bench: MembersBench, _ error: WireError? = nil) {
        let lease = MembersLease(isKnown: true, sequence: 5, begun: 1, occupancy: 1, othersEnd: nil, dead: [])
        for case .refresh(_, _, _, let tag) in actions {
            bench.machine.refreshed(error.map { .failure($0) } ?? .success(lease), tag: tag, at: bench.now)
        }
    }

    @Test("a lease that wasn't cut is cut again, as often as it takes; the node hasn't left before")
    func refused() {
        let bench = lost()
        _ = bench.take()
        bench.machine.leave(at: bench.now)
        for _ in 0..<5 {
            bench.pass(.milliseconds(150))
            let actions = bench.take()
            #expect(roles(actions).count == 1)
            answer(actions, bench, WireError(.unavailable, "the link owes too many answers"))
            #expect(!bench.machine.hasLeft)
        }
        bench.pass(.milliseconds(150))
        answer(bench.take(), bench)
        #expect(bench.machine.hasLeft)
    }

    @Test("what the store will never take isn't waited for")
    func foreign() {
        let bench = lost()
        _ = bench.take()
        bench.machine.leave(at: bench.now)
        bench.pass(.milliseconds(20))
        answer(bench.take(), bench, WireError(.internal, "somebody else's key", mayRetry: false))
        #expect(bench.machine.hasLeft)
    }

    /// A node with a member in each of many channels, told to the store, that begins to stop.
    private func leaving(channels: Int) -> MembersBench {
        let bench = MembersBench()
        for place in 0..<channels {
            let channel = Name(validating: "many:\(place)")!
            bench.machine.joined(channel, connection: UInt64(place), user: "alice", device: "d", isVisible: true, at: bench.now)
        }
        bench.pass(.milliseconds(250))
        for change in bench.changes() { bench.say(change.tag) }
        _ = bench.take()
        bench.machine.leave(at: bench.now)
        return bench
    }

    @Test("a store that doesn't answer is asked no more than it can owe")
    func slow() {
        let bench = leaving(channels: 5_000)
        bench.pass(.seconds(1))
        var told = bench.take()
        #expect(roles(told).count == 2_000)
        for _ in 0..<3 {
            answer(told, bench)
            bench.pass(.milliseconds(100))
            told = bench.take()
        }
        #expect(roles(told).isEmpty && bench.machine.hasLeft)
    }

    @Test("where the store is away, or a part of it, its leases are asked for until it's back")
    func away() {
        let bench = lost()
        _ = bench.take()
        bench.machine.leave(at: bench.now)
        bench.machine.storeHealth(.down("cut off"), at: bench.now)
        for _ in 0..<5 {
            bench.pass(.milliseconds(150))
            let actions = bench.take()
            #expect(roles(actions).count == 1)
            answer(actions, bench, WireError(.unavailable, "Redis is away"))
            #expect(bench.machine.isLeaving && !bench.machine.hasLeft)
        }
        bench.machine.storeHealth(.up, at: bench.now)
        bench.pass(.milliseconds(150))
        answer(bench.take(), bench)
        #expect(bench.machine.hasLeft)
    }

    @Test("what is refused waits behind what wasn't asked for yet")
    func behind() {
        let bench = leaving(channels: 1_200)
        var asked: [Name] = []
        for _ in 0..<3 {
            bench.pass(.milliseconds(10))
            let actions = bench.take()
            for case .refresh(let channel, _, _, _) in actions { asked.append(channel) }
            answer(actions, bench, WireError(.unavailable, "Redis is away"))
        }
        #expect(asked.count == 1_200 && Set(asked).count == 1_200)
        bench.pass(.milliseconds(150))
        #expect(roles(bench.take()).count == 1_200)
    }

    @Test("channels beyond a tick's share are told of in the next ones, each once")
    func many() {
        let bench = leaving(channels: 1_200)
        var told: [Int] = []
        for _ in 0..<4 {
            bench.pass(.milliseconds(10))
            told.append(roles(bench.take()).count)
        }
        #expect(told.reduce(0, +) == 1_200 && told.allSatisfy { $0 <= 500 }, "\(told)")
    }
}
