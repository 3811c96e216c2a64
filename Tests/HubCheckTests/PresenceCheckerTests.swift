import HubBase
import HubCheck
import HubWire
import Testing

@Suite("The checker: presence")
struct PresenceCheckerTests {
    private func at(_ seconds: UInt64) -> Instant { Instant(nanoseconds: seconds * 1_000_000_000) }

    /// Users 0 and 1; watcher 7 follows both and watches from second 1 on.
    private func made() -> PresenceChecker {
        var checker = PresenceChecker(users: 2, onlineWithin: .seconds(5), offlineWithin: .seconds(20))
        checker.watch([0, 1], by: 7)
        checker.watching(7, since: at(1))
        _ = checker.told(7, of: 0, .offline, version: 0, at: at(1))
        _ = checker.told(7, of: 1, .offline, version: 0, at: at(1))
        return checker
    }

    @Test("who was told in time has nothing to complain of")
    func clean() {
        var checker = made()
        checker.coming(0)
        checker.came(0, at: at(10))
        #expect(checker.told(7, of: 0, .online, version: 1, at: at(11)) == true)
        checker.judge(at(16))
        checker.went(0, at: at(30))
        #expect(checker.told(7, of: 0, .offline, version: 2, at: at(45)) == true)
        checker.judge(at(60))
        #expect(checker.counts.isEmpty)
        #expect(checker.judged == 2)
    }

    @Test("offline of somebody who has been there all along is false; of somebody who just came it's old news")
    func falseOffline() {
        var checker = made()
        checker.came(0, at: at(10))
        checker.came(0, at: at(12))
        checker.went(0, at: at(13))
        _ = checker.told(7, of: 0, .online, version: 1, at: at(10))
        _ = checker.told(7, of: 0, .offline, version: 2, at: at(14))
        #expect(checker.counts.isEmpty)
        _ = checker.told(7, of: 0, .online, version: 3, at: at(15))
        _ = checker.told(7, of: 0, .offline, version: 4, at: at(17))
        #expect(checker.counts == [.falseOffline: 1])
        #expect(checker.findings.first?.user == 0 && checker.findings.first?.watcher == 7)
        // An older version says nothing.
        _ = checker.told(7, of: 0, .offline, version: 3, at: at(18))
        #expect(checker.counts == [.falseOffline: 1])
    }

    @Test("a watcher that isn't told of a coming or a going in time is stale")
    func stale() {
        var checker = made()
        checker.came(0, at: at(10))
        checker.judge(at(14))
        #expect(checker.counts.isEmpty)
        checker.judge(at(15))
        #expect(checker.counts == [.staleOnline: 1])
        _ = checker.told(7, of: 0, .away, version: 1, at: at(16))
        checker.went(0, at: at(20))
        checker.judge(at(39))
        #expect(checker.counts == [.staleOnline: 1])
        checker.judge(at(40))
        #expect(checker.counts == [.staleOnline: 1, .staleOffline: 1])
    }

    /// User 0 with one connection, seen online by watcher 7.
    private func online() -> PresenceChecker {
        var checker = made()
        checker.came(0, at: at(10))
        checker.shown(0, as: .online, at: at(10))
        _ = checker.told(7, of: 0, .online, version: 1, at: at(10))
        return checker
    }

    @Test("a watcher that isn't told of a turn to away, or back, in time is stale")
    func away() {
        var checker = online()
        checker.shown(0, as: nil, at: at(20))
        checker.shown(0, as: .away, at: at(21))
        checker.judge(at(25))
        #expect(checker.counts.isEmpty)
        checker.judge(at(26))
        #expect(checker.counts == [.staleAway: 1])
        _ = checker.told(7, of: 0, .away, version: 2, at: at(27))
        checker.shown(0, as: .online, at: at(30))
        checker.judge(at(35))
        #expect(checker.counts == [.staleAway: 1, .staleBack: 1])
        // Told in time, both ways.
        var good = online()
        good.shown(0, as: .away, at: at(20))
        _ = good.told(7, of: 0, .away, version: 2, at: at(21))
        good.judge(at(26))
        good.shown(0, as: .online, at: at(30))
        _ = good.told(7, of: 0, .online, version: 3, at: at(31))
        good.judge(at(36))
        #expect(good.counts.isEmpty)
    }

