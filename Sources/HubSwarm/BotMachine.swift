import HubBase

/// What one device's owner does and when: a machine that knows the scenario, its own chance and the time, and nothing of what the hub does.
///
/// So the same seed makes the same day, whatever the hub answers and however late the shell asks: clocks go from their own last time, never
/// from now. The shell pulls `next` until it's nil and comes back at `deadline`. 150 bytes.
package struct BotMachine: Sendable {
    package enum Action: Sendable, Equatable {
        case connect
        /// The user closes the application: a clean leave.
        case leave
        /// The network is gone: no close, no goodbye.
        case cut
        /// The connection breaks, the network doesn't: the client comes back by its own rules, at once.
        case lose
        /// Of the bot's rooms, from 0.
        case type(room: Int)
        case say(room: Int)
        /// Reads what the room has.
        case read(room: Int)
        case goAway
        case comeBack
    }

    /// What is due, and when it was: that is when it counts from.
    package struct Due: Sendable, Equatable {
        package var at: Instant
        package var action: Action

        package init(at: Instant, action: Action) {
            self.at = at
            self.action = action
        }
    }

    /// What the clocks mean, in the order in which those of one moment go off.
    private enum Clock: Int, CaseIterable { case session, loss, sleep, herd, away, type, say, read }

    private enum Whereabouts: Sendable {
        case outside
        case inside
        /// Without a network; the session goes on.
        case cut
    }

    private var chance: Chance
    private var clocks: InlineArray<8, Instant>
    private var whereabouts = Whereabouts.outside
    private var isAway = false
    /// When what cut it ends.
    private var backAt = Instant.distantFuture
    /// The room of the message that comes next.
    private var nextRoom: UInt32 = 0
    private let rooms: UInt32
    private let isSpeaker: Bool
    private let ends: Instant

    /// - Parameters:
    ///   - start: when the run begins, or its share of it.
    ///   - place: where among all bots it stands, from 0 to 1: they come evenly over the ramp.
    package init(_ scenario: Scenario, start: Instant, place: Double, isSpeaker: Bool, seed: UInt64) {
        chance = Chance(seed: seed)
        clocks = InlineArray(repeating: .distantFuture)
        rooms = UInt32(clamping: scenario.rooms.joined)
        self.isSpeaker = isSpeaker
        ends = start + scenario.talkingEnds
        clocks[Clock.session.rawValue] = start + scenario.rampUp.scaled(by: place)
        if let at = scenario.herd.at, chance.uniform() <= scenario.herd.share {
            clocks[Clock.herd.rawValue] = start + scenario.measuredFrom + at
        }
    }

    /// When something is due next; `distantFuture`: never again.
    package var deadline: Instant {
        var earliest = clocks[0]
        for clock in Clock.allCases { earliest = min(earliest, clocks[clock.rawValue]) }
        return earliest < ends ? earliest : .distantFuture
    }

    /// The next thing that is due by `now`. Some clocks going off mean nothing to anybody else: those are passed over.
    package mutating func next(_ scenario: Scenario, now: Instant) -> Due? {
        while true {
            var earliest = Clock.session
            for clock in Clock.allCases where clocks[clock.rawValue] < clocks[earliest.rawValue] { earliest = clock }
            let at = clocks[earliest.rawValue]
            guard at <= now, at < ends else { return nil }
            if let action = goesOff(earliest, at, scenario) { return Due(at: at, action: action) }
        }
    }

    private mutating func goesOff(_ clock: Clock, _ at: Instant, _ scenario: Scenario) -> Action? {
        switch clock {
        case .session: return session(at, scenario)
        case .loss: return cut(at, for: scenario.loss.lasts)
        case .sleep: return cut(at, for: scenario.sleep.lasts)
        case .herd:
            set(.herd, scenario.herd.every.map { at + $0 })
            guard whereabouts == .inside else { return nil }
            return scenario.herd.lasts == .zero ? .lose : cut(at, for: scenario.herd.lasts)
        case .away:
            isAway.toggle()
            set(.away, isAway ? at + chance.exponential(mean: scenario.away.lasts) : after(at, scenario.away.every))
            return isAway ? .goAway : .comeBack
        case .type:
            set(.type, nil)
            return .type(room: Int(nextRoom))
        case .say:
            let room = Int(nextRoom)
            planMessage(at, scenario)
            return .say(room: room)
        case .read:
            set(.read, after(at, scenario.readEvery))
            return .read(room: Int.random(in: 0..<max(Int(rooms), 1), using: &chance))
        }
    }

    private mutating func session(_ at: Instant, _ scenario: Scenario) -> Action? {
        switch whereabouts {
        case .outside:
            whereabouts = .inside
            isAway = false
            let length = scenario.session.length.map { mean in
                scenario.session.shape == .exponential
                    ? chance.exponential(mean: mean) : chance.logNormal(mean: mean, spread: scenario.session.spread)
            }
            set(.session, length.map { at + max($0, .milliseconds(100)) })
            set(.away, after(at, scenario.away.every))
            begin(at, scenario)
            return .connect
        case .inside:
            whereabouts = .outside
            silence()
            set(.away, nil)
            set(.session, at + chance.exponential(mean: scenario.session.pause))
            return .leave
        case .cut:
            // `session` is the way back here; the session's own end waits in `backAt`.
            guard backAt > at else {
                // It ended meanwhile, and nobody heard of it.
                whereabouts = .outside
                set(.away, nil)
                set(.session, at + chance.exponential(mean: scenario.session.pause))
                return nil
            }
            whereabouts = .inside
            set(.session, backAt)
            begin(at, scenario)
            return .connect
        }
    }

    /// It's there: it talks and reads, and things happen to its network.
    private mutating func begin(_ at: Instant, _ scenario: Scenario) {
        set(.loss, after(at, scenario.loss.every))
        set(.sleep, after(at, scenario.sleep.every))
        set(.read, rooms > 0 ? after(at, scenario.readEvery) : nil)
        planMessage(at, scenario)
    }

    private mutating func cut(_ at: Instant, for span: Span) -> Action? {
        guard whereabouts == .inside else { return nil }
        whereabouts = .cut
        backAt = clocks[Clock.session.rawValue]
        silence()
        set(.session, at + span)
        return .cut
    }

    private mutating func silence() {
        for clock in [Clock.loss, .sleep, .type, .say, .read] { set(clock, nil) }
    }

    /// When it speaks next, and when it's seen typing before.
    private mutating func planMessage(_ at: Instant, _ scenario: Scenario) {
        guard isSpeaker, rooms > 0, let says = after(at, scenario.talk.every) else {
            set(.say, nil)
            return set(.type, nil)
        }
        nextRoom = UInt32.random(in: 0..<rooms, using: &chance)
        set(.say, says)
        guard let typing = scenario.talk.typing else { return set(.type, nil) }
        // Who has less time than that types from now on.
        set(.type, Instant(nanoseconds: max(at.nanoseconds, says.nanoseconds - min(typing.nanoseconds, says.nanoseconds))))
    }

    private mutating func after(_ at: Instant, _ mean: Span?) -> Instant? {
        guard let mean else { return nil }
        return at + chance.exponential(mean: mean)
    }

    private mutating func set(_ clock: Clock, _ at: Instant?) { clocks[clock.rawValue] = at ?? .distantFuture }
}
