import HubBase
import HubCore
import HubWire
import Testing

/// Who is awaited in a channel, and whose coming ends it: as of users (decisions 0305, 0322).
@Suite("Members who are awaited") struct MembersGraceTests {
    /// One member, told to the store.
    private func bench(_ connections: UInt64...) -> MembersBench {
        let bench = MembersBench()
        for connection in connections { bench.join("alice", connection) }
        bench.pass(.milliseconds(250))
        bench.say(bench.changes()[0].tag)
        return bench
    }

    @Test("an invisible connection ends no waiting, so that nobody can tell that it came")
    func invisible() {
        let bench = bench(1)
        bench.machine.closed(connection: 1, isClean: false, at: bench.now)
        bench.pass(.seconds(1))
        bench.join("alice", 2, visible: false)
        bench.pass(.milliseconds(8_900))
        #expect(bench.changes().isEmpty)
        bench.pass(.seconds(1))
        #expect(bench.changes().map(\.users) == [[MemberCount(user: "alice", devices: 0)]])
    }

    @Test("whose grace would end while the store is away is awaited from when it's back, as nobody could say elsewhere that they're back")
    func outage() {
        let bench = bench(1)
        bench.machine.closed(connection: 1, isClean: false, at: bench.now)
        bench.pass(.seconds(8))
        bench.machine.storeHealth(.down("cut"), at: bench.now)
        bench.pass(.seconds(20))
        bench.machine.storeHealth(.up, at: bench.now)
        bench.pass(.milliseconds(9_900))
        #expect(bench.changes().isEmpty)
        bench.pass(.milliseconds(500))
        #expect(bench.changes().map(\.users) == [[MemberCount(user: "alice", devices: 0)]])
    }

    private static let late = WireError(.unavailable, "the call came late")

    @Test(
        "that somebody has left came too late for the store, or it isn't known: they're awaited once more, and nothing is said until then",
        arguments: [false, true])
    func late(isClean: Bool) {
        let bench = bench(1)
        bench.machine.closed(connection: 1, isClean: isClean, at: bench.now)
        bench.pass(.milliseconds(isClean ? 250 : 10_250))
        let leave = bench.changes()
        #expect(leave.map(\.users) == [[MemberCount(user: "alice", devices: 0)]])
        bench.pass(.milliseconds(1_500))
        bench.machine.changed(.failure(Self.late), tag: leave[0].tag, at: bench.now)
        bench.pass(.milliseconds(9_900))
        #expect(bench.changes().isEmpty, "what the store took after all would be told as a coming and another going")
        bench.pass(.milliseconds(400))
        let again = bench.changes()
        #expect(again.map(\.users) == [[MemberCount(user: "alice", devices: 0)]])
        // A store that is always late mustn't keep them for ever.
        bench.pass(.milliseconds(1_500))
        bench.machine.changed(.failure(Self.late), tag: again[0].tag, at: bench.now)
        bench.pass(.milliseconds(2_050))
        let third = bench.changes()
        #expect(third.map(\.users) == [[MemberCount(user: "alice", devices: 0)]])
        bench.say(third[0].tag, sequence: 6, occupancy: 0)
        bench.pass(.seconds(20))
        #expect(bench.changes().isEmpty)
    }

    @Test("a call that mustn't be late is one that says who has left, once")
    func mayBeLate() {
        let bench = MembersBench()
        func said() -> [Bool] {
            bench.take().compactMap {
                guard case .change(_, _, _, let mayBeLate, let tag) = $0 else { return nil }
                if mayBeLate { bench.say(tag) } else { bench.machine.changed(.failure(Self.late), tag: tag, at: bench.now) }
                return mayBeLate
            }
        }
        bench.join("alice", 1)
        bench.pass(.milliseconds(250))
        #expect(said() == [true])
        bench.machine.closed(connection: 1, isClean: true, at: bench.now)
        bench.pass(.milliseconds(250))
        #expect(said() == [false])
        bench.pass(.milliseconds(10_250))
        #expect(said() == [true])
        // What got through begins it anew.
        bench.join("alice", 2)
        bench.pass(.milliseconds(250))
        #expect(said() == [true])
        bench.machine.closed(connection: 2, isClean: true, at: bench.now)
        bench.pass(.milliseconds(250))
        #expect(said() == [false])
    }

