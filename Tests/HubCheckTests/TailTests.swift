import HubBase
import HubCheck
import HubWire
import Testing

@Suite("The delivery checker: what is owed to those who go")
struct TailTests {
    let room: Name = "room:1"
    let origin = Position.origin(Mark(chance: 9))

    func message(_ number: UInt64) -> DeliveryChecker.Message {
        DeliveryChecker.Message(user: "alice", id: Name(trusted: Array("m\(number)".utf8)))
    }

    func place(_ offset: UInt64, epoch: UInt64 = 1) -> Position {
        offset == 0 ? origin : Position(epoch: Mark(chance: epoch), offset: offset, tag: Mark(chance: 1000 + offset))
    }

    func at(_ seconds: UInt64) -> Instant { Instant(nanoseconds: 1_000_000_000) + .seconds(seconds) }

    /// Client 1 subscribes at the beginning, and is handed the first `heard` of three that are acknowledged at 2, 3 and 4 s.
    func checker(heard: UInt64, grace: Span = DeliveryChecker.grace) -> DeliveryChecker {
        var checker = DeliveryChecker(grace: grace)
        checker.pass(to: at(1))
        checker.subscribed(room, at: origin, recovered: nil, page: [], hasMore: false, from: nil, by: 1)
        for offset in 1...UInt64(3) {
            checker.pass(to: at(1 + offset))
            checker.sent(message(offset), to: room, by: 0)
            checker.acknowledged(message(offset), in: room, at: place(offset), by: 0)
            if offset <= heard { checker.received(message(offset), in: room, at: place(offset), by: 1) }
        }
        return checker
    }

    @Test("who goes must have what was acknowledged the grace before, and isn't owed what's younger", arguments: [0, 2, 3] as [UInt64])
    func ended(heard: UInt64) {
        for (end, seconds, isOwed) in [(596, 10, true), (14, 10, true), (13, 10, heard < 2), (13, 9, true), (13, 60, false)]
            as [(UInt64, UInt64, Bool)]
        {
            for isUnsubscribed in [false, true] {
                var checker = checker(heard: heard, grace: .seconds(seconds))
                checker.pass(to: at(end))
                if isUnsubscribed { checker.unsubscribed(room, by: 1) } else { checker.ended(1) }
                #expect(checker.finish().counts == (isOwed && heard < 3 ? [.lost: 1] : [:]), "gone at \(end) s, grace \(seconds) s")
            }
        }
    }

    @Test("what came after the last sign of life, or while the hub said that it was degraded, isn't owed; once it has had its time, it is")
    func excuses() {
        var silent = checker(heard: 2)
        silent.pass(to: at(60))
        var heard = silent
        silent.ended(1, heard: at(13))
        #expect(silent.finish().counts.isEmpty)
        heard.ended(1, heard: at(15))
        #expect(heard.finish().counts == [.lost: 1])

        for (restored, isOwed) in [(nil, false), (50, true), (51, false)] as [(UInt64?, Bool)] {
            var checker = checker(heard: 2)
            checker.pass(to: at(5))
            checker.degraded(1)
            checker.degraded(1)
            if let restored {
                checker.pass(to: at(restored))
                checker.restored(1)
            }
            checker.pass(to: at(61))
            checker.ended(1)
            #expect(checker.finish().counts == (isOwed ? [.lost: 1] : [:]), "restored at \(String(describing: restored))")
        }
    }

    @Test("who was told of a gap, or subscribed later, isn't owed what lies before")
    func told() {
        var told = checker(heard: 2)
        told.announced(room, at: place(3), by: 1)
        told.pass(to: at(60))
        told.ended(1)
        #expect(told.finish().counts.isEmpty)
        for (standing, isOwed) in [(3, false), (2, true)] as [(UInt64, Bool)] {
            var late = checker(heard: 3)
            late.pass(to: at(50))
            late.subscribed(room, at: place(standing), recovered: nil, page: [], hasMore: false, from: nil, by: 2)
            late.pass(to: at(90))
            late.ended(2)
            #expect(late.finish().counts == (isOwed ? [.lost: 1] : [:]), "the answer says that all behind \(standing) comes")
        }
    }

