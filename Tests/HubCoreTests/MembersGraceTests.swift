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
