import HubBase
import HubCore
import HubWire
import Testing

@Suite struct TypingTests {
    private static func at(_ milliseconds: UInt64) -> Instant { Instant(nanoseconds: 1_000_000_000) + .milliseconds(milliseconds) }

    @Test("a repeated true within the throttle isn't handed on, a later one is")
    func throttle() {
        var throttle = TypingThrottle(throttle: .seconds(2), expire: .seconds(6))
        #expect(throttle.passes(true, of: 1, in: "c", at: Self.at(0)) == true)
        #expect(throttle.passes(true, of: 1, in: "c", at: Self.at(1_999)) == false)
        #expect(throttle.passes(true, of: 1, in: "d", at: Self.at(1_999)) == true)
        #expect(throttle.passes(true, of: 2, in: "c", at: Self.at(1_999)) == true)
        #expect(throttle.passes(true, of: 1, in: "c", at: Self.at(2_000)) == true)
    }

    @Test("a change goes at once, the same again doesn't")
    func stops() {
        var throttle = TypingThrottle(throttle: .seconds(2), expire: .seconds(6))
        #expect(throttle.passes(true, of: 1, in: "c", at: Self.at(0)) == true)
        #expect(throttle.passes(false, of: 1, in: "c", at: Self.at(1)) == true)
        #expect(throttle.passes(false, of: 1, in: "c", at: Self.at(2)) == false)
        #expect(throttle.passes(true, of: 1, in: "c", at: Self.at(2_000)) == true)
    }

    /// What is told of a connection, and when (ms), that says what is said.
    private static func told(_ said: [(UInt64, Bool)], until end: UInt64 = 20_000) -> [(UInt64, Bool)] {
        var throttle = TypingThrottle(throttle: .seconds(2), expire: .seconds(8))
        var told: [(UInt64, Bool)] = []
        var due: UInt64?
        for time in 0..<end {
            if time == due {
                let (held, next) = throttle.takeHeld(at: at(time))
                told += held.map { (time, $0.0.payload == [1]) }
                due = next.map { time + $0.milliseconds }
            }
            for (moment, isTyping) in said where moment == time {
                switch throttle.judge(isTyping, of: 1, in: "c", at: at(time)) {
                case .tell: told.append((time, isTyping))
                case .drop: break
                case .wait:
                    throttle.hold(publication(isTyping), of: 1, in: "c")
                    if due == nil { due = throttle.takeHeld(at: at(time)).next.map { time + $0.milliseconds } }
                }
            }
        }
        return told
    }

    private static func publication(_ isTyping: Bool) -> Publication {
        Publication(
            messageClass: .typing, user: "alice", device: .empty, messageId: .empty, time: 0, payload: [isTyping ? 1 : 0])
    }

