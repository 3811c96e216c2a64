import HubBase
import HubCore
import HubWire
import Testing

@Suite("Members' calls under way") struct MembersFlightTests {
    /// Alice's first call is under way.
    private func joining(_ bench: MembersBench) -> RequestTag {
        bench.join("alice", 1)
        bench.pass(.milliseconds(250))
        return bench.changes()[0].tag
    }

    @Test(
        "who leaves while the call that says they came is under way is said to be gone, however it ends",
        arguments: ["yes", "no", "nothing"])
    func leaving(_ answer: String) {
        let bench = MembersBench()
        let tag = joining(bench)
        bench.machine.left("room", connection: 1, at: bench.now)
        bench.pass(.seconds(1))
        #expect(bench.changes().isEmpty, "one call at a time")
        switch answer {
        case "yes": bench.say(tag)
        case "no": bench.machine.changed(.failure(WireError(.storeFull, "full")), tag: tag, at: bench.now)
        default: bench.pass(MembersMachine.answerWithin)
        }
        bench.pass(.milliseconds(2_100))
        let calls = bench.changes()
        #expect(calls.map(\.users) == [[MemberCount(user: "alice", devices: 0)]])
        bench.say(calls[0].tag, sequence: 6, occupancy: 0)
        bench.pass(.seconds(60))
        #expect(bench.changes().isEmpty && bench.machine.numbers.channels == 0)
    }

    @Test("so is who hides, and who says goodbye; a grace that ends does the same")
    func otherWays() {
        for way in ["hides", "closes", "lost"] {
            let bench = MembersBench(grace: way == "lost" ? .milliseconds(300) : .seconds(10))
            let tag = joining(bench)
            switch way {
            case "hides": bench.machine.showed(false, connection: 1, at: bench.now)
            case "closes": bench.machine.closed(connection: 1, isClean: true, at: bench.now)
            default: bench.machine.closed(connection: 1, isClean: false, at: bench.now)
            }
            bench.pass(.milliseconds(800))
            bench.say(tag)
            bench.pass(.milliseconds(250))
            #expect(bench.changes().map(\.users) == [[MemberCount(user: "alice", devices: 0)]], "\(way)")
        }
    }

    @Test("who leaves and is back before the call is answered isn't said again, and who comes back after a leave under way is")
    func toAndFro() {
        let bench = MembersBench()
        let first = joining(bench)
        bench.machine.left("room", connection: 1, at: bench.now)
        bench.join("alice", 2)
        bench.say(first)
        bench.pass(.seconds(1))
        #expect(bench.changes().isEmpty)
        bench.machine.left("room", connection: 2, at: bench.now)
        bench.pass(.milliseconds(250))
        let leave = bench.changes()[0].tag
        bench.join("alice", 3)
        bench.say(leave, sequence: 6, occupancy: 0)
        bench.pass(.milliseconds(250))
        #expect(bench.changes().map(\.users) == [[MemberCount(user: "alice", devices: 1)]])
    }

    @Test("what a call says is said again when the channel began anew before it was answered")
    func beganMeanwhile() {
        let bench = MembersBench()
        let tag = joining(bench)
        // It was carried out, then the channel began anew; news overtakes the answer.
        bench.hear(.rejoin(by: "bbbbbbbbbbbb"), [:], 1_000, occupancy: 0)
        bench.say(tag)
        bench.pass(.milliseconds(450))
        #expect(bench.changes().map(\.users) == [[MemberCount(user: "alice", devices: 1)]])
    }

    @Test("a heartbeat that falls due while one is under way goes out with its answer: a slow store's answer is no new lease")
    func slowHeartbeats() {
        let bench = MembersBench(heartbeat: .seconds(2))
        bench.say(joining(bench))
        func heartbeats() -> [RequestTag] { bench.take().compactMap { if case .refresh(_, _, _, let tag) = $0 { tag } else { nil } } }
        bench.pass(.seconds(2))
        let first = heartbeats()
        #expect(first.count == 1)
        bench.pass(.seconds(3))
        #expect(heartbeats().isEmpty)
        let lease = MembersLease(isKnown: true, sequence: 5, begun: 1, occupancy: 1, othersEnd: nil, dead: [])
        for tag in first { bench.machine.refreshed(.success(lease), tag: tag, at: bench.now) }
        bench.pass(.milliseconds(20))
        let second = heartbeats()
        #expect(second.count == 1)
        // Once, and then in its turn.
        for tag in second { bench.machine.refreshed(.success(lease), tag: tag, at: bench.now) }
        bench.pass(.seconds(1))
        #expect(heartbeats().isEmpty)
    }
}
