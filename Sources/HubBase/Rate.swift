/// So many tokens a second, and so many at once. What a token costs is worked out once, so that asking a bucket takes no division.
package struct Rate: Sendable, Equatable {
    /// 0: no limit.
    package let perSecond: Int
    /// Of one token. Whole picoseconds keep a rate of a gigabyte a second exact to a thousandth.
    private let picoseconds: UInt64
    /// What the whole burst costs: a bucket that has been idle for so long is full.
    package let depth: Span

    package static let unlimited = Rate(perSecond: 0, burst: 0)

    /// Longer bursts are cut to a year's worth, so that no sum of a clock and a depth overflows.
    private static let depthMax: UInt64 = 365 * 86_400 * 1_000_000_000

    package init(perSecond: Int, burst: Int) {
        self.perSecond = max(perSecond, 0)
        picoseconds = perSecond > 0 ? max(1_000_000_000_000 / UInt64(perSecond), 1) : 0
        depth = Span(nanoseconds: Self.nanoseconds(picoseconds, max(burst, 1)))
    }

    /// As much at once as the rate allows within `span`, one token at least.
    package init(perSecond: Int, within span: Span) {
        let (tokens, overflow) = UInt64(max(perSecond, 0)).multipliedReportingOverflow(by: span.nanoseconds / 1_000_000)
        self.init(perSecond: perSecond, burst: overflow ? .max : Int(clamping: tokens / 1000))
    }

    package var isLimited: Bool { perSecond > 0 }

    /// What so many tokens cost, in time.
    @inline(__always)
    package func cost(_ amount: Int) -> Span { Span(nanoseconds: Self.nanoseconds(picoseconds, amount)) }

    private static func nanoseconds(_ picoseconds: UInt64, _ amount: Int) -> UInt64 {
        let (product, overflow) = picoseconds.multipliedReportingOverflow(by: UInt64(max(amount, 0)))
        return overflow ? depthMax : min(product / 1000, depthMax)
    }
}
