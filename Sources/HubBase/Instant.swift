/// A point on the monotonic clock, in nanoseconds since an arbitrary start.
///
/// Pure code takes it as an argument and never reads a clock; a loop reads the clock once a turn (`CLOCK_MONOTONIC`).
package struct Instant: Comparable, Hashable, Sendable {
    package var nanoseconds: UInt64

    @inlinable package init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

    @inlinable package static func < (left: Instant, right: Instant) -> Bool { left.nanoseconds < right.nanoseconds }

    @inlinable package static func + (instant: Instant, span: Span) -> Instant {
        let (sum, overflow) = instant.nanoseconds.addingReportingOverflow(span.nanoseconds)
        return Instant(nanoseconds: overflow ? .max : sum)
    }

    /// The time from `earlier` until this instant; zero when `earlier` is later.
    @inlinable package func since(_ earlier: Instant) -> Span {
        Span(nanoseconds: nanoseconds > earlier.nanoseconds ? nanoseconds - earlier.nanoseconds : 0)
    }

    package static let distantFuture = Instant(nanoseconds: .max)
}

/// A length of time, never negative. One machine word, where `Swift.Duration` is two and slow to add; configuration and messages are in
/// milliseconds, so conversions are offered for those.
package struct Span: Comparable, Hashable, Sendable {
    package var nanoseconds: UInt64

    @inlinable package init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

    @inlinable package static func milliseconds(_ value: UInt64) -> Span {
        let (product, overflow) = value.multipliedReportingOverflow(by: 1_000_000)
        return Span(nanoseconds: overflow ? .max : product)
    }

    @inlinable package static func microseconds(_ value: UInt64) -> Span {
        let (product, overflow) = value.multipliedReportingOverflow(by: 1_000)
        return Span(nanoseconds: overflow ? .max : product)
    }

    @inlinable package static func seconds(_ value: UInt64) -> Span {
        let (product, overflow) = value.multipliedReportingOverflow(by: 1_000_000_000)
        return Span(nanoseconds: overflow ? .max : product)
    }

    package static let zero = Span(nanoseconds: 0)

    @inlinable package var milliseconds: UInt64 { nanoseconds / 1_000_000 }

    @inlinable package static func < (left: Span, right: Span) -> Bool { left.nanoseconds < right.nanoseconds }

    @inlinable package static func + (left: Span, right: Span) -> Span {
        let (sum, overflow) = left.nanoseconds.addingReportingOverflow(right.nanoseconds)
        return Span(nanoseconds: overflow ? .max : sum)
    }

    /// The span times `factor` (not negative). Rounds down; too large becomes the largest.
    package func scaled(by factor: Double) -> Span {
        let product = Double(nanoseconds) * factor
        guard product < Double(UInt64.max) else { return Span(nanoseconds: .max) }
        return Span(nanoseconds: product > 0 ? UInt64(product) : 0)
    }
}

extension Span: CustomStringConvertible {
    package var description: String {
        if nanoseconds % 1_000_000_000 == 0 { return "\(nanoseconds / 1_000_000_000)s" }
        if nanoseconds % 1_000_000 == 0 { return "\(nanoseconds / 1_000_000)ms" }
        return "\(nanoseconds)ns"
    }
}
