import HubBase
import Synchronization

/// How many WebSockets the node opens in a second, and when the others shall come back: one schedule for all loops.
///
/// A virtual schedule (GCRA): one word says when the allowance is full again. It's asked once for each client, before what is expensive: the TLS
/// handshake where there's one, else the opening handshake. The sockets themselves are accepted as they come, which costs little, so that probes and
/// the API on plain listeners never wait behind a herd.
package final class AdmissionRate: Sendable {
    /// `Instant.nanoseconds` when the whole burst is there again.
    private let fullAt = Atomic<UInt64>(0)
    /// Up to when those who were turned away have been told to come back.
    private let bookedUntil = Atomic<UInt64>(0)

    private static let second: UInt64 = 1_000_000_000
    /// Nobody is told to come back before or after.
    package static let hintMin: Span = .seconds(1)
    package static let hintMax: Span = .seconds(60)

    package init() {}

    /// Whether one more may come in; a burst of one second's worth is allowed at once.
    package func admits(perSecond: Int, at now: Instant) -> Bool {
        let cost = Self.second / UInt64(max(perSecond, 1))
        var seen = fullAt.load(ordering: .relaxed)
        while true {
            let start = max(seen, now.nanoseconds)
            guard start - now.nanoseconds + cost <= Self.second else { return false }
            let (done, current) = fullAt.compareExchange(expected: seen, desired: start + cost, ordering: .relaxed)
            if done { return true }
            seen = current
        }
    }

    /// When one who was turned away shall come back: each later than the one before, at the pace at which they can be taken in.
    package func hint(perSecond: Int, at now: Instant) -> Span {
        let cost = Self.second / UInt64(max(perSecond, 1))
        let most = now.nanoseconds + Self.hintMax.nanoseconds
        var seen = bookedUntil.load(ordering: .relaxed)
        while true {
            var start = max(seen, now.nanoseconds + Self.hintMin.nanoseconds)
            // Beyond the longest wait the places are given out again: that many at once are more than anybody can plan for.
            if start > most { start = now.nanoseconds + Self.hintMax.nanoseconds / 2 }
            let (done, current) = bookedUntil.compareExchange(expected: seen, desired: start + cost, ordering: .relaxed)
            if done { return Span(nanoseconds: start - now.nanoseconds) }
            seen = current
        }
    }
}
