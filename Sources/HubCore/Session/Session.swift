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
        /// Open, but its latest request is for a channel whose subscription isn't confirmed yet, or one that would be answered before
        /// those that were sent before it: it and all later ones wait, so that "subscribe, publish, unsubscribe" in one write happen, and
        /// are acknowledged, in that order.
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
    /// What the opening asked for.
    package var firstStatus = Payload.Status.online
    /// An API key's connection: no user, no presence, no inbox.
    package var isService: Bool
    /// Its client asked for it: it counts among no channel's members.
    package var isInvisible: Bool
    /// Subscriptions that wait for the backplane's answer; they count against the limit.
    package var waiting: Int
    /// Requests about channels that the backplane hasn't answered yet, subscriptions aside.
    package var unanswered = 0
    /// Milliseconds since 1970.
    package var since: UInt64
    package var tokenExpires: UInt64?
    package var pace: SessionPace
    /// Its user's place in `UserPaces`, once anything was counted there.
    package var account: UserPaces.Place?
    /// Counts against `limits.connectionsPerUser`.
    package var isCounted: Bool
    /// Of its token: when it was issued (milliseconds since 1970), and what is remembered of its id; 0: not said.
    package var tokenIssued: UInt64 = 0
    package var tokenMark: UInt64 = 0
    /// Presence was last told of activity then.
    package var activityTold: Instant

    package init(generation: UInt32, serial: UInt64, since: UInt64, at now: Instant) {
        phase = .anonymous
        format = .json
        self.generation = generation
        isStream = false
        rights = .token(.empty, .none)
        user = .empty
        device = .empty
        self.serial = serial
        defaultChannel = .empty
        isService = false
        isInvisible = false
        waiting = 0
        self.since = since
        pace = SessionPace()
        account = nil
        isCounted = false
        activityTold = now
    }

    package var isWelcomed: Bool { phase == .open || phase == .held }

    /// Whether a request of that type is served now: the rates first, since whatever comes counts, then authentication. nil when it is.
    package mutating func judge(_ type: RequestType, bytes: Int, paces: Paces, at now: Instant) -> Refusal? {
        if let refusal = pace.message(bytes: bytes, paces, at: now) { return refusal }
        if phase == .anonymous && type != .connect && type != .ping {
            return Refusal(
                WireError(.unauthenticated, "send {\"type\":\"connect\",\"token\":…} first: this connection isn't authenticated yet"))
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

    /// Can be answered without the broker, and so before an earlier request about the same channel (`typing` only where an ack is asked for).
    package var isAnsweredAtOnce: Bool {
        switch self {
        case .subscribe, .unsubscribe, .typing: true
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
