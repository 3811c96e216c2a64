import HubBase
import HubCore
import HubWire
import Testing

@Suite("asking a backend: what is kept, and when nobody is asked")
struct AskMachineTests {
    static let allow = AskAnswer(.allow(AskAllowance()), ttl: .seconds(10))
    static let unkept = AskAnswer(.allow(AskAllowance()))

    /// A machine with a clock that the test moves.
    final class Stage {
        var machine: AskMachine
        var now = Instant(nanoseconds: 1_000_000_000_000)

        init(_ change: (inout AskMachine.Limits) -> Void = { _ in }) {
            var limits = AskMachine.Limits()
            change(&limits)
            machine = AskMachine(limits)
        }

        var wall: UInt64 = 1_800_000_000_000

        func wait(_ span: Span) {
            now = now + span
            wall += span.milliseconds
        }

        func ticket(_ key: UInt8 = 1) throws -> AskMachine.Ticket {
            guard case .ask(let ticket) = machine.ask([key], at: now, wall: wall) else { throw Unasked() }
            return ticket
        }

        struct Unasked: Error {}

        @discardableResult
        func answer(_ key: UInt8, _ outcome: AskMachine.Outcome) throws -> AskMachine.Notice? {
            machine.answered(try ticket(key), outcome, at: now)
        }

        func isKnown(_ key: UInt8) -> Bool {
            if case .known = machine.ask([key], at: now, wall: wall) { return true }
            return false
        }

        /// nil when somebody would be asked, or nothing need be.
        func spared(_ key: UInt8 = 9) -> Span? {
            if case .spared(let span) = machine.ask([key], at: now, wall: wall) { return span }
            return nil
        }
    }

    // MARK: What is kept

    @Test("an answer holds for its own question, for its ttl")
    func ttl() throws {
        let stage = Stage()
        try stage.answer(1, .answer(Self.allow))
        #expect(stage.isKnown(1))
        #expect(!stage.isKnown(2))
        stage.wait(.milliseconds(9_999))
        #expect(stage.isKnown(1))
        stage.wait(.milliseconds(1))
        #expect(!stage.isKnown(1))
    }

    @Test("no ttl: kept as long as the setting says, by default not at all")
    func noTTL() throws {
        let plain = Stage()
        try plain.answer(1, .answer(Self.unkept))
        #expect(!plain.isKnown(1))
        let stage = Stage { $0.cache = .seconds(2) }
        try stage.answer(1, .answer(Self.unkept))
        stage.wait(.milliseconds(1_999))
        #expect(stage.isKnown(1))
        stage.wait(.milliseconds(1))
        #expect(!stage.isKnown(1))
    }

    @Test("no ttl is longer than the longest, zero is none, and a backend's largest number harms nothing")
    func longest() throws {
        let stage = Stage { $0.cacheMax = .seconds(5) }
        try stage.answer(1, .answer(AskAnswer(.allow(AskAllowance()), ttl: Span(nanoseconds: .max))))
        try stage.answer(2, .answer(AskAnswer(.allow(AskAllowance()), ttl: .zero)))
        #expect(!stage.isKnown(2))
        stage.wait(.milliseconds(4_999))
        #expect(stage.isKnown(1))
        stage.wait(.milliseconds(1))
        #expect(!stage.isKnown(1))
    }

    @Test("an allowance is kept no longer than what it allows: after its end the question is asked again")
    func expires() throws {
        let stage = Stage { $0.cache = .seconds(60) }
        var allowance = AskAllowance()
        allowance.expires = stage.wall + 1500
        try stage.answer(1, .answer(AskAnswer(.allow(allowance))))
        try stage.answer(2, .answer(AskAnswer(.allow(allowance), ttl: .seconds(60))))
        stage.wait(.milliseconds(1_499))
        #expect(stage.isKnown(1) && stage.isKnown(2))
        stage.wait(.milliseconds(1))
        #expect(!stage.isKnown(1) && !stage.isKnown(2))
        // It ends by the wall clock, which may have been set forward meanwhile.
        allowance.expires = stage.wall + 10_000
        try stage.answer(1, .answer(AskAnswer(.allow(allowance))))
        #expect(stage.isKnown(1))
        stage.wall += 10_000
        #expect(!stage.isKnown(1))
    }

    @Test("denials are kept as allowances are, but \"come back later\" only where it has a ttl itself")
    func denials() throws {
        let stage = Stage { $0.cache = .seconds(2) }
        try stage.answer(1, .answer(AskAnswer(.deny(WireError(.forbidden, "no")))))
        try stage.answer(2, .answer(AskAnswer(.deny(WireError(.unavailable, "later")))))
        try stage.answer(3, .answer(AskAnswer(.deny(WireError(.rateLimited, "later")), ttl: .seconds(1))))
        #expect(stage.isKnown(1))
        #expect(!stage.isKnown(2))
        #expect(stage.isKnown(3))
    }

