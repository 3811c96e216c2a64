import HubBase
import HubCore
import HubWire
import Testing

@Suite("Members machine") struct MembersMachineTests {
    @Test("devices without names are as many as connections, and a new one takes no lingering one's place")
    func unnamedDevices() {
        let bench = MembersBench()
        for connection in 1...3 as ClosedRange<UInt64> { bench.join("alice", connection, device: .empty) }
        bench.pass(.milliseconds(250))
        let first = bench.changes()
        #expect(first.flatMap(\.users) == [MemberCount(user: "alice", devices: 3)])
        bench.say(first[0].tag)
        bench.machine.closed(connection: 2, isClean: false, at: bench.now)
        bench.join("alice", 4, device: .empty)
        bench.pass(.milliseconds(250))
        let second = bench.changes()
        #expect(second.flatMap(\.users) == [MemberCount(user: "alice", devices: 4)])
        bench.say(second[0].tag, sequence: 6)
        bench.pass(.seconds(11))
        #expect(bench.changes().flatMap(\.users).last == MemberCount(user: "alice", devices: 3))
    }

    @Test("a connection is in the channels that it joined and didn't leave, in whichever order")
    func channelsOfAConnection() {
        let bench = MembersBench()
        for channel in ["a", "b", "c"] as [Name] {
            bench.machine.joined(channel, connection: 1, user: "alice", device: "phone", isVisible: true, at: bench.now)
        }
        bench.machine.left("a", connection: 1, at: bench.now)
        bench.machine.left("a", connection: 1, at: bench.now)
        bench.machine.left("c", connection: 1, at: bench.now)
        bench.machine.left("b", connection: 2, at: bench.now)
        bench.pass(.milliseconds(250))
        let told = bench.take().compactMap { if case .change(let users, let channel, _, _, _) = $0 { (channel, users) } else { nil } }
        #expect(told.map(\.0) == ["b"])
        bench.machine.closed(connection: 1, isClean: true, at: bench.now)
        bench.machine.tick(at: bench.now + .seconds(1))
        #expect(bench.machine.numbers.channels == 1)
    }

    @Test("what happens within 200 ms leaves in one call, what is there by then and nothing that came and went")
    func collected() {
        let bench = MembersBench()
        bench.join("alice", 1)
        bench.join("bob", 2)
        bench.join("carol", 3)
        bench.machine.left("room", connection: 3, at: bench.now)
        bench.pass(.milliseconds(150))
        #expect(bench.changes().isEmpty)
        bench.pass(.milliseconds(100))
        let calls = bench.changes()
        #expect(calls.map(\.users) == [[MemberCount(user: "alice", devices: 1), MemberCount(user: "bob", devices: 1)]])
        // One call at a time; then the next.
        bench.join("dave", 4)
        bench.pass(.seconds(1))
        #expect(bench.changes().isEmpty)
        bench.say(calls[0].tag)
        bench.pass(.milliseconds(250))
        #expect(bench.changes().map(\.users) == [[MemberCount(user: "dave", devices: 1)]])
    }

    @Test("several devices are one member; two connections of a device are one device")
    func devices() {
        let bench = MembersBench()
        bench.join("alice", 1, device: "phone")
        bench.join("alice", 2, device: "phone")
        bench.join("alice", 3, device: "tablet")
        bench.join("alice", 4, device: "hidden", visible: false)
        bench.pass(.milliseconds(250))
        let first = bench.changes()
        #expect(first.map(\.users) == [[MemberCount(user: "alice", devices: 2)]])
        bench.say(first[0].tag)
        bench.machine.left("room", connection: 1, at: bench.now)
        bench.pass(.milliseconds(250))
        #expect(bench.changes().isEmpty)
        bench.machine.showed(true, connection: 4, at: bench.now)
        bench.pass(.milliseconds(250))
        let second = bench.changes()
        #expect(second.map(\.users) == [[MemberCount(user: "alice", devices: 3)]])
        bench.say(second[0].tag)
        for connection: UInt64 in 2...4 { bench.machine.closed(connection: connection, isClean: true, at: bench.now) }
        bench.pass(.milliseconds(250))
        #expect(bench.changes().map(\.users) == [[MemberCount(user: "alice", devices: 0)]])
    }

