import HubBase

/// Spreads a walk over all places of a table evenly over a period, so that no call ever scans the whole: each call is told how many
/// places to look at next.
package struct Patrol {
    private let period: Span
    /// Most places for one call; a walk over a larger table takes longer than its period then.
    private let stepsMax: Int
    private var place = 0
    private var last: Instant
    /// Places times nanoseconds that are owed.
    private var credit: UInt64 = 0

    package init(period: Span, stepsMax: Int, at now: Instant) {
        self.period = period
        self.stepsMax = stepsMax
        self.last = now
    }

    /// How often `next` is to be called now for a table of `count` places.
    package mutating func steps(over count: Int, at now: Instant) -> Int {
        let elapsed = min(now.since(last), period)
        last = max(last, now)
        let (product, overflow) = elapsed.nanoseconds.multipliedReportingOverflow(by: UInt64(count))
        credit = overflow ? .max : credit.addingReportingOverflow(product).partialValue
        let steps = min(credit / max(period.nanoseconds, 1), UInt64(count), UInt64(stepsMax))
        // What the cap left undone isn't owed: the walk only gets longer.
        credit %= max(period.nanoseconds, 1)
        return Int(steps)
    }

    /// The next place to look at in a table that has `count` of them (more than 0) by now.
    package mutating func next(of count: Int) -> Int {
        if place >= count { place = 0 }
        defer { place += 1 }
        return place
    }

    /// The place looked at last was removed and another one put there.
    package mutating func repeatPlace() { place = max(place - 1, 0) }
}