    @Test("so many are kept, the oldest go; and no large ones")
    func bounded() throws {
        let stage = Stage { $0.entries = 3 }
        for key: UInt8 in 1...5 { try stage.answer(key, .answer(Self.allow)) }
        #expect(stage.machine.keptCount == 3)
        #expect((1...5).map { stage.isKnown(UInt8($0)) } == [false, false, true, true, true])
        try stage.answer(7, .answer(AskAnswer(.allow(AskAllowance()), ttl: .seconds(10), weight: 4097)))
        #expect(!stage.isKnown(7))
        // The same question over and over fills nothing.
        for _ in 0..<100 {
            try stage.answer(8, .answer(Self.allow))
            stage.wait(.seconds(10))
        }
        #expect(stage.machine.keptCount <= 3)
    }

    @Test("what is forgotten isn't known, and an answer to what was asked before that isn't kept")
    func forget() throws {
        let stage = Stage()
        try stage.answer(1, .answer(Self.allow))
        let ticket = try stage.ticket(2)
        stage.machine.forget()
        #expect(!stage.isKnown(1))
        _ = stage.machine.answered(ticket, .answer(Self.allow), at: stage.now)
        #expect(!stage.isKnown(2))
        try stage.answer(2, .answer(Self.allow))
        #expect(stage.isKnown(2))
    }

    // MARK: The breaker

    @Test("it opens at so many failures within the window, and says so once")
    func opens() throws {
        let stage = Stage()
        for _ in 0..<4 { #expect(try stage.answer(1, .failed) == nil) }
        #expect(!stage.machine.isOpen)
        let late = try stage.ticket()
        #expect(try stage.answer(1, .failed) == .opened)
        #expect(stage.machine.isOpen)
        #expect(stage.spared() == .seconds(5))
        // Asked before: it decides nothing.
        #expect(stage.machine.answered(late, .failed, at: stage.now) == nil)
        #expect(stage.spared() == .seconds(5))
    }

    @Test("failures of two windows aren't added up")
    func windows() throws {
        let stage = Stage()
        for _ in 0..<20 {
            for _ in 0..<4 { #expect(try stage.answer(1, .failed) == nil) }
            stage.wait(.seconds(10))
        }
        #expect(!stage.machine.isOpen)
    }

    @Test("a backend that answers more often than it fails is asked on; questions that it can't answer don't count against it")
    func mostlyWell() throws {
        let stage = Stage()
        for _ in 0..<50 {
            try stage.answer(1, .answer(Self.unkept))
            try stage.answer(1, .alive)
            try stage.answer(1, .failed)
        }
        for _ in 0..<50 { try stage.answer(1, .unasked) }
        #expect(!stage.machine.isOpen)
    }

    @Test("after the pause one question probes, the others wait; when it goes well everybody asks again")
    func probe() throws {
        let stage = Stage { $0.failures = 1 }
        try stage.answer(1, .failed)
        stage.wait(.milliseconds(4_999))
        #expect(stage.spared() == .milliseconds(1))
        stage.wait(.milliseconds(1))
        let probe = try stage.ticket()
        #expect(stage.spared() == .seconds(1))
        #expect(stage.machine.answered(probe, .answer(Self.unkept), at: stage.now) == .closed)
        #expect(!stage.machine.isOpen)
        #expect(stage.spared() == nil)
    }

    @Test("each probe that fails doubles the pause, up to a minute; one that went well makes it short again")
    func doubles() throws {
        let stage = Stage { $0.failures = 1 }
        try stage.answer(1, .failed)
        for (opened, pause) in [5, 10, 20, 40, 60, 60].enumerated() {
            #expect(stage.spared() == .seconds(UInt64(pause)))
            // What metrics tell: how often, and how long yet.
            #expect(stage.machine.openedCount == UInt64(opened + 1))
            #expect(stage.machine.pauseLeft(at: stage.now) == .seconds(UInt64(pause)))
            stage.wait(.seconds(UInt64(pause)))
            #expect(stage.machine.pauseLeft(at: stage.now) == .zero)
            #expect(try stage.answer(1, .failed) == nil)
        }
        stage.wait(.seconds(60))
        #expect(try stage.answer(1, .answer(Self.unkept)) == .closed)
        try stage.answer(1, .failed)
        #expect(stage.spared() == .seconds(5))
    }

    @Test("a probe that never reached the backend leaves the place to the next one")
    func probeUnasked() throws {
        let stage = Stage { $0.failures = 1 }
        try stage.answer(1, .failed)
        stage.wait(.seconds(5))
        #expect(try stage.answer(1, .unasked) == nil)
        #expect(stage.machine.isOpen)
        #expect(try stage.answer(1, .alive) == .closed)
    }

    @Test("what is known is answered while it's open")
    func knownWhileOpen() throws {
        let stage = Stage { $0.failures = 1 }
        try stage.answer(1, .answer(Self.allow))
        try stage.answer(2, .failed)
        #expect(stage.isKnown(1))
        #expect(stage.spared() != nil)
    }

    @Test("another backend begins anew: nothing known, nobody spared, and a probe of the old one decides nothing")
    func anew() throws {
        let stage = Stage { $0.failures = 1 }
        try stage.answer(1, .answer(Self.allow))
        try stage.answer(2, .failed)
        stage.wait(.seconds(5))
        let probe = try stage.ticket(3)
        stage.machine.setLimits(stage.machine.limits)
        #expect(!stage.machine.isOpen)
        #expect(!stage.isKnown(1))
        #expect(stage.machine.answered(probe, .answer(Self.allow), at: stage.now) == nil)
        #expect(!stage.isKnown(3))
    }
}