    @Test("a lost connection counts for the grace, and a device that comes back within it changes nothing")
    func grace() {
        let bench = MembersBench()
        bench.join("alice", 1)
        bench.pass(.milliseconds(250))
        bench.say(bench.changes()[0].tag)
        bench.machine.closed(connection: 1, isClean: false, at: bench.now)
        bench.pass(.seconds(8))
        bench.join("alice", 2)
        bench.pass(.seconds(20))
        #expect(bench.changes().isEmpty)
        bench.machine.closed(connection: 2, isClean: false, at: bench.now)
        bench.pass(.seconds(9))
        #expect(bench.changes().isEmpty)
        bench.pass(.seconds(2))
        #expect(bench.changes().map(\.users) == [[MemberCount(user: "alice", devices: 0)]])
    }

    @Test("those who leave and those who come go in calls of their own, 50 at most each, and all of them without waiting")
    func batches() {
        let bench = MembersBench(grace: .zero)
        for number in 0..<120 { bench.join(Name(validating: "u\(number)")!, UInt64(number)) }
        bench.pass(.milliseconds(250))
        var sizes: [Int] = []
        for _ in 0..<3 {
            let call = bench.changes()
            sizes.append(call[0].users.count)
            bench.say(call[0].tag)
            bench.pass(.milliseconds(20))
        }
        #expect(sizes == [50, 50, 20])
        bench.machine.closed(connection: 0, isClean: false, at: bench.now)
        bench.join("late", 500)
        bench.pass(.milliseconds(250))
        let first = bench.changes()
        #expect(first.map(\.users) == [[MemberCount(user: "u0", devices: 0)]])
        bench.say(first[0].tag)
        bench.pass(.milliseconds(20))
        #expect(bench.changes().map(\.users) == [[MemberCount(user: "late", devices: 1)]])
    }