    @Test(
        "who would leave while the store says nothing is awaited once more if it stood still, and leaves then if it was a moment",
        arguments: [800, 2_000])
    func silence(milliseconds: UInt64) {
        let bench = bench(1)
        bench.join("bob", 2)
        bench.join("carol", 3)
        bench.pass(.milliseconds(250))
        bench.say(bench.changes()[0].tag)
        bench.machine.closed(connection: 1, isClean: false, at: bench.now)
        bench.pass(.milliseconds(9_600))
        // This one is on its way already, and takes its time.
        bench.machine.closed(connection: 3, isClean: true, at: bench.now)
        bench.pass(.milliseconds(250))
        let first = bench.changes()
        #expect(first.map(\.users) == [[MemberCount(user: "carol", devices: 0)]])
        bench.machine.storeSilence(true, at: bench.now)
        bench.machine.closed(connection: 2, isClean: true, at: bench.now)
        bench.pass(.milliseconds(milliseconds - 300))
        #expect(bench.changes().isEmpty)
        bench.say(first[0].tag)
        bench.machine.storeSilence(false, at: bench.now)
        let gone = [MemberCount(user: "alice", devices: 0), MemberCount(user: "bob", devices: 0)]
        if milliseconds >= 1_000 {
            bench.pass(.milliseconds(9_900))
            #expect(bench.changes().isEmpty)
        }
        bench.pass(.milliseconds(500))
        #expect(bench.changes().map(\.users) == [gone])
    }

    @Test("behind a call that was late, who would have left is awaited too, and who has come is said at once")
    func behindLate() {
        let bench = bench(1)
        bench.join("bob", 2)
        bench.pass(.milliseconds(250))
        bench.say(bench.changes()[0].tag)
        bench.machine.closed(connection: 1, isClean: true, at: bench.now)
        bench.pass(.milliseconds(250))
        let late = bench.changes()
        bench.machine.storeSilence(true, at: bench.now)
        bench.machine.closed(connection: 2, isClean: true, at: bench.now)
        bench.join("carol", 3)
        bench.pass(.seconds(2))
        bench.machine.changed(.failure(Self.late), tag: late[0].tag, at: bench.now)
        bench.machine.storeSilence(false, at: bench.now)
        bench.pass(.milliseconds(250))
        let came = bench.changes()
        #expect(came.map(\.users) == [[MemberCount(user: "carol", devices: 1)]])
        bench.say(came[0].tag)
        bench.pass(.milliseconds(9_600))
        #expect(bench.changes().isEmpty)
        bench.pass(.milliseconds(600))
        let gone: [Name] = ["alice", "bob"]
        #expect(bench.changes().map(\.users) == [gone.map { MemberCount(user: $0, devices: 0) }])
    }

    @Test(
        "who is back while it isn't known whether the store was told that they left, or while they're awaited once more, is there",
        arguments: [false, true])
    func backBehindLate(isUnderWay: Bool) {
        let bench = bench(1)
        bench.machine.closed(connection: 1, isClean: false, at: bench.now)
        bench.pass(.milliseconds(10_250))
        let leave = bench.changes()
        if isUnderWay { bench.join("alice", 2) }
        bench.machine.changed(.failure(Self.late), tag: leave[0].tag, at: bench.now)
        if !isUnderWay {
            bench.pass(.seconds(5))
            bench.join("alice", 2)
        }
        bench.pass(.milliseconds(2_250))
        let there = bench.changes()
        #expect(there.map(\.users) == [[MemberCount(user: "alice", devices: 1)]])
        bench.say(there[0].tag)
        bench.pass(.seconds(20))
        #expect(bench.changes().isEmpty)
    }

