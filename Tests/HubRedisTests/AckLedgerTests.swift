import HubBase
import HubCore
import HubRedis
import HubWire
import Testing

/// What a node remembers of its acknowledgements, and in which order it doubts them (decision 0250).
@Suite struct AckLedgerTests {
    static let start = Instant(nanoseconds: 5_000_000_000_000)

    static func entry(_ channel: Int, _ offset: UInt64, epoch: String = "epochaaa", at: Instant = start) -> AckLedger.Entry {
        AckLedger.Entry(
            channel: Name(trusted: [UInt8]("room:\(channel)".utf8)), position: ChainTests.at(offset, "tag\(10_000 + offset)", epoch: epoch),
            at: at, message: AckLedger.Entry.Message(user: "alice", id: "m"))
    }

    static func drain(_ ledger: inout AckLedger, at now: Instant = start) -> [AckLedger.Entry] {
        var taken: [AckLedger.Entry] = []
        while let next = ledger.take(at: now) { taken.append(next) }
        return taken
    }

    @Test("of each channel the latest place is kept, and a repeat that's answered with an earlier one changes nothing")
    func latest() {
        var ledger = AckLedger(seed: 1)
        for offset in [3, 7, 5] as [UInt64] { ledger.note(Self.entry(1, offset)) }
        ledger.note(Self.entry(2, 9))
        ledger.note(Self.entry(2, 1, epoch: "epochbbb"))
        #expect(Self.drain(&ledger) == [])
        ledger.doubt(at: Self.start)
        #expect(
            Set(Self.drain(&ledger).map(\.position))
                == [Self.entry(1, 7).position, Self.entry(2, 1, epoch: "epochbbb").position])
        #expect(ledger.count == 0 && ledger.doubtful == 0)
    }

    @Test("so many channels and no more: the one acknowledged longest ago is let go and counted")
    func bound() {
        var ledger = AckLedger(seed: 1, capacity: 100)
        for channel in 0..<100 { ledger.note(Self.entry(channel, 1)) }
        // It's the latest now.
        ledger.note(Self.entry(0, 2))
        for channel in 100..<150 { ledger.note(Self.entry(channel, 1)) }
        #expect(ledger.count == 100 && ledger.forgotten == 50)
        ledger.doubt(at: Self.start)
        // In doubt they're as many at most, too.
        for channel in 150..<160 {
            ledger.note(Self.entry(channel, 1))
            ledger.doubt(at: Self.start)
        }
        #expect(ledger.doubtful == 100 && ledger.forgotten == 60)
        let kept = Set(Self.drain(&ledger).map(\.channel))
        #expect(kept == Set(([0] + Array(51..<150)).map { Self.entry($0, 1).channel }))
    }

    @Test("one that's older than an hour isn't looked at any more, nor is it missed")
    func old() {
        var ledger = AckLedger(seed: 1, capacity: 2)
        let later = Self.start + AckLedger.span
        ledger.note(Self.entry(2, 1))
        ledger.note(Self.entry(3, 1, at: later))
        ledger.note(Self.entry(4, 1, at: later))
        #expect(ledger.forgotten == 0)
        ledger.doubt(at: later)
        #expect(Set(Self.drain(&ledger, at: later).map(\.channel)) == [Self.entry(3, 1).channel, Self.entry(4, 1).channel])
        ledger.note(Self.entry(5, 1))
        ledger.doubt(at: later)
        #expect(ledger.doubtful == 0)
        ledger.note(Self.entry(6, 1, at: later))
        ledger.doubt(at: later)
        #expect(ledger.doubtful == 1 && ledger.take(at: later + AckLedger.span) == nil)
    }

    @Test("a window of them at once, those of the lanes that are open, the latest of a lane first")
    func window() {
        var ledger = AckLedger(seed: 1)
        for channel in 0..<1_000 { ledger.note(Self.entry(channel, 1)) }
        let lane = Partition.of(Self.entry(7, 1).channel)
        ledger.doubt(in: LaneSet(lane), at: Self.start)
        let own = (0..<1_000).filter { Partition.of(Self.entry($0, 1).channel) == lane }
        #expect(ledger.doubtful == own.count && ledger.count == 1_000 - own.count)
        #expect(ledger.take(in: LaneSet((lane + 1) % Partition.count), at: Self.start) == nil)
        #expect(Self.drain(&ledger).map(\.channel) == own.reversed().map { Self.entry($0, 1).channel })
        ledger.doubt(at: Self.start)
        let first = Self.drain(&ledger)
        #expect(first.count == AckLedger.window - own.count)
        for one in first { ledger.failed(one, isLasting: true, at: Self.start) }
        #expect(Self.drain(&ledger).count == first.count)
    }

    @Test("what stands is kept for the next loss, unless there's a later one; so is the place of a new epoch")
    func verdicts() {
        var ledger = AckLedger(seed: 1)
        for channel in [1, 2, 4] { ledger.note(Self.entry(channel, 5)) }
        ledger.doubt(at: Self.start)
        ledger.note(Self.entry(2, 6))
        let renewed = ChainTests.at(4, "tag10004", epoch: "epochbbb")
        for one in Self.drain(&ledger) {
            switch one.channel {
            case Self.entry(4, 1).channel: ledger.found(.renewed(renewed), of: one, at: Self.start)
            default: ledger.found(.stands, of: one, at: Self.start)
            }
        }
        ledger.doubt(at: Self.start)
        #expect(Set(Self.drain(&ledger).map(\.position)) == [Self.entry(1, 5).position, Self.entry(2, 6).position, renewed])
    }

    @Test("a look that failed is made again after a while, unless it would fail again")
    func failed() {
        var ledger = AckLedger(seed: 1)
        ledger.note(Self.entry(1, 1))
        ledger.note(Self.entry(2, 1))
        ledger.doubt(at: Self.start)
        for one in Self.drain(&ledger) { ledger.failed(one, isLasting: one.channel == Self.entry(2, 1).channel, at: Self.start) }
        #expect(ledger.take(at: Self.start) == nil && ledger.doubtful == 1)
        #expect(Self.drain(&ledger, at: Self.start + AckLedger.pause).map(\.channel) == [Self.entry(1, 1).channel])
    }
}
