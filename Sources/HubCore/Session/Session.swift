import HubBase
import HubWire

/// What a node knows of one WebSocket connection, or stream of events, beyond its socket. A value: the gateway's loop feeds it requests and the time.
package struct Session: Sendable {
    package enum Phase: UInt8, Sendable {
        /// No token yet; only `connect` and `ping` are served.
        case anonymous
        /// Authenticated; its first subscriptions are being made. Requests wait until the welcome has left.
        case opening
        case open
        /// Open, but its latest request is for a channel whose subscription isn't confirmed yet: it and all later ones wait, so that
        /// "subscribe, publish, unsubscribe" in one write happen in that order.
        case held
        /// Asked to go: what still comes in is ignored.
        case leaving
    }

    package var phase: Phase
    /// What it speaks: chosen in the opening handshake, for good.
    package var format: WireFormat
    /// Hears by server-sent events, speaks by posts.
    package var isStream: Bool
    package var generation: UInt32
    package var rights: Rights
    /// Empty until authenticated.
    package var user: Name
    package var device: Name
    /// Counts this node's connections; with the node's incarnation it's the connection's id.
    package var serial: UInt64
    /// Stands in for an absent `channel`.
    package var defaultChannel: Name
    /// An API key's connection: no user, no presence, no inbox.
    package var isService: Bool
    /// Its client asked for it: it counts among no channel's members.
    package var isInvisible: Bool
    /// Subscriptions that wait for the backplane's answer; they count against the limit.
    package var waiting: Int
    /// Milliseconds since 1970.
    package var since: UInt64
    package var tokenExpires: UInt64?
    package var bucket: TokenBucket
    /// Presence was last told of activity then.
    package var activityTold: Instant

    package init(generation: UInt32, serial: UInt64, since: UInt64, at now: Instant) {
        phase = .anonymous
        format = .json
        self.generation = generation
        isStream = false
        rights = .user(.empty)
        user = .empty
        device = .empty
        self.serial = serial
        defaultChannel = .empty
        isService = false
        isInvisible = false
        waiting = 0
        self.since = since
        bucket = TokenBucket(full: now)
        activityTold = now
    }

    package var isWelcomed: Bool { phase == .open || phase == .held }

    /// Whether a request of that type is served now: authentication first, then the rate. nil when it is.
    package mutating func judge(_ type: RequestType, limits: Configuration.Limits, at now: Instant) -> WireError? {
        if phase == .anonymous && type != .connect && type != .ping {
            return WireError(.unauthenticated, "send {\"type\":\"connect\",\"token\":…} first: this connection isn't authenticated yet")
        }
        if let wait = bucket.take(rate: limits.messagesPerSecond, burst: limits.messageBurst, at: now) {
            return WireError(
                .rateLimited, "more than \(limits.messagesPerSecond) messages a second (limits.messagesPerSecond)",
                retryAfter: max(wait.milliseconds, 1))
        }
        return nil
    }

    /// True when presence should hear of this activity: at most eight times in `awayAfter`, and at once after a pause that long.
    package mutating func tellsActivity(awayAfter: Span, at now: Instant) -> Bool {
        guard now.since(activityTold).nanoseconds >= awayAfter.nanoseconds / 8 else { return false }
        activityTold = now
        return true
    }
}

extension RequestType {
    /// Must not overtake a `subscribe` of the same channel that was sent before it.
    package var isOrderedByChannel: Bool {
        switch self {
        case .chat, .event, .typing, .read, .history, .members, .unsubscribe: true
        default: false
        }
    }

    /// What counts as the user being there (protocol, presence rules).
    package var isActivity: Bool {
        switch self {
        case .chat, .event, .typing, .read, .presence: true
        default: false
        }
    }
}
