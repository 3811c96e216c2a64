import HubBase
import HubCore
import HubWire
import Testing

@Suite("Members of a store that went back") struct MembersOlderDataTests {
    private func refreshes(_ actions: [MembersAction]) -> [(role: MemberRole, known: MembersKnown, tag: RequestTag)] {
        actions.compactMap { if case .refresh(_, let role, let known, let tag) = $0 { (role, known, tag) } else { nil } }
    }

    private func restart(_ bench: MembersBench) {
        bench.machine.storeHealth(.down("restarts"), at: bench.now)
        bench.pass(.milliseconds(100))
        bench.machine.storeHealth(.up, at: bench.now)
    }

    @Test("each call says what the node was told, and its own last call that was answered")
    func known() {
        let bench = MembersBench()
        bench.join("alice", 1)
        bench.pass(.milliseconds(250))
        func change() -> (known: MembersKnown, tag: RequestTag) {
            for case .change(_, _, let known, _, let tag) in bench.take() { return (known, tag) }
            return (MembersKnown(sequence: 404), .none)
        }
        let first = change()
        #expect(first.known == MembersKnown(sequence: 0, call: 0))
        bench.say(first.tag, sequence: 5)
        bench.hear(.joined, ["zoe": 1], 8, occupancy: 2)
        bench.join("bob", 2)
        bench.pass(.milliseconds(250))
        let second = change()
        #expect(second.known == MembersKnown(sequence: 8, call: first.tag.low) && second.tag.low > first.tag.low)
        bench.machine.changed(.failure(WireError(.unavailable, "lost")), tag: second.tag, at: bench.now)
        bench.pass(.milliseconds(2_100))
        #expect(change().known == MembersKnown(sequence: 8, call: first.tag.low))
        bench.pass(.seconds(30))
        #expect(refreshes(bench.take()).first?.known == MembersKnown(sequence: 8, call: first.tag.low))
    }

