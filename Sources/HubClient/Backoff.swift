import HubBase

/// How long to wait before the next attempt: exponential windows with a cap, and full jitter, that is uniform from zero, because equal
/// or half-jittered waits keep a herd together (docs/decisions/0060).
package struct Backoff: Sendable, Equatable {
    package var first: Span = .seconds(1)
    package var cap: Span = .seconds(30)
    /// The first window after an end that says "come back at once".
    package var soon: Span = .milliseconds(250)

    package init() {}

    /// The window of the attempt after `failures` failures in a row.
    package func window(_ failures: Int, from first: Span) -> Span {
        let doublings = min(max(failures, 0), 40)
        let (product, overflow) = first.nanoseconds.multipliedReportingOverflow(by: 1 << UInt64(doublings))
        return overflow ? cap : min(Span(nanoseconds: product), cap)
    }

    /// nil when the rule isn't one of waiting.
    package func delay(_ rule: ReconnectRule, failures: Int, chance: inout Chance) -> Span? {
        switch rule {
        case .never: nil
        case .renewToken, .soon: jitter(window(failures, from: soon), &chance)
        case .backoff: jitter(window(failures, from: first), &chance)
        case .after(let hint): hint + jitter(min(hint.scaled(by: 0.1), cap) + soon, &chance)
        case .backoffNotBefore(let hint): hint + jitter(window(failures, from: first), &chance)
        }
    }

    private func jitter(_ window: Span, _ chance: inout Chance) -> Span { chance.span(in: .zero..<window) }
}