    @Test("away because another connection ended has as long as a going; asked for again it's judged anew")
    func awayByAnEnd() {
        var checker = online()
        checker.came(0, at: at(12))
        checker.shown(0, as: nil, at: at(12))
        checker.shown(0, as: .online, at: at(13))
        // The one that was online has gone; the other one is away.
        checker.went(0, at: at(20))
        checker.shown(0, as: .away, at: at(20))
        checker.judge(at(39))
        #expect(checker.counts.isEmpty)
        checker.judge(at(40))
        #expect(checker.counts == [.staleAway: 1])
    }

    /// User 0 with a phone and a laptop that are online; the laptop asks for away at 18 s and has its answer at 19 s. Watcher 7 isn't told.
    private func laptopAway() -> PresenceChecker {
        var checker = online()
        checker.came(0, at: at(11))
        checker.shown(0, as: .online, at: at(11))
        return checker
    }

    @Test("a phone that ends beside a laptop that's away is held, however many were there when it was seen online; then it's stale")
    func heldBesideAnother() {
        var checker = laptopAway()
        checker.went(0, at: at(20))
        checker.shown(0, as: .away, at: at(20))
        checker.judge(at(39))
        #expect(checker.counts.isEmpty)
        checker.judge(at(40))
        #expect(checker.counts == [.staleAway: 1])
    }

    @Test("also where the laptop's answer comes after the phone's end, and where a connection came to nothing in between")
    func heldBeforeTheAnswer() {
        var answered = laptopAway()
        answered.went(0, at: at(18))
        answered.shown(0, as: nil, at: at(18))
        answered.shown(0, as: .away, at: at(19))
        answered.judge(at(38))
        #expect(answered.counts.isEmpty)
        answered.judge(at(39))
        #expect(answered.counts == [.staleAway: 1])
        var failed = laptopAway()
        failed.went(0, wasAway: true, at: at(12))
        failed.shown(0, as: nil, at: at(20))
        failed.failed(0, at: at(21))
        failed.shown(0, as: .away, at: at(21))
        failed.judge(at(40))
        #expect(failed.counts.isEmpty)
    }

    @Test("one that was surely away, or ended long ago, holds nothing")
    func notHeld() {
        for (end, wasAway) in [(20, true), (5, false)] as [(UInt64, Bool)] {
            var checker = laptopAway()
            checker.went(0, wasAway: wasAway, at: at(end))
            checker.shown(0, as: .away, at: at(20))
            checker.judge(at(25))
            #expect(checker.counts == [.staleAway: 1])
        }
    }

    @Test("online of somebody who has been away for long is false; shortly after the turn it's old news")
    func falseBack() {
        var checker = online()
        checker.shown(0, as: .away, at: at(20))
        _ = checker.told(7, of: 0, .away, version: 2, at: at(21))
        _ = checker.told(7, of: 0, .online, version: 3, at: at(40))
        #expect(checker.counts.isEmpty)
        _ = checker.told(7, of: 0, .online, version: 4, at: at(41))
        #expect(checker.counts == [.falseBack: 1])
        // Not sure: an answer is under way.
        checker.shown(0, as: nil, at: at(50))
        _ = checker.told(7, of: 0, .online, version: 5, at: at(90))
        #expect(checker.counts == [.falseBack: 1])
    }

    @Test("what isn't sure isn't judged: who comes back meanwhile, and watchers that weren't there")
    func unsure() {
        var checker = made()
        checker.came(0, at: at(10))
        checker.went(0, at: at(12))
        checker.judge(at(16))
        checker.coming(0)
        checker.judge(at(40))
        #expect(checker.counts.isEmpty && checker.judged == 0)
        checker.came(1, at: at(50))
        checker.ended(7)
        checker.judge(at(60))
        checker.watching(7, since: at(61))
        _ = checker.told(7, of: 1, .online, version: 1, at: at(61))
        checker.judge(at(90))
        #expect(checker.counts.isEmpty && checker.judged == 0)
    }

    @Test("who is told of somebody whom it doesn't watch never asked for it")
    func strangers() {
        var checker = made()
        #expect(checker.told(8, of: 0, .online, version: 1, at: at(2)) == false)
        #expect(checker.told(7, of: 5, .online, version: 1, at: at(2)) == false)
        #expect(checker.told == 2)
        #expect(checker.counts == [.unasked: 2])
    }
}