    @Test("that somebody has left is collected still when the store goes away: they're awaited from when it's back")
    func lateCollected() {
        let bench = bench(1)
        bench.machine.closed(connection: 1, isClean: true, at: bench.now)
        bench.pass(.milliseconds(100))
        bench.machine.storeHealth(.down("cut"), at: bench.now)
        bench.pass(.seconds(20))
        bench.machine.storeHealth(.up, at: bench.now)
        bench.pass(.milliseconds(9_900))
        #expect(bench.changes().isEmpty)
        bench.pass(.milliseconds(400))
        #expect(bench.changes().map(\.users) == [[MemberCount(user: "alice", devices: 0)]])
    }

    @Test("who has unsubscribed isn't awaited: it's said again as soon as it may be")
    func lateUnsubscribe() {
        let bench = bench(1)
        bench.machine.left("room", connection: 1, at: bench.now)
        bench.pass(.milliseconds(250))
        bench.machine.changed(.failure(Self.late), tag: bench.changes()[0].tag, at: bench.now)
        bench.pass(.milliseconds(2_050))
        #expect(bench.changes().map(\.users) == [[MemberCount(user: "alice", devices: 0)]])
    }

    @Test("however many invisible connections are lost, the visible one that's awaited keeps its place")
    func invisibleAndMany() {
        let bench = bench(1)
        bench.machine.closed(connection: 1, isClean: false, at: bench.now)
        for connection: UInt64 in 10..<20 {
            bench.join("alice", connection, visible: false)
            bench.machine.closed(connection: connection, isClean: false, at: bench.now)
        }
        bench.pass(.milliseconds(9_900))
        #expect(bench.changes().isEmpty)
        bench.pass(.milliseconds(500))
        #expect(bench.changes().map(\.users) == [[MemberCount(user: "alice", devices: 0)]])
    }

    @Test("an invisible connection that is lost is awaited by nobody, and who comes doesn't take the place of one that's awaited")
    func invisibleAwaited() {
        let bench = bench(1)
        bench.join("alice", 2, visible: false)
        bench.machine.closed(connection: 2, isClean: false, at: bench.now)
        bench.pass(.seconds(1))
        bench.machine.closed(connection: 1, isClean: false, at: bench.now)
        bench.pass(.seconds(1))
        bench.join("alice", 3)
        bench.machine.closed(connection: 3, isClean: true, at: bench.now)
        // The visible one is back, and has said goodbye.
        bench.pass(.milliseconds(250))
        #expect(bench.changes().map(\.users) == [[MemberCount(user: "alice", devices: 0)]])
    }

    @Test("of two tabs of a device that are lost, each is awaited by itself: the first that's back and goes takes nobody along")
    func tabs() {
        let bench = bench(1, 2)
        bench.machine.closed(connection: 1, isClean: false, at: bench.now)
        bench.pass(.seconds(1))
        bench.machine.closed(connection: 2, isClean: false, at: bench.now)
        bench.pass(.seconds(1))
        bench.join("alice", 3)
        bench.pass(.seconds(1))
        bench.machine.closed(connection: 3, isClean: true, at: bench.now)
        // The one that was lost last is awaited still, for its own grace.
        bench.pass(.milliseconds(7_900))
        #expect(bench.changes().isEmpty)
        bench.join("alice", 4)
        bench.pass(.seconds(20))
        #expect(bench.changes().isEmpty)
        bench.machine.closed(connection: 4, isClean: true, at: bench.now)
        bench.pass(.milliseconds(250))
        #expect(bench.changes().map(\.users) == [[MemberCount(user: "alice", devices: 0)]])
    }

    @Test("a cursor is a number that Redis takes for one: below 2^64, of 20 digits at most")
    func cursors() {
        for good in ["0", "00", "5", "18446744073709551615", "09999999999999999999"] {
            #expect(MemberLimits.isCursor(good.utf8), "\(good)")
        }
        for bad in ["", "x", "-1", "1 2", "18446744073709551616", "99999999999999999999", "000000000000000000001"] {
            #expect(!MemberLimits.isCursor(bad.utf8), "\(bad)")
        }
    }
}