    @Test(
        "who stays in one epoch was told of what was acknowledged in another one meanwhile, wherever the channel went on",
        arguments: [false, true])
    func sideEpoch(isTold: Bool) {
        var checker = checker(heard: 3)
        checker.sent(message(4), to: room, by: 0)
        checker.acknowledged(message(4), in: room, at: place(1, epoch: 2), by: 0)
        if isTold { checker.announced(room, at: place(3), by: 1) }
        checker.sent(message(5), to: room, by: 0)
        checker.acknowledged(message(5), in: room, at: place(4), by: 0)
        checker.received(message(5), in: room, at: place(4), by: 1)
        checker.pass(to: at(60))
        #expect(checker.finish().counts == (isTold ? [:] : [.lost: 1]))
    }

    @Test("what wasn't owed by a hub in trouble is owed anew by the next one, a grace after its answer", arguments: [false, true])
    func trouble(isTroubled: Bool) {
        for (end, isOwed) in [(52, !isTroubled), (70, true)] as [(UInt64, Bool)] {
            var checker = checker(heard: 2)
            checker.pass(to: at(5))
            if isTroubled { checker.degraded(1) }
            checker.pass(to: at(8))
            checker.ended(1)
            checker.pass(to: at(50))
            checker.subscribed(room, at: place(2), recovered: true, page: [], hasMore: false, from: place(2), by: 1)
            checker.pass(to: at(end))
            checker.ended(1)
            #expect(checker.finish().counts == (isOwed ? [.lost: 1] : [:]), "gone at \(end)")
        }
    }

    @Test("another epoch that began the grace before must have been told of")
    func epoch() {
        var checker = checker(heard: 3)
        checker.sent(message(4), to: room, by: 0)
        checker.acknowledged(message(4), in: room, at: place(1, epoch: 2), by: 0)
        checker.pass(to: at(60))
        checker.ended(1)
        #expect(checker.finish().counts == [.lost: 1])
    }

    @Test("subscribing again, or coming back from further on than one was brought to, is a gap unless it's announced or was read")
    func claims() {
        func again(_ from: UInt64?, recovered: Bool?, isEnded: Bool = false, reads: Bool = false) -> Set<CheckReport.Fault> {
            var checker = checker(heard: 2)
            if isEnded { checker.ended(1) }
            if reads { checker.read(room, upTo: place(3), by: 1) }
            checker.subscribed(room, at: place(3), recovered: recovered, page: [], hasMore: false, from: from.map { place($0) }, by: 1)
            return Set(checker.finish().counts.keys)
        }
        #expect(again(nil, recovered: nil) == [.gap])
        #expect(again(nil, recovered: nil, isEnded: true) == [], "it began anew")
        #expect(again(3, recovered: true) == [.gap])
        #expect(again(3, recovered: true, isEnded: true) == [.gap])
        #expect(again(3, recovered: true, isEnded: true, reads: true) == [])
        #expect(again(3, recovered: false, isEnded: true) == [])
        #expect(again(2, recovered: true) == [.falseRecovery])
    }

    @Test("a retry's ack of an old place, or one that crossed another, doesn't hide what stands behind it")
    func crossing() {
        var repeated = checker(heard: 2)
        repeated.sent(message(1), to: room, by: 0)
        repeated.acknowledged(message(1), in: room, at: place(1), by: 0)
        #expect(repeated.finish().counts == [.lost: 1])
        var crossed = checker(heard: 3)
        crossed.sent(message(4), to: room, by: 0)
        crossed.sent(message(5), to: room, by: 2)
        crossed.acknowledged(message(5), in: room, at: place(5), by: 2)
        crossed.acknowledged(message(4), in: room, at: place(4), by: 0)
        crossed.received(message(4), in: room, at: place(4), by: 1)
        #expect(crossed.finish().counts == [.lost: 1])
    }
}
