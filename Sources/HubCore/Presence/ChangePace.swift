import HubBase

/// How fast one connection is told of presence: as changes come, until there are more than 200 a second, then once a second, until there
/// aren't any more (redis-design, Watching). Who takes note of so many people can't look at ten messages a second.
package struct ChangePace {
    private var second: Instant
    private var count = 0
    /// Changes wait for the second's message.
    package private(set) var isSlow = false

    /// Changes of one second above which they're collected.
    package static let changesMax = 200
    package static let second = Span.seconds(1)

    package init(at now: Instant) { second = now }

    /// So many more changes are due. True: they may be told now.
    package mutating func admits(_ changes: Int, at now: Instant) -> Bool {
        if !isSlow {
            if now.since(second) >= ChangePace.second {
                second = now
                count = 0
            }
            count += changes
            isSlow = count > ChangePace.changesMax
        }
        return !isSlow
    }

    /// The second's message is told, with so many changes. A quiet second ends it.
    package mutating func told(_ changes: Int, at now: Instant) {
        second = now
        count = changes
        isSlow = changes > ChangePace.changesMax
    }
}