    @Test("true and false by turns: two are told at once, then no more than two within the throttle, and the last state in the end")
    func turns() {
        for count in 3..<60 {
            let said = (0..<UInt64(count)).map { ($0 * 100, $0 % 2 == 0) }
            let told = Self.told(said)
            #expect(told.count <= 3 + 2 * (count * 100 / 2_000), "\(count)")
            #expect(told.prefix(2).map(\.0) == [0, 100])
            #expect(told.last?.1 == said.last?.1, "\(count): the last state is told")
            #expect((told.last?.0 ?? .max) <= UInt64(count - 1) * 100 + 2_000, "\(count): within the throttle")
            // Each says something new, and of any three in a row the last is the throttle's time behind the first.
            for place in told.indices.dropFirst() { #expect(told[place].1 != told[place - 1].1) }
            for place in told.indices.dropFirst(2) { #expect(told[place].0 - told[place - 2].0 >= 2_000) }
        }
    }

    @Test("what waits is said no more once its opposite is said, or its connection is gone")
    func takenBack() {
        #expect(Self.told([(0, true), (100, false), (200, true), (300, false)]).map(\.0) == [0, 100])
        var throttle = TypingThrottle(throttle: .seconds(2), expire: .seconds(8))
        _ = throttle.passes(true, of: 1, in: "c", at: Self.at(0))
        _ = throttle.passes(false, of: 1, in: "c", at: Self.at(1))
        #expect(throttle.judge(true, of: 1, in: "c", at: Self.at(2)) == .wait)
        throttle.hold(Self.publication(true), of: 1, in: "c")
        #expect(throttle.closed(1, at: Self.at(3)) == [] && !throttle.holdsAny)
        #expect(throttle.takeHeld(at: Self.at(5_000)).due.isEmpty)
    }

    @Test("what waits isn't lost to the channels that a connection speaks of next")
    func displaced() {
        var throttle = TypingThrottle(throttle: .seconds(2), expire: .seconds(8))
        for (place, isTyping) in [true, false].enumerated() { _ = throttle.passes(isTyping, of: 1, in: "c", at: Self.at(UInt64(place))) }
        #expect(throttle.judge(true, of: 1, in: "c", at: Self.at(2)) == .wait)
        throttle.hold(Self.publication(true), of: 1, in: "c")
        for number in 0..<TypingThrottle.channelsMax {
            _ = throttle.passes(true, of: 1, in: Name(trusted: Array("c\(number)".utf8)), at: Self.at(3))
        }
        #expect(throttle.takeHeld(at: Self.at(4)).due.map(\.1) == ["c"])
    }

    @Test("who has stopped needn't be told so at the close")
    func stopped() {
        var throttle = TypingThrottle(throttle: .seconds(2), expire: .seconds(6))
        _ = throttle.passes(true, of: 1, in: "c", at: Self.at(0))
        _ = throttle.passes(false, of: 1, in: "c", at: Self.at(1))
        #expect(throttle.closed(1, at: Self.at(2)) == [])
    }

    @Test("a connection that closes leaves the channels that still believe it")
    func closes() {
        var throttle = TypingThrottle(throttle: .seconds(2), expire: .seconds(6))
        _ = throttle.passes(true, of: 1, in: "old", at: Self.at(0))
        _ = throttle.passes(true, of: 1, in: "new", at: Self.at(5_000))
        #expect(throttle.closed(1, at: Self.at(6_000)) == ["new"])
        #expect(throttle.closed(1, at: Self.at(6_000)) == [])
    }

    @Test("memory is bounded: eight channels a connection, nothing beyond the expiry")
    func bounded() {
        var throttle = TypingThrottle(throttle: .seconds(2), expire: .seconds(6))
        for number in 0..<100 { _ = throttle.passes(true, of: 1, in: Name(trusted: Array("c\(number)".utf8)), at: Self.at(0)) }
        #expect(throttle.closed(1, at: Self.at(1)).count == TypingThrottle.channelsMax)
        _ = throttle.passes(true, of: 2, in: "c", at: Self.at(0))
        throttle.prune(at: Self.at(6_000))
        #expect(throttle.count == 0)
    }

    @Test("who isn't heard again in time has stopped, and that is told once")
    func expires() {
        let alice = TypingBoard.Typist(channel: "c", user: "alice", device: "phone")
        var board = TypingBoard(expire: .seconds(6))
        board.told(true, of: alice, at: Self.at(0))
        board.told(true, of: alice, at: Self.at(4_000))
        #expect(board.expired(at: Self.at(9_999)) == [])
        #expect(board.expired(at: Self.at(10_000)) == [alice])
        #expect(board.expired(at: Self.at(10_001)) == [])
        board.told(true, of: alice, at: Self.at(11_000))
        board.told(false, of: alice, at: Self.at(11_001))
        #expect(board.isEmpty)
    }

    @Test("who is heard typing within the expiry isn't said to have stopped, though the throttle held back what was heard last")
    func throttledProlongs() {
        let typing = Configuration.Typing()
        for plan: [UInt64] in [[0, 1_800, 6_600], [0, 1_999, 7_900], [0, 1_900, 3_800, 9_700], [0, 3_000, 9_000]] {
            var throttle = TypingThrottle(throttle: typing.throttle, expire: typing.believed)
            var board = TypingBoard(expire: typing.believed)
            let alice = TypingBoard.Typist(channel: "c", user: "alice", device: "phone")
            var last: UInt64 = 0
            for time in stride(from: UInt64(0), through: 20_000, by: 1) {
                if plan.contains(time) {
                    last = time
                    if throttle.passes(true, of: 1, in: "c", at: Self.at(time)) { board.told(true, of: alice, at: Self.at(time)) }
                }
                guard board.expired(at: Self.at(time)) != [] else { continue }
                #expect(time - last >= 6_000, "\(plan): ended at \(time)")
                #expect(time - last <= 8_000, "\(plan): ended at \(time)")
            }
            #expect(board.isEmpty)
        }
    }

    @Test("beyond its bound the board remembers nobody")
    func board() {
        var board = TypingBoard(expire: .seconds(6), limit: 2)
        for user: Name in ["a", "b", "c"] {
            board.told(true, of: TypingBoard.Typist(channel: "c", user: user, device: .empty), at: Self.at(0))
        }
        #expect(board.expired(at: Self.at(7_000)).count == 2)
    }
}

extension TypingThrottle {
    fileprivate mutating func passes(_ isTyping: Bool, of connection: UInt32, in channel: Name, at now: Instant) -> Bool {
        judge(isTyping, of: connection, in: channel, at: now) == .tell
    }
}