    @Test("a list that's behind what followers were told isn't shown: a lease asks, and what begins anew is a change for nobody")
    func list() {
        let bench = MembersBench()
        bench.join("alice", 1)
        _ = bench.follow([MemberEntry(user: "alice", devices: 1), MemberEntry(user: "bob", devices: 1)])
        bench.pass(.milliseconds(250))
        bench.say(bench.changes()[0].tag, occupancy: 2)
        bench.hear(.left, ["bob": 0], 6)
        bench.pass(.milliseconds(20))
        #expect(bench.frames().map(\.left) == [["bob"]])
        restart(bench)
        var lists = 0
        var asked: RequestTag?
        for _ in 0..<120 where asked == nil {
            bench.pass(.milliseconds(10))
            let actions = bench.take()
            for case .list(_, _, _, _, let tag) in actions {
                lists += 1
                bench.list([MemberEntry(user: "alice", devices: 1), MemberEntry(user: "bob", devices: 1)], sequence: 5, tag)
            }
            for refresh in refreshes(actions) {
                #expect(refresh.known.sequence == 6)
                asked = refresh.tag
            }
        }
        #expect(lists <= 6)
        guard let asked else { return #expect(Bool(false), "nobody asked") }
        bench.hear(.rejoin(by: "aaaaaaaaaaaa"), [:], 1_000, occupancy: 0)
        bench.machine.refreshed(
            .success(MembersLease(isKnown: false, sequence: 1_000, begun: 1_000, occupancy: 0, othersEnd: nil, dead: [])), tag: asked,
            at: bench.now)
        var said: [MemberCount] = []
        var frames: [MembersChange] = []
        func pass(_ span: Span, _ members: [MemberEntry], sequence: UInt64) {
            let end = bench.now + span
            while bench.now < end {
                bench.pass(.milliseconds(10))
                for action in bench.take() {
                    switch action {
                    case .push(let change, _): frames.append(change)
                    case .list(_, _, _, _, let tag): bench.list(members, sequence: sequence, begun: 1_000, tag)
                    case .change(let users, _, _, _, let tag):
                        said += users
                        bench.machine.changed(
                            .success(MembersTip(sequence: 1_001, begun: 1_000, occupancy: 1, isNew: true)), tag: tag, at: bench.now)
                    default: break
                    }
                }
            }
        }
        pass(.milliseconds(300), [], sequence: 1_000)
        #expect(said == [MemberCount(user: "alice", devices: 1)] && frames.isEmpty)
        bench.hear(.joined, ["alice": 1], 1_001)
        bench.hear(.joined, ["carol": 1], 1_002, occupancy: 2)
        pass(.milliseconds(300), [MemberEntry(user: "alice", devices: 1), MemberEntry(user: "carol", devices: 1)], sequence: 1_002)
        #expect(frames.map(\.joined) == [[MemberEntry(user: "carol", devices: 1)]] && frames.first?.previous == 6)
    }

    @Test("where the last one left shortly before the store went away it's looked whether they're back; and where longer ago, not")
    func emptied() {
        for (age, isAsked) in [(Span.seconds(20), true), (.seconds(40), false)] {
            let bench = MembersBench()
            bench.join("alice", 1)
            bench.pass(.milliseconds(250))
            bench.say(bench.changes()[0].tag)
            bench.machine.left("room", connection: 1, at: bench.now)
            bench.pass(.milliseconds(250))
            let leave = bench.changes()[0].tag
            bench.say(leave, sequence: 6, occupancy: 0)
            bench.pass(age)
            #expect(bench.machine.numbers.channels == 0)
            bench.machine.storeHealth(.down("away"), at: bench.now)
            bench.pass(.seconds(60))
            bench.machine.storeHealth(.up, at: bench.now)
            bench.pass(.seconds(6))
            let asked = refreshes(bench.take())
            #expect(asked.map(\.known) == (isAsked ? [MembersKnown(sequence: 6, call: leave.low)] : []))
            #expect(!asked.contains { $0.role != .observer })
            guard let tag = asked.first?.tag else { continue }
            #expect(bench.machine.occupancy(of: "room") == nil, "who else is there isn't known")
            bench.machine.refreshed(
                .success(MembersLease(isKnown: true, sequence: 6, begun: 1, occupancy: 0, othersEnd: nil, dead: [])), tag: tag,
                at: bench.now)
            bench.pass(.seconds(1))
            #expect(bench.machine.numbers.channels == 0 && refreshes(bench.take()).isEmpty)
        }
    }

    @Test("another state under the number that followers were told is told under a larger one, and the channel begins anew above that")
    func sameNumber() {
        for threshold in [200, 1] {
            let bench = MembersBench(threshold: threshold)
            let (alice, bob, carol) = (
                MemberEntry(user: "alice", devices: 1), MemberEntry(user: "bob", devices: 1), MemberEntry(user: "carol", devices: 1)
            )
            _ = bench.follow([alice, bob])
            restart(bench)
            var frames: [MembersChange] = []
            var known: [MembersKnown] = []
            for _ in 0..<200 {
                bench.pass(.milliseconds(10))
                let actions = bench.take()
                known += refreshes(actions).map(\.known)
                for action in actions {
                    if case .push(let change, _) = action { frames.append(change) }
                    if case .list(_, _, _, _, let tag) = action { bench.list([alice, bob, carol], sequence: 5, tag) }
                }
            }
            #expect(frames.map(\.occupancy) == [3] && frames[0].sequence > 5, "\(threshold): \(frames)")
            #expect(known.last.map { $0.sequence >= frames[0].sequence } == true, "\(threshold): \(known)")
        }
    }

    @Test("a lease that finds another number of members than followers were shown, under their number, makes the list be read")
    func otherCount() {
        let bench = MembersBench()
        let (alice, bob) = (MemberEntry(user: "alice", devices: 1), MemberEntry(user: "bob", devices: 1))
        _ = bench.follow([alice])
        bench.pass(.seconds(30))
        func answer(_ occupancy: UInt64) -> Int {
            for refresh in refreshes(bench.take()) {
                bench.machine.refreshed(
                    .success(MembersLease(isKnown: true, sequence: 5, begun: 1, occupancy: occupancy, othersEnd: nil, dead: [])),
                    tag: refresh.tag, at: bench.now)
            }
            bench.pass(.milliseconds(20))
            var lists = 0
            for case .list(_, _, _, _, let tag) in bench.take() {
                lists += 1
                bench.list([alice, bob], sequence: 5, tag)
            }
            bench.pass(.milliseconds(20))
            return lists
        }
        #expect(answer(1) == 0)
        bench.pass(.seconds(34))
        #expect(answer(2) == 1)
        #expect(bench.frames().map(\.joined) == [[bob]])
    }

    @Test("a beginning below what's known is asked about, not believed")
    func below() {
        let bench = MembersBench()
        bench.join("alice", 1)
        bench.pass(.milliseconds(250))
        bench.say(bench.changes()[0].tag, sequence: 500)
        bench.hear(.rejoin(by: "bbbbbbbbbbbb"), [:], 100, occupancy: 0)
        bench.pass(.milliseconds(250))
        let actions = bench.take()
        #expect(refreshes(actions).map(\.known.sequence) == [500])
        #expect(!actions.contains { if case .change = $0 { true } else { false } })
    }
}