    @Test("what was refused goes out again as it is by then; what the store forgot is said again")
    func again() {
        let bench = MembersBench()
        bench.join("alice", 1)
        bench.join("bob", 2)
        bench.pass(.milliseconds(250))
        let call = bench.changes()
        bench.machine.changed(.failure(WireError(.storeFull, "full")), tag: call[0].tag, at: bench.now)
        bench.machine.left("room", connection: 2, at: bench.now)
        bench.pass(.milliseconds(1_900))
        #expect(bench.changes().isEmpty)
        bench.pass(.milliseconds(200))
        // Whether bob was stored isn't known, so that he's gone is said too.
        let leaves = bench.changes()
        #expect(leaves.count == 1)
        bench.say(leaves[0].tag)
        bench.pass(.milliseconds(250))
        let joins = bench.changes()
        #expect(
            (leaves + joins).flatMap(\.users).sorted { $0.devices < $1.devices } == [
                MemberCount(user: "bob", devices: 0), MemberCount(user: "alice", devices: 1),
            ])
        bench.say(joins[0].tag)
        bench.join("carol", 3)
        bench.pass(.milliseconds(250))
        bench.say(bench.changes()[0].tag, isNew: true)
        bench.pass(.milliseconds(250))
        #expect(bench.changes().map(\.users) == [[MemberCount(user: "alice", devices: 1)]])
    }

    @Test("without the store nothing is sent and a goodbye isn't believed at once; when it's back what is so by then is said")
    func away() {
        let bench = MembersBench()
        bench.join("alice", 1)
        bench.pass(.milliseconds(250))
        bench.say(bench.changes()[0].tag)
        bench.machine.storeHealth(.down("gone"), at: bench.now)
        bench.machine.closed(connection: 1, isClean: true, at: bench.now)
        bench.join("bob", 2)
        bench.pass(.seconds(5))
        #expect(bench.changes().isEmpty)
        bench.machine.storeHealth(.up, at: bench.now)
        bench.pass(.milliseconds(50))
        #expect(bench.changes().map(\.users) == [[MemberCount(user: "bob", devices: 1)]])
    }

    @Test("a dead node is taken out by whoever hears of it, and the next look is when the next lease would end")
    func reap() {
        let bench = MembersBench()
        bench.join("alice", 1)
        bench.pass(.milliseconds(250))
        bench.say(bench.changes()[0].tag)
        var tags: [RequestTag] = []
        func refreshes() -> Int {
            for case .refresh(_, let role, _, let tag) in bench.take() {
                #expect(role == .host)
                tags.append(tag)
            }
            return tags.count
        }
        bench.pass(.seconds(30))
        #expect(refreshes() == 1)
        func lease(_ end: Span?, _ dead: [Name]) {
            bench.machine.refreshed(
                .success(MembersLease(isKnown: true, sequence: 5, begun: 1, occupancy: 1, othersEnd: end, dead: dead)),
                tag: tags.last!, at: bench.now)
        }
        lease(.seconds(3), [])
        bench.pass(.milliseconds(2_900))
        #expect(refreshes() == 1)
        bench.pass(.milliseconds(1_200))
        #expect(refreshes() == 2)
        lease(nil, ["bbbbbbbbbbbb"])
        var reaped: [RequestTag] = []
        for case .reap(let node, "room", let tag) in bench.take() {
            #expect(node == "bbbbbbbbbbbb")
            reaped.append(tag)
        }
        #expect(reaped.count == 1)
        bench.machine.reaped(.success(7), tag: reaped[0], at: bench.now)
        #expect(bench.machine.numbers.reaped == 7)
    }

    @Test("a look that comes due while one is under way isn't the last one")
    func refreshTwice() {
        let bench = MembersBench()
        bench.join("alice", 1)
        bench.pass(.milliseconds(250))
        bench.say(bench.changes()[0].tag)
        func refreshes() -> [RequestTag] { bench.take().compactMap { if case .refresh(_, _, _, let tag) = $0 { tag } else { nil } } }
        bench.pass(.seconds(30))
        let first = refreshes()
        #expect(first.count == 1)
        // The store goes and comes before it has answered, so that all channels are looked at soon.
        bench.machine.storeHealth(.down("gone"), at: bench.now)
        bench.machine.storeHealth(.up, at: bench.now)
        bench.pass(.seconds(6))
        #expect(refreshes().isEmpty)
        let lease = MembersLease(isKnown: true, sequence: 5, begun: 1, occupancy: 1, othersEnd: nil, dead: [])
        var last = first
        for patience in [Span.milliseconds(10), .seconds(34)] {
            for tag in last { bench.machine.refreshed(.success(lease), tag: tag, at: bench.now) }
            bench.pass(patience)
            last = refreshes()
            #expect(last.count == 1)
        }
    }

    @Test("a follower gets the list, then each change once, and nothing of before")
    func follow() {
        let bench = MembersBench()
        let page = bench.follow([MemberEntry(user: "alice", devices: 1)])
        #expect(page == MembersPage(members: [MemberEntry(user: "alice", devices: 1)], occupancy: 1, sequence: 5, mode: .each))
        bench.hear(.joined, ["alice": 1], 5)
        bench.hear(.joined, ["bob": 1], 6)
        bench.pass(.milliseconds(20))
        var expected = MembersChange(channel: "room", mode: .each, occupancy: 2, sequence: 6, previous: 5)
        expected.joined = [MemberEntry(user: "bob", devices: 1)]
        #expect(bench.frames() == [expected])
        // Those of a quarter of a second go together; who came and went isn't told.
        bench.hear(.updated, ["bob": 2], 7)
        bench.hear(.joined, ["carol": 1], 8)
        bench.hear(.left, ["carol": 0], 9)
        bench.hear(.left, ["alice": 0], 10)
        bench.pass(.milliseconds(200))
        #expect(bench.frames().isEmpty)
        // Who comes meanwhile gets the list that the next frame follows.
        bench.machine.follow(["room"], loop: 1, tag: RequestTag(high: 1, low: 1), at: bench.now)
        for case .followed(let pages, _) in bench.take() {
            #expect(pages[0]?.sequence == 6 && pages[0]?.occupancy == 2)
        }
        bench.pass(.milliseconds(100))
        expected = MembersChange(channel: "room", mode: .each, occupancy: 1, sequence: 10, previous: 6)
        expected.left = ["alice"]
        expected.updated = [MemberEntry(user: "bob", devices: 2)]
        #expect(bench.frames() == [expected])
    }

    @Test("a missing message makes the list be read again, and the difference is told")
    func gap() {
        let bench = MembersBench()
        _ = bench.follow([MemberEntry(user: "alice", devices: 1)])
        bench.hear(.joined, ["carol": 1], 7)
        bench.pass(.milliseconds(20))
        var tags: [RequestTag] = []
        for case .list(_, _, _, _, let tag) in bench.take() { tags.append(tag) }
        #expect(tags.count == 1)
        // While it's read, what comes waits.
        bench.hear(.joined, ["dave": 1], 8)
        bench.hear(.joined, ["erin": 1], 9)
        bench.list(
            [MemberEntry(user: "bob", devices: 1), MemberEntry(user: "carol", devices: 1), MemberEntry(user: "dave", devices: 1)],
            sequence: 8, tags[0])
        bench.pass(.milliseconds(20))
        let frames = bench.frames()
        #expect(frames.count == 1 && frames[0].previous == 5 && frames[0].sequence == 9)
        #expect(Set(frames[0].joined.map(\.user)) == ["bob", "carol", "dave", "erin"] && frames[0].left == ["alice"])
        #expect(bench.machine.numbers.gaps == 1)
    }

    @Test("what the store has told and wasn't heard is found by its number, also when nothing follows it")
    func tail() {
        let bench = MembersBench()
        bench.join("alice", 1)
        _ = bench.follow([])
        bench.pass(.milliseconds(250))
        let calls = bench.changes()
        bench.say(calls[0].tag, sequence: 6)
        bench.pass(.milliseconds(900))
        #expect(bench.take().isEmpty)
        bench.pass(.milliseconds(200))
        let isRead = bench.take().contains { if case .list = $0 { true } else { false } }
        #expect(isRead)
    }

    @Test("when the store lost its data nobody is told gone before a hold has passed")
    func lostData() {
        let bench = MembersBench()
        bench.join("alice", 1)
        _ = bench.follow([
            MemberEntry(user: "alice", devices: 1), MemberEntry(user: "bob", devices: 1), MemberEntry(user: "carol", devices: 1),
        ])
        bench.pass(.milliseconds(250))
        bench.say(bench.changes()[0].tag)
        bench.hear(.rejoin(by: "bbbbbbbbbbbb"), [:], 1_000, occupancy: 0)
        bench.hear(.joined, ["bob": 1], 1_001)
        bench.pass(.milliseconds(250))
        // Its own are said again.
        let calls = bench.changes()
        #expect(calls.map(\.users) == [[MemberCount(user: "alice", devices: 1)]])
        bench.machine.changed(
            .success(MembersTip(sequence: 1_002, begun: 1_000, occupancy: 2, isNew: true)), tag: calls[0].tag, at: bench.now)
        bench.hear(.joined, ["alice": 1], 1_002, occupancy: 2)
        bench.pass(.seconds(39))
        for action in bench.take() {
            if case .push(let change, _) = action { Issue.record("told \(change)") }
            if case .list(_, _, _, _, let tag) = action {
                bench.list(
                    [MemberEntry(user: "alice", devices: 1), MemberEntry(user: "bob", devices: 1)], sequence: 1_002, begun: 1_000, tag)
            }
        }
        bench.pass(.seconds(2))
        for case .list(_, _, _, _, let tag) in bench.take() {
            bench.list([MemberEntry(user: "alice", devices: 1), MemberEntry(user: "bob", devices: 1)], sequence: 1_002, begun: 1_000, tag)
        }
        bench.pass(.milliseconds(300))
        #expect(bench.frames().map(\.left) == [["carol"]])
    }

    @Test("who comes while only counts are told isn't answered with less than the others were told since the page was read")
    func countsAgain() {
        let bench = MembersBench(threshold: 4)
        let members = (0..<6).map { MemberEntry(user: Name(validating: "u\($0)")!, devices: 1) }
        #expect(bench.follow(members)?.occupancy == 6)
        bench.hear(.left, ["u5": 0], 6, occupancy: 5)
        bench.pass(.milliseconds(50))
        #expect(bench.frames().map(\.occupancy) == [5])
        // Within the second that a page is good for.
        bench.machine.follow(["room"], loop: 1, tag: RequestTag(high: 0, low: 10), at: bench.now)
        let pages = bench.take().compactMap { if case .followed(let pages, _) = $0 { pages[0] } else { nil } }
        #expect(pages.map(\.occupancy) == [5] && pages.map(\.sequence) == [6] && pages.map(\.mode) == [.counts])
    }

    @Test("above a quarter of the threshold changes come once a second, above it only counts, and each way back a fifth below")
    func modes() {
        let bench = MembersBench(threshold: 40)
        var sequence: UInt64 = 5
        var names: [Name] = []
        _ = bench.follow([])
        func grow(to count: Int) {
            while names.count < count {
                sequence += 1
                names.append(Name(validating: "u\(sequence)")!)
                bench.hear(.joined, [names.last!: 1], sequence, occupancy: UInt64(names.count))
            }
        }
        func shrink(to count: Int) {
            while names.count > count {
                sequence += 1
                bench.hear(.left, [names.removeLast(): 0], sequence, occupancy: UInt64(names.count))
            }
        }
        func modes(after span: Span) -> [MembersMode] {
            bench.pass(span)
            return bench.frames().map(\.mode)
        }
        grow(to: 10)
        #expect(modes(after: .milliseconds(300)) == [.each])
        grow(to: 11)
        #expect(modes(after: .milliseconds(300)) == [.batched])
        grow(to: 12)
        #expect(modes(after: .milliseconds(900)) == [])
        #expect(modes(after: .milliseconds(200)) == [.batched])
        shrink(to: 9)
        #expect(modes(after: .seconds(2)) == [.batched])
        shrink(to: 8)
        #expect(modes(after: .seconds(2)) == [.each])
        grow(to: 41)
        #expect(modes(after: .milliseconds(300)) == [.counts])
        grow(to: 42)
        #expect(modes(after: .milliseconds(4_500)) == [])
        #expect(modes(after: .milliseconds(600)) == [.counts])
        shrink(to: 33)
        #expect(modes(after: .seconds(6)) == [.counts])
        shrink(to: 32)
        bench.pass(.seconds(6))
        for case .list(_, _, _, _, let tag) in bench.take() {
            bench.list(names.map { MemberEntry(user: $0, devices: 1) }, sequence: sequence, tag)
        }
        bench.pass(.milliseconds(300))
        let back = bench.frames()
        #expect(back.count == 1 && back[0].mode == .batched && back[0].members?.count == 32 && back[0].previous == nil)
        shrink(to: 31)
        bench.pass(.seconds(2))
        #expect(bench.frames().first?.previous == back[0].sequence)
    }

    @Test("a channel of ten thousand costs its followers a few frames, filled and emptied")
    func crowd() {
        let bench = MembersBench()
        _ = bench.follow([])
        var sequence: UInt64 = 5
        var frames: [Instant] = []
        func watch(_ span: Span) {
            let end = bench.now + span
            while bench.now < end {
                bench.pass(.milliseconds(10))
                for action in bench.take() {
                    if case .push = action { frames.append(bench.now) }
                    if case .list(_, _, _, _, let tag) = action {
                        bench.list([], sequence: sequence, tag)
                    }
                }
            }
        }
        for count in 1...10_000 {
            sequence += 1
            bench.hear(.joined, [Name(validating: "u\(count)")!: 1], sequence, occupancy: UInt64(count))
            if count % 10 == 0 { watch(.milliseconds(10)) }
        }
        for count in 1...10_000 {
            sequence += 1
            bench.hear(.left, [Name(validating: "u\(count)")!: 0], sequence, occupancy: UInt64(10_000 - count))
        }
        watch(.seconds(7))
        #expect(frames.count <= 12, "\(frames.count) frames")
        for (first, last) in zip(frames, frames.dropFirst(4)) { #expect(last.since(first) >= .seconds(1)) }
    }

    @Test("a namespace without members has none: nothing is sent, asking is refused by name, and following answers nothing")
    func off() {
        let bench = MembersBench()
        bench.machine.joined("dm:1", connection: 1, user: "alice", device: "d", isVisible: true, at: bench.now)
        bench.machine.joined("user:alice", connection: 1, user: "alice", device: "d", isVisible: true, at: bench.now)
        bench.pass(.seconds(1))
        #expect(bench.take().isEmpty)
        bench.machine.page(of: "dm:1", cursor: nil, tag: RequestTag(high: 0, low: 1), at: bench.now)
        bench.machine.follow(["dm:1", "user:alice"], loop: 0, tag: RequestTag(high: 0, low: 2), at: bench.now)
        let actions = bench.take()
        guard case .page(.failure(let error), "dm:1", _)? = actions.first else { return #expect(Bool(false)) }
        #expect(error.code == .forbidden && error.message.contains("namespaces.NAME.presence"))
        #expect(actions.last == .followed([nil, nil], tag: RequestTag(high: 0, low: 2)))
    }

    @Test("followers without a list get it as soon as it can be had")
    func lateList() {
        let bench = MembersBench()
        bench.machine.follow(["room"], loop: 0, tag: RequestTag(high: 0, low: 2), at: bench.now)
        for case .list(_, _, _, _, let tag) in bench.take() {
            bench.machine.listed(.failure(WireError(.unavailable, "away")), tag: tag, at: bench.now)
        }
        #expect(bench.take() == [.followed([nil], tag: RequestTag(high: 0, low: 2))])
        bench.pass(.milliseconds(2_100))
        for case .list(_, _, _, _, let tag) in bench.take() { bench.list([MemberEntry(user: "alice", devices: 1)], sequence: 9, tag) }
        bench.pass(.milliseconds(20))
        let frames = bench.frames()
        #expect(frames.map(\.members) == [[MemberEntry(user: "alice", devices: 1)]])
    }

    @Test("the store is told of who is there, as many as come and go", arguments: [1, 2, 3] as [UInt64])
    func crowd(seed: UInt64) {
        var chance = Chance(seed: seed)
        let bench = MembersBench()
        var there: [Name: Set<UInt64>] = [:]
        var told: [Name: UInt32] = [:]
        for round in 0..<60 {
            // It grows to some sixty, and shrinks to none.
            for _ in 0..<20 {
                let number = UInt64.random(in: 0..<80, using: &chance)
                let user = Name(trusted: Array("user-\(number)".utf8))
                let connection = number * 2 + UInt64.random(in: 0..<2, using: &chance)
                if Int.random(in: 0..<60, using: &chance) >= round {
                    bench.join(user, connection, device: "")
                    there[user, default: []].insert(connection)
                } else {
                    bench.machine.left("room", connection: connection, at: bench.now)
                    there[user]?.remove(connection)
                }
            }
            for _ in 0..<4 {
                bench.pass(.seconds(1))
                for (users, tag) in bench.changes() {
                    for count in users { told[count.user] = count.devices > 0 ? count.devices : nil }
                    bench.say(tag)
                }
            }
            #expect(told == there.filter { !$0.value.isEmpty }.mapValues { UInt32($0.count) })
        }
    }
}
