import HubBase

/// A rate limit: `rate` tokens a second up to `burst`, one for each message. Sixteen bytes, no clock of its own.
package struct TokenBucket: Sendable, Equatable {
    /// When the bucket was last empty, as if it had filled steadily since: the virtual-scheduling form, which needs one number only.
    private var emptyAt: Instant

    /// A full bucket.
    package init(full now: Instant) { emptyAt = Instant(nanoseconds: 0) }

    /// Takes one token; nil when there was one, else the time until there is. `rate` 0 means no limit.
    package mutating func take(rate: Int, burst: Int, at now: Instant) -> Span? {
        guard rate > 0 else { return nil }
        let cost = UInt64(1_000_000_000) / UInt64(rate)
        let depth = cost &* UInt64(max(burst, 1))
        let oldest = now.nanoseconds > depth ? now.nanoseconds - depth : 0
        let start = max(emptyAt.nanoseconds, oldest)
        let next = start &+ cost
        guard next <= now.nanoseconds else { return Span(nanoseconds: next - now.nanoseconds) }
        emptyAt = Instant(nanoseconds: next)
        return nil
    }
}
