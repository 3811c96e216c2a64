import HubBase
import HubCore
import HubRedis
import HubWire
import Testing

/// The read positions that a node knows of, and which of them are to be moved again (decision 0320).
@Suite struct ReadLedgerTests {
    private static let epoch = Mark("epochaaa")!
    private static func at(_ seconds: UInt64) -> Instant { Instant(nanoseconds: 1_000_000_000) + .seconds(seconds) }

    private static func entry(_ offset: UInt64, of user: Name = "alice", epoch: Mark = epoch, at seconds: UInt64 = 0) -> ReadLedger.Entry {
        ReadLedger.Entry(channel: "c", user: user, device: .empty, offset: offset, epoch: epoch, time: 7, at: at(seconds))
    }

    @Test("of each reader the largest offset is known, of another epoch the latest")
    func largest() {
        var ledger = ReadLedger()
        for offset: UInt64 in [3, 5, 4] { ledger.note(Self.entry(offset)) }
        ledger.doubt(at: Self.at(1))
        #expect(ledger.take(at: Self.at(1))?.offset == 5)
        #expect(ledger.take(at: Self.at(1)) == nil)
        ledger.note(Self.entry(5))
        ledger.note(Self.entry(2, epoch: Mark("epochbbb")!))
        ledger.doubt(at: Self.at(1))
        #expect(ledger.take(at: Self.at(1)) == Self.entry(2, epoch: Mark("epochbbb")!))
    }

    @Test("nothing is in doubt while the link stands, nor what's older than an hour")
    func doubts() {
        var ledger = ReadLedger()
        ledger.note(Self.entry(5, of: "old"))
        ledger.note(Self.entry(5, of: "new", at: 3_000))
        #expect(ledger.take(at: Self.at(3_000)) == nil && ledger.take(of: "new", in: "c") == nil)
        ledger.doubt(at: Self.at(3_700))
        #expect(ledger.take(at: Self.at(3_700))?.user == "new")
        #expect(ledger.take(at: Self.at(3_700)) == nil && ledger.doubtful == 0)
    }

    @Test("a reader's doubt is taken by name once, and one that failed is taken again a second later")
    func byName() {
        var ledger = ReadLedger()
        ledger.note(Self.entry(5))
        ledger.doubt(at: Self.at(1))
        guard let taken = ledger.take(of: "alice", in: "c") else { return #expect(Bool(false)) }
        #expect(ledger.take(of: "alice", in: "c") == nil && ledger.take(at: Self.at(1)) == nil)
        ledger.failed(taken, isLasting: false, at: Self.at(1))
        #expect(ledger.take(at: Self.at(1)) == nil)
        #expect(ledger.take(at: Self.at(2)) == taken)
        ledger.ended(taken)
        // Whoever takes over next may lack it still.
        ledger.doubt(at: Self.at(3))
        guard let again = ledger.take(at: Self.at(3)) else { return #expect(Bool(false)) }
        ledger.failed(again, isLasting: true, at: Self.at(3))
        #expect(ledger.doubtful == 0 && ledger.count == 0)
    }

    @Test("what was read from Redis is raised to what is in doubt, in the same epoch")
    func raises() {
        var ledger = ReadLedger()
        for (user, offset): (Name, UInt64) in [("alice", 5), ("bob", 4)] { ledger.note(Self.entry(offset, of: user)) }
        var marks = [ReadMark(user: "bob", offset: 1), ReadMark(user: "carol", offset: 2)]
        ledger.raise(&marks, of: "c", own: "alice", epoch: Self.epoch)
        #expect(marks.map(\.offset) == [1, 2])
        ledger.doubt(at: Self.at(1))
        ledger.raise(&marks, of: "c", own: "alice", epoch: Mark("epochbbb")!)
        #expect(marks.map(\.offset) == [1, 2])
        ledger.raise(&marks, of: "c", own: "alice", epoch: Self.epoch)
        #expect(marks == [ReadMark(user: "alice", offset: 5), ReadMark(user: "bob", offset: 4), ReadMark(user: "carol", offset: 2)])
    }

    @Test("memory is bounded, and who was heard of lately stays")
    func bounded() {
        var ledger = ReadLedger(generation: 10)
        for number in 0..<1_000 {
            ledger.note(Self.entry(UInt64(number), of: "steady"))
            ledger.note(Self.entry(1, of: Name(trusted: Array("u\(number)".utf8))))
            #expect(ledger.count <= 20)
        }
        ledger.doubt(at: Self.at(1))
        var taken: [Name] = []
        while let entry = ledger.take(at: Self.at(1)) { taken.append(entry.user) }
        #expect(taken.contains("steady") && taken.count <= 20 && Set(taken).count == taken.count)
    }
}
