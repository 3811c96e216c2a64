import Glibc
import HubBase

/// Who sends when, decided before anything is sent: answers, however slow, move nothing (no coordinated omission).
///
/// Each bot is a Poisson process. Their sum is one too, of all the rates together, and each arrival is any bot's with equal chance: so one
/// clock serves them all, and the memory is four words.
package struct ArrivalSchedule: Sendable {
    package struct Arrival: Sendable, Equatable {
        /// Since the start of the measurement.
        package var at: Span
        package var bot: Int
    }

    private let bots: Int
    /// Nanoseconds between two arrivals, on average.
    private let gap: Double
    private let end: Span
    private var chance: Chance
    private var last: Double = 0

    /// `rate`: messages a second of each bot. Nothing arrives at or after `end`.
    package init(bots: Int, rate: Double, end: Span, seed: UInt64) {
        self.bots = bots
        self.gap = 1e9 / (rate * Double(bots))
        self.end = end
        self.chance = Chance(seed: seed)
    }

    /// nil after the last.
    package mutating func next() -> Arrival? {
        guard bots > 0, gap.isFinite, gap > 0 else { return nil }
        // In (0, 1]: the logarithm of zero is no waiting time.
        let uniform = Double((chance.next() >> 11) + 1) / Double(1 << 53 as UInt64)
        last += -log(uniform) * gap
        guard last < Double(end.nanoseconds) else { return nil }
        return Arrival(at: Span(nanoseconds: UInt64(last)), bot: Int.random(in: 0..<bots, using: &chance))
    }
}
