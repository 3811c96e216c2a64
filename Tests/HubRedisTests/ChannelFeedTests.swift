import HubBase
import HubCore
import HubRedis
import HubWire
import Testing

/// A feed at offset 5 of a channel, what it's told and what it tells, as text: `6 7 resync 9 gap`.
private struct Bench {
    var feed = ChannelFeed()
    var pings: UInt64 = 0
    var pongs: UInt64 = 1

    init(at offset: UInt64 = 5) { feed.read(offset == 0 ? .origin(Bench.tag(0)) : Bench.at(offset), reason: .linkLost, pings: 0) }

    /// The tag of a place is its offset, in a history: `a` is the first one, `b` what others wrote after a failover.
    static func tag(_ offset: UInt64, _ history: Character = "a") -> Mark {
        Mark(offset == 0 ? "generati" : "t\(history)00000\(offset % 10)") ?? .none
    }

    static func at(_ offset: UInt64, _ history: Character = "a", epoch: String = "epochaaa") -> Position {
        Position(epoch: Mark(epoch) ?? .none, offset: offset, tag: tag(offset, history))
    }

    static func heard(
        _ offset: UInt64, _ history: Character = "a", after previous: Character? = nil, epoch: String = "epochaaa", bytes: Int = 1
    ) -> Heard {
        let publication = Publication(
            messageClass: .chat, user: "alice", device: "", messageId: "m", time: 1, payload: [UInt8](repeating: 49, count: bytes))
        return Heard(
            position: at(offset, history, epoch: epoch), previous: tag(offset - 1, previous ?? history), publication: publication)
    }

    static func page(
        _ offsets: ClosedRange<UInt64>?, tip: Position, failure: RecoveryFailure? = nil, more: Bool = false
    ) -> StreamPage {
        StreamPage(tip: tip, failure: failure, hasMore: more, entries: offsets.map { $0.map { heard($0) } } ?? [])
    }

    mutating func hear(_ heard: Heard) -> String {
        switch feed.judge(heard.position, previous: heard.previous, pongs: pongs) {
        case .deliver: return "\(heard.position.offset)"
        case .deliverAfterGap: return "gap \(heard.position.offset)"
        case .drop: return "-"
        case .hold:
            feed.hold(heard, reason: .gap, isShort: false)
            return "held"
        }
    }

    mutating func hear(_ offsets: ClosedRange<UInt64>) -> String {
        offsets.map { hear(Bench.heard($0)) }.joined(separator: " ")
    }

    mutating func fill(_ page: StreamPage) -> String { Bench.text(feed.filled(page, pings: pings)) }

    static func text(_ told: [ChannelFeed.Told]) -> String {
        told.map {
            switch $0 {
            case .publication(let one): "\(one.position.offset)"
            case .resync(let position, let reason): "resync \(position.offset) \(reason.rawValue)"
            case .stranger: "stranger"
            }
        }.joined(separator: " ")
    }
}

@Suite("A channel's feed: holes are filled before anything newer")
struct ChannelFeedTests {
    @Test("what continues is told at once, what's known is dropped, and no read is made")
    func continues() {
        var bench = Bench()
        #expect(bench.hear(6...8) == "6 7 8")
        #expect(bench.hear(Bench.heard(8)) == "-")
        #expect(!bench.feed.isFilling && !bench.feed.needsRead)
    }

    @Test("a first publication that was acknowledged, and is gone or another one by now, is announced")
    func lostFirst() {
        var gone = Bench(at: 0)
        gone.feed.acknowledged(at: Bench.at(1))
        // The channel stands where it stood: only the promise knows.
        gone.feed.read(.origin(Bench.tag(0)), reason: .gap, pings: 0)
        #expect(gone.feed.takeRead() == .origin(Bench.tag(0)))
        #expect(gone.fill(Bench.page(nil, tip: .origin(Bench.tag(0)))) == "resync 0 epochChanged")
        #expect(gone.hear(1...2) == "1 2")
        var other = Bench(at: 0)
        other.feed.acknowledged(at: Bench.at(1))
        #expect(other.hear(Bench.heard(1, "b", after: "a", epoch: "epochbbb")) == "gap 1")
        var heard = Bench(at: 0)
        heard.feed.acknowledged(at: Bench.at(2))
        #expect(heard.hear(1...3) == "1 2 3")
    }

