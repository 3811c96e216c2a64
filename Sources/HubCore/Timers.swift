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
    /// How long after a user's last transition its trail is kept, for explain; zero: there's none.
    package var explainTTL: Span = .seconds(86_400)

    /// How exactly clients are told when somebody was seen last; zero: to the millisecond.
    package var lastSeenStep: Span = .zero

    package init() {}

    /// `moment` (milliseconds since 1970) as clients are told it.
    package func told(_ moment: UInt64) -> UInt64 {
        let step = lastSeenStep.milliseconds
        return step > 1 ? moment - moment % step : moment
    }

    /// For how long what a node said of a channel's members may hold: its lease, or the grace of those whom a node that stopped has left.
    package var longestInChannels: Span { max(lease, grace) }

    /// For how long what a node says of a channel's members holds.
    package func lease(as role: MemberRole) -> Span {
        switch role {
        case .host, .observer: lease
        case .leaving(let span): min(span, longestInChannels)
        }
    }

    /// How often channels are looked through for members of dead nodes: nine times within the longest gap, as sweeps for users at least are.
    package var memberSweepInterval: Span { max(.milliseconds(1), gapMax.scaled(by: 0.1)) }

    /// How long one of several nodes waits between its own sweeps: the more, the rarer, but never so rarely that, were all others to go at once, the
    /// one that's left would find that nobody swept for longer than the longest gap, and take nobody for dead for a hold.
    package func pauses(between interval: Span, nodes: Int) -> Range<Span> {
        let pace = min(interval.scaled(by: Double(max(2, nodes))), gapMax.scaled(by: 0.6))
        return pace.scaled(by: 0.5)..<pace.scaled(by: 1.5)
    }

    /// Within how many milliseconds of its beginning a channel's sequence of members begins.
    package var sequenceStep: UInt64 { max(1, lastSeenStep.milliseconds) }
    /// What versions are rounded down to, in microseconds.
    package var versionStep: UInt64 { max(1, lastSeenStep.nanoseconds / 1_000) }
}

/// Whom a client may watch, unless its token says more.
package enum WatchRule: String, Sendable, CaseIterable {
    case everyone
    /// Those whom the connection's rights cover.
    case listed
    /// Itself alone.
    case nobody
}

/// Whether a namespace's channels know who is in them.
package struct MembersOptions: Sendable, Equatable {
    package var isOn = true
    /// Above it only how many there are is told.
    package var threshold = 200

    package init() {}
}

/// What a namespace keeps, and who may use it.
package struct HistoryOptions: Sendable, Equatable {
    /// Publications kept for each channel; 0: none.
    package var size: Int = 100
    package var ttl: Span = .seconds(3600)
    /// How long a message id is remembered.
    package var dedup: Span = .seconds(600)
    /// What users may do in its channels whose tokens say nothing of it.
    package var rights: Permissions = []
    /// For which of them the backend is asked as well (docs/ask.md): `subscribe`, `publish`.
    package var asks: Permissions = []
    package var members = MembersOptions()

    package init() {}
}
