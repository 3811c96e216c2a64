import HubBase

/// The timers of presence, with their relations (redis-design, Timers). `Configuration` fills it; `problems` is asked at start.
package struct PresenceTimers: Sendable, Equatable {
    package var heartbeat: Span = .seconds(30)
    package var lease: Span = .seconds(75)
    package var userTTL: Span = .seconds(300)
    package var grace: Span = .seconds(10)
    package var sweepInterval: Span = .milliseconds(500)
    package var gapMax: Span = .seconds(10)
    package var hold: Span = .seconds(40)
    package var awayAfter: Span = .seconds(300)
    package var tombstoneTTL: Span = .seconds(7 * 86_400)

    package init() {}
}

/// Whether a namespace's channels know who is in them.
package struct MembersOptions: Sendable, Equatable {
    package var isOn = true
    /// Above it only how many there are is told.
    package var threshold = 200

    package init() {}
}

/// What a namespace keeps.
package struct HistoryOptions: Sendable, Equatable {
    /// Publications kept for each channel; 0: none.
    package var size: Int = 100
    package var ttl: Span = .seconds(3600)
    /// How long a message id is remembered.
    package var dedup: Span = .seconds(600)
    package var members = MembersOptions()

    package init() {}
}