    @Test("an origin of no generation is continued by nothing: what comes is held until history has judged it")
    func noOrigin() {
        var bench = Bench(at: 0)
        bench.feed = ChannelFeed()
        bench.feed.read(.start, reason: .linkLost, pings: 0)
        #expect(bench.hear(1...2) == "held held")
        #expect(bench.feed.takeRead() == .start)
        let told = bench.fill(Bench.page(nil, tip: Bench.at(2), failure: .epochChanged))
        #expect(told == "resync 0 epochChanged 1 2")
    }

    @Test("behind a hole messages are held; one read from the last place told brings what's missing, then they follow")
    func filled() {
        var bench = Bench()
        #expect(bench.hear(8...10) == "held held held")
        #expect(bench.feed.takeRead() == Bench.at(5))
        // Only one read is under way.
        let second = bench.feed.takeRead()
        #expect(second == nil)
        #expect(bench.hear(Bench.heard(11)) == "held")
        #expect(bench.fill(Bench.page(6...9, tip: Bench.at(9))) == "6 7 8 9 10 11")
        #expect(!bench.feed.isFilling)
        #expect(bench.hear(Bench.heard(12)) == "12")
    }

    @Test("the answer may be older than what's live, or newer: nothing is told twice")
    func olderAndNewer() {
        var older = Bench()
        #expect(older.hear(7...9) == "held held held")
        _ = older.feed.takeRead()
        #expect(older.fill(Bench.page(6...7, tip: Bench.at(7))) == "6 7 8 9")
        var newer = Bench()
        newer.pings = 1
        #expect(newer.hear(7...7) == "held")
        _ = newer.feed.takeRead()
        #expect(newer.hear(8...8) == "held")
        #expect(newer.fill(Bench.page(6...12, tip: Bench.at(12))) == "6 7 8 9 10 11 12")
        // 9 to 12 were on their way; 13 is next.
        #expect(newer.hear(9...13) == "- - - - 13")
    }

    @Test("a hole longer than a page is read in pages, and live messages wait for the last one")
    func pages() {
        var bench = Bench()
        #expect(bench.hear(20...20) == "held")
        _ = bench.feed.takeRead()
        #expect(bench.fill(Bench.page(6...10, tip: Bench.at(20), more: true)) == "6 7 8 9 10")
        #expect(bench.feed.needsRead)
        #expect(bench.feed.takeRead() == Bench.at(10))
        #expect(bench.hear(21...21) == "held")
        #expect(bench.fill(Bench.page(11...20, tip: Bench.at(20))) == "11 12 13 14 15 16 17 18 19 20 21")
    }

    @Test("a second hole while the first is filled is read too")
    func secondHole() {
        var bench = Bench()
        #expect(bench.hear(7...7) == "held")
        _ = bench.feed.takeRead()
        // 8 and 9 are lost as well, after the read was made.
        #expect(bench.hear(10...11) == "held held")
        #expect(bench.fill(Bench.page(6...7, tip: Bench.at(7))) == "6 7")
        #expect(bench.feed.takeRead() == Bench.at(7))
        #expect(bench.fill(Bench.page(8...11, tip: Bench.at(11))) == "8 9 10 11")
        #expect(!bench.feed.isFilling)
    }

    @Test("what was heard before the read and isn't in the history is somebody else's, and dropped")
    func stranger() {
        var bench = Bench()
        #expect(bench.hear(Bench.heard(9, "b")) == "held")
        _ = bench.feed.takeRead()
        #expect(bench.fill(Bench.page(nil, tip: Bench.at(5))) == "stranger")
        #expect(bench.hear(6...6) == "6")
        // Heard after it, the read may have been too early: it's made again.
        #expect(bench.hear(8...8) == "held")
        _ = bench.feed.takeRead()
        #expect(bench.hear(Bench.heard(9, "b")) == "held")
        #expect(bench.fill(Bench.page(7...8, tip: Bench.at(8))) == "7 8")
        #expect(bench.feed.takeRead() == Bench.at(8))
        #expect(bench.fill(Bench.page(nil, tip: Bench.at(8))) == "stranger")
        #expect(!bench.feed.isFilling)
    }

