/// A rate limit: tokens come at a steady rate, and no more than a burst of them waits. Eight bytes, no clock of its own; what it holds depends on
/// the `Rate` that it's asked with, which may change at any time.
///
/// The virtual-scheduling form (GCRA), which needs one number only: when the bucket was last empty, as if it had filled steadily since.
package struct TokenBucket: Sendable, Equatable {
    private(set) package var emptyAt: Instant

    /// A full bucket.
    package init() { emptyAt = Instant(nanoseconds: 0) }

    package init(emptyAt: Instant) { self.emptyAt = emptyAt }

    /// Takes so many tokens; nil when they were there, else the time until they are. Who wants more than a whole burst needs a full bucket, and the
    /// bucket owes the rest.
    package mutating func take(_ amount: Int = 1, of rate: Rate, at now: Instant) -> Span? {
        guard rate.isLimited else { return nil }
        let (next, wait) = Self.judge(emptyAt, amount, of: rate, at: now)
        if wait == nil { emptyAt = next }
        return wait
    }

    /// Takes them whether they are there or not; returns by how much time the bucket is overdrawn afterwards.
    package mutating func charge(_ cost: Span, of depth: Span, at now: Instant, overdraftMax: Span) -> Span {
        let start = max(emptyAt, Self.back(now, depth))
        emptyAt = min(start + cost, now + overdraftMax)
        return emptyAt.since(now)
    }

    package func isFull(of rate: Rate, at now: Instant) -> Bool { emptyAt <= Self.back(now, rate.depth) }

    /// When a bucket that was empty at `emptyAt` will be once the tokens are taken, and how long they have to be waited for. For buckets that several
    /// threads share, whose number is kept elsewhere.
    @inline(__always)
    package static func judge(_ emptyAt: Instant, _ amount: Int, of rate: Rate, at now: Instant) -> (emptyAt: Instant, wait: Span?) {
        let cost = rate.cost(amount)
        let start = max(emptyAt, back(now, rate.depth))
        let there = start + min(cost, rate.depth)
        return (start + cost, there <= now ? nil : there.since(now))
    }

    private static func back(_ now: Instant, _ span: Span) -> Instant {
        Instant(nanoseconds: now.nanoseconds > span.nanoseconds ? now.nanoseconds - span.nanoseconds : 0)
    }
}
