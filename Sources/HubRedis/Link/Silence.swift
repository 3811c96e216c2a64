import HubBase

/// When a link counts as dead: it brings nothing for `after` while an answer is owed, or brings other things only for `atMost`.
///
/// A link on which answers keep coming is alive, however long its queue: to drop it would make everybody load scripts and subscribe anew just
/// when Redis, or this node, has no time for it (decision 0315).
package struct Silence {
    package var after: Span
    /// Who is served at all isn't kept waiting for longer: something on the way may give one kind of answers only.
    package static let atMost: Span = .seconds(15)

    package init(after: Span) { self.after = after }

    /// - Parameters:
    ///   - asked: when the oldest of the owed answers was asked for.
    ///   - heard: when anything came last.
    /// - Returns: what has passed without an answer, for the words; nil: the link is alive.
    package func exceeded(asked: Instant, heard: Instant, at now: Instant) -> Span? {
        let waited = now.since(asked)
        if waited >= Silence.atMost { return Silence.atMost }
        return waited >= after && now.since(heard) >= after ? after : nil
    }
}