    @Test("what history doesn't keep any more is announced, up to the oldest held message that leads to the present")
    func trimmed() {
        var bench = Bench()
        #expect(bench.hear(40...41) == "held held")
        #expect(bench.hear(43...44) == "held held")
        _ = bench.feed.takeRead()
        #expect(bench.fill(Bench.page(30...44, tip: Bench.at(44), failure: .trimmed)) == "resync 42 gap 43 44")
        #expect(!bench.feed.isFilling)
        #expect(bench.hear(45...45) == "45")
    }

    @Test("when the channel is past all that was heard, or in another epoch, subscribers go on from its tip")
    func tip() {
        var bench = Bench()
        #expect(bench.hear(8...8) == "held")
        _ = bench.feed.takeRead()
        let reborn = Bench.at(3, "b", epoch: "epochbbb")
        #expect(
            bench.fill(StreamPage(tip: reborn, failure: .epochChanged, hasMore: false, entries: [])) == "resync 3 epochChanged stranger")
        #expect(bench.hear(Bench.heard(4, "b", epoch: "epochbbb")) == "4")
    }

    @Test("an epoch that changes while a hole is filled is announced once, and its messages follow")
    func epochWhileFilling() {
        var bench = Bench()
        #expect(bench.hear(8...8) == "held")
        _ = bench.feed.takeRead()
        for offset in UInt64(1)...3 { #expect(bench.hear(Bench.heard(offset, "b", epoch: "epochbbb")) == "held") }
        // Read before the change: it fills the hole, but what came later isn't continued.
        #expect(bench.fill(Bench.page(6...8, tip: Bench.at(8))) == "6 7 8")
        #expect(bench.feed.takeRead() == Bench.at(8))
        let reborn = Bench.at(3, "b", epoch: "epochbbb")
        #expect(bench.fill(StreamPage(tip: reborn, failure: .epochChanged, hasMore: false, entries: [])) == "resync 0 epochChanged 1 2 3")
    }

    @Test("offsets that were given out again after a failover aren't taken for what came before, redis-design §0.6")
    func rolledBack() {
        var bench = Bench(at: 6)
        // 4 to 6 are gone on the new master; others came in their place.
        #expect(bench.hear(Bench.heard(4, "b", after: "a")) == "held")
        #expect(bench.hear(Bench.heard(5, "b")) == "held")
        _ = bench.feed.takeRead()
        let page = StreamPage(tip: Bench.at(5, "b"), failure: .ahead, hasMore: false, entries: [])
        // What took the place of told ones is announced, not told.
        #expect(bench.fill(page) == "resync 5 epochChanged")
        #expect(bench.hear(Bench.heard(6, "b")) == "6")
    }

    @Test("a link that's lost while a hole is filled ends it; the next one compares the place and begins anew")
    func linkLost() {
        var bench = Bench()
        #expect(bench.hear(8...8) == "held")
        _ = bench.feed.takeRead()
        bench.feed.linkLost()
        // The answer to the old read comes late.
        #expect(bench.fill(Bench.page(6...8, tip: Bench.at(8))) == "")
        bench.feed.read(Bench.at(9), reason: .linkLost, pings: 4)
        #expect(bench.hear(10...10) == "held")
        #expect(bench.feed.takeRead() == Bench.at(5))
        #expect(bench.fill(Bench.page(6...10, tip: Bench.at(10))) == "6 7 8 9 10")
        // A place that is ours needs no read, one that can't be continued is called by what made the hole.
        bench.feed.read(Bench.at(10), reason: .linkLost, pings: 5)
        #expect(!bench.feed.isFilling)
        bench.feed.read(Bench.at(99), reason: .linkLost, pings: 6)
        _ = bench.feed.takeRead()
        #expect(bench.fill(Bench.page(50...99, tip: Bench.at(99), failure: .trimmed)) == "resync 99 linkLost")
    }

    @Test("a read that fails is made again; one that would always fail is given up, and that's announced")
    func failures() {
        var bench = Bench()
        #expect(bench.hear(8...9) == "held held")
        _ = bench.feed.takeRead()
        #expect(Bench.text(bench.feed.readFailed(isLasting: false, pings: 0)) == "")
        #expect(bench.feed.takeRead() == Bench.at(5))
        #expect(Bench.text(bench.feed.readFailed(isLasting: true, pings: 0)) == "resync 7 gap 8 9")
        #expect(!bench.feed.isFilling)
        bench.feed.read(Bench.at(12), reason: .gap, pings: 0)
        _ = bench.feed.takeRead()
        #expect(Bench.text(bench.feed.readFailed(isLasting: true, pings: 0)) == "resync 12 gap")
    }

    @Test("what is held is bounded, in messages and in bytes; beyond it history is read again instead", arguments: [1, 3_000])
    func bounds(bytes: Int) {
        var bench = Bench()
        var heldMost = 0
        #expect(bench.hear(Bench.heard(7, bytes: bytes)) == "held")
        _ = bench.feed.takeRead()
        for offset in UInt64(8)...2_000 {
            #expect(bench.hear(Bench.heard(offset, bytes: bytes)) == "held")
            heldMost = max(heldMost, bench.feed.heldBytes)
        }
        #expect(heldMost <= ChannelFeed.heldBytesMax)
        #expect(heldMost <= ChannelFeed.heldMax * (bytes + 256))
        #expect(bench.fill(Bench.page(6...7, tip: Bench.at(7))) == "6 7")
        #expect(bench.feed.takeRead() == Bench.at(7))
        let told = bench.fill(Bench.page(8...2_000, tip: Bench.at(2_000)))
        #expect(told == (8...2_000).map { "\($0)" }.joined(separator: " "))
        #expect(!bench.feed.isFilling && bench.feed.heldBytes == 0)
        #expect(bench.hear(2_001...2_001) == "2001")
    }

    @Test("a publication that can't be read has a place all the same: that's announced as a hole, and the order goes on")
    func unreadable() {
        var bench = Bench()
        #expect(bench.hear(8...8) == "held")
        _ = bench.feed.takeRead()
        var page = Bench.page(6...8, tip: Bench.at(8))
        page.entries[1].publication = nil
        #expect(bench.fill(page) == "6 resync 7 gap 8")
    }

    @Test("a place that was acknowledged and holds another message when the feed gets there was taken back: a gap is announced before it")
    func takenBack() {
        var bench = Bench()
        bench.feed.acknowledged(at: Bench.at(6))
        bench.feed.acknowledged(at: Bench.at(7))
        var kept = bench
        #expect(kept.hear(6...8) == "6 7 8")
        bench.feed.commandsLost()
        #expect(bench.hear(Bench.heard(6)) == "6")
        #expect(bench.hear(Bench.heard(7, "b", after: "a")) == "gap 7")
        #expect(bench.hear(Bench.heard(8, "b")) == "8", "one gap was announced for all that was taken back")
    }

    @Test("a place that was acknowledged, and that the channel no longer gets to, was taken back: the read of the tip announces it")
    func takenBackTail() {
        var bench = Bench()
        bench.feed.acknowledged(at: Bench.at(7))
        bench.feed.commandsLost()
        bench.feed.read(Bench.at(5), reason: .linkLost, pings: 0)
        #expect(bench.feed.takeRead() == Bench.at(5))
        #expect(bench.fill(Bench.page(nil, tip: Bench.at(5))) == "resync 5 epochChanged")
        #expect(bench.hear(Bench.heard(6)) == "6")
        var filled = Bench()
        filled.feed.acknowledged(at: Bench.at(9))
        filled.feed.read(Bench.at(7), reason: .linkLost, pings: 0)
        _ = filled.feed.takeRead()
        #expect(filled.fill(Bench.page(6...7, tip: Bench.at(7))) == "resync 5 epochChanged 6 7")
    }
}
