import HubBase

/// When to try again: from 50 ms, doubled each time up to 2 s, each with full-range jitter of its upper half, so that many nodes don't
/// come back in the same instant (redis-design §5).
package struct Backoff {
    package static let first: Span = .milliseconds(50)
    package static let largest: Span = .seconds(2)
    /// A link that held this long was a good one: start from `first` again.
    package static let settled: Span = .seconds(2)

    private var next = Backoff.first

    package init() {}

    package mutating func delay(_ chance: inout Chance) -> Span {
        let current = next
        next = min(Span(nanoseconds: current.nanoseconds * 2), Backoff.largest)
        return chance.span(in: Span(nanoseconds: current.nanoseconds / 2)..<current)
    }

    package mutating func reset() { next = Backoff.first }
}
