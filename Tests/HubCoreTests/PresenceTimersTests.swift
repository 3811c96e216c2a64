import HubBase
import HubContracts
import HubCore
import Testing

@Suite("Presence timers")
struct PresenceTimersTests {
    fileprivate static var fast: PresenceTimers {
        var timers = PresenceTimers()
        timers.heartbeat = .seconds(10)
        timers.lease = .seconds(25)
        timers.gapMax = .seconds(5)
        timers.hold = .seconds(16)
        timers.userTTL = .seconds(120)
        return timers
    }

    @Test("the design's sets are sound: default, fast, tests", arguments: [PresenceTimers(), fast, PresenceStoreContract.timers])
    func sound(_ timers: PresenceTimers) { #expect(timers.problems() == []) }

    struct Broken: CustomTestStringConvertible, Sendable {
        var names: [String]
        var change: @Sendable (inout PresenceTimers) -> Void
        var testDescription: String { names.joined(separator: ", ") }
    }

    @Test(
        "a broken relation is one sentence that names its settings",
        arguments: [
            Broken(names: ["presence.lease", "presence.heartbeat"]) {
                $0.lease = .milliseconds(74_999)
                $0.gapMax = .seconds(10)
            },
            Broken(names: ["presence.userTTL", "presence.lease", "presence.hold", "presence.heartbeat"]) { $0.userTTL = .seconds(145) },
            Broken(names: ["presence.userTTL", "presence.grace", "presence.hold", "presence.gapMax"]) {
                $0 = PresenceTimersTests.fast
                $0.grace = .seconds(60)
                $0.userTTL = .seconds(81)
            },
            Broken(names: ["presence.gapMax", "presence.sweepInterval"]) { $0.gapMax = .milliseconds(4_500) },
            Broken(names: ["presence.gapMax", "presence.lease", "presence.heartbeat"]) { $0.gapMax = .seconds(42) },
            Broken(names: ["presence.hold", "presence.heartbeat"]) { $0.hold = .milliseconds(37_999) },
            Broken(names: ["presence.grace"]) { $0.grace = .milliseconds(60_001) },
            Broken(names: ["presence.tombstoneTTL", "presence.userTTL"]) { $0.tombstoneTTL = .seconds(299) },
            Broken(names: ["presence.heartbeat"]) { $0.heartbeat = .zero },
            Broken(names: ["presence.awayAfter"]) { $0.awayAfter = .zero },
            Broken(names: ["presence.userTTL"]) { $0.userTTL = Span(nanoseconds: .max) },
        ])
    func broken(_ broken: Broken) {
        var timers = PresenceTimers()
        broken.change(&timers)
        let problems = timers.problems()
        #expect(problems.count == 1)
        for name in broken.names { #expect(problems.first?.contains(name) == true, "\(problems)") }
    }

    @Test("what just fits, fits")
    func borders() {
        var timers = PresenceTimers()
        timers.gapMax = .milliseconds(41_999)
        timers.hold = .seconds(38)
        timers.userTTL = .milliseconds(143_001)
        timers.grace = .seconds(60)
        #expect(timers.problems() == [])
        timers.grace = .zero
        #expect(timers.problems() == [])
        timers = PresenceTimersTests.fast
        timers.grace = .seconds(60)
        timers.userTTL = .milliseconds(81_001)
        #expect(timers.problems() == [])
    }

    @Test(
        "however many nodes share the sweeps, one that's left alone sweeps within the longest gap", arguments: [1, 2, 3, 10, 100, 10_000])
    func pauses(nodes: Int) {
        for timers in [PresenceTimers(), PresenceTimersTests.fast] {
            for interval in [timers.sweepInterval, timers.memberSweepInterval] {
                let pauses = timers.pauses(between: interval, nodes: nodes)
                #expect(pauses.upperBound < timers.gapMax && pauses.lowerBound >= interval)
                // The more nodes, the less each does, as far as that goes.
                #expect(pauses.lowerBound >= min(interval.scaled(by: Double(nodes) * 0.5), timers.gapMax.scaled(by: 0.29)))
            }
        }
    }
}