@Suite("The checker: what is ephemeral")
struct EphemeralCheckerTests {
    private func at(_ seconds: UInt64) -> Instant { Instant(nanoseconds: seconds * 1_000_000_000) }

    @Test("signs of typing come once and in order; some may be missing")
    func typing() {
        var checker = EphemeralChecker(stopsWithin: .seconds(10))
        checker.typing(true, sequence: 1, from: 1, in: 0, to: 2, at: at(1))
        checker.typing(false, sequence: 4, from: 1, in: 0, to: 2, at: at(2))
        checker.typing(true, sequence: 1, from: 1, in: 0, to: 3, at: at(2))
        #expect(checker.counts.isEmpty)
        checker.typing(true, sequence: 4, from: 1, in: 0, to: 2, at: at(3))
        checker.typing(false, sequence: 3, from: 1, in: 0, to: 2, at: at(4))
        #expect(checker.counts == [.typingTwice: 1, .typingOutOfOrder: 1])
    }

    @Test("signs of a connection that ended may come behind those of the next one; those of one connection may not")
    func overtaken() {
        var checker = EphemeralChecker(stopsWithin: .seconds(10))
        checker.cut(1, after: 0)
        checker.cut(1, after: 4)
        checker.cut(1, after: 4)
        checker.typing(true, sequence: 5, from: 1, in: 0, to: 2, at: at(1))
        for sequence in [3, 4] as [UInt32] { checker.typing(true, sequence: sequence, from: 1, in: 0, to: 2, at: at(2)) }
        #expect(checker.counts.isEmpty)
        checker.typing(true, sequence: 7, from: 1, in: 0, to: 2, at: at(3))
        checker.cut(1, after: 7)
        checker.typing(false, sequence: 6, from: 1, in: 0, to: 2, at: at(4))
        #expect(checker.counts == [.typingOutOfOrder: 1])
    }

    @Test("what was seen on a connection before this one isn't stuck")
    func acrossConnections() {
        var checker = EphemeralChecker(stopsWithin: .seconds(10))
        // The receiver was away from 2 to 20 and missed the end of it.
        checker.typing(true, sequence: 1, from: 1, in: 0, to: 2, at: at(1), since: at(0))
        checker.typing(true, sequence: 3, from: 1, in: 0, to: 2, at: at(21), since: at(20))
        #expect(checker.counts.isEmpty)
        checker.typing(false, sequence: 4, from: 1, in: 0, to: 2, at: at(32), since: at(20))
        #expect(checker.counts == [.typingStuck: 1])
    }

    @Test("who was seen typing is seen to stop, by themselves or in the hub's word, unless the receiver goes")
    func stuck() {
        var checker = EphemeralChecker(stopsWithin: .seconds(10))
        for receiver in 0..<3 { checker.typing(true, sequence: 1, from: 9, in: 0, to: receiver, at: at(1)) }
        checker.typing(false, sequence: nil, from: 9, in: 0, to: 0, at: at(7))
        checker.ended([1])
        checker.judge(at(11))
        #expect(checker.counts.isEmpty)
        checker.judge(at(12))
        #expect(checker.counts == [.typingStuck: 1])
        checker.judge(at(30))
        #expect(checker.counts == [.typingStuck: 1])
    }

    @Test("a read mark never goes back for one receiver")
    func read() {
        var checker = EphemeralChecker(stopsWithin: .seconds(10))
        checker.read(5, of: 1, in: 0, to: 2)
        checker.read(5, of: 1, in: 0, to: 2)
        checker.read(9, of: 1, in: 0, to: 2)
        checker.read(3, of: 1, in: 1, to: 2)
        checker.read(3, of: 1, in: 0, to: 3)
        #expect(checker.counts.isEmpty)
        checker.read(8, of: 1, in: 0, to: 2)
        #expect(checker.counts == [.readWentBack: 1])
    }

    @Test("beyond its bound no new pair is looked at")
    func bound() {
        var checker = EphemeralChecker(stopsWithin: .seconds(10), seatsMax: 2)
        for sender in 0..<5 { checker.read(1, of: sender, in: 0, to: 0) }
        #expect(checker.judged == 2)
    }
}
