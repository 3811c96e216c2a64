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
    /// What the opening asked for.
    package var firstStatus = Payload.Status.online
    package var generation: UInt32
    /// Subscriptions that wait for the backplane's answer; they count against the limit.
    package var waiting: Int32
    /// Requests about channels that the backplane hasn't answered yet, subscriptions aside.
    package var unanswered: Int32 = 0
    /// Its user's place in `UserPaces`, once anything was counted there.
    package var account: UserPaces.Place?
    private var basis = Basis.granted
    /// An API key's connection: no user, no presence, no inbox.
    package var isService = false
    /// Its client asked for it: it counts among no channel's members.
    package var isInvisible: Bool
    /// Counts against `limits.connectionsPerUser`.
    package var isCounted: Bool
    private var grants = Grants.none
    /// Empty until authenticated.
    package var user: Name
    /// Empty where the client named none: it's known by `deviceName` then.
    package var device: Name
    /// Counts this node's connections; with the node's incarnation it's the connection's id.
    package var serial: UInt64
    /// Stands in for an absent `channel`.
    package var defaultChannel: Name
    /// Milliseconds since 1970.
    package var since: UInt64
    /// 0: its token has no end, or it has no token.
    package private(set) var tokenEnd: UInt64 = 0
    package var pace: SessionPace
    /// Of its token: when it was issued (milliseconds since 1970), and what is remembered of its id; 0: not said.
    package var tokenIssued: UInt64 = 0
    package var tokenMark: UInt64 = 0
    /// Presence was last told of activity then.
    package var activityTold: Instant

    /// What its rights rest on.
    private enum Basis: UInt8 {
        case everything
        /// Grants of its user's.
        case granted
        case keyWithoutScopes, readingKey, publishingKey, wholeKey
    }

    package init(generation: UInt32, serial: UInt64, since: UInt64, at now: Instant) {
        phase = .anonymous
        format = .json
        self.generation = generation
        isStream = false
        user = .empty
        device = .empty
        self.serial = serial
        defaultChannel = .empty
        isInvisible = false
        waiting = 0
        self.since = since
        pace = SessionPace()
        account = nil
        isCounted = false
        activityTold = now
    }

    /// A token's are its user's: `user` is set to the same one.
    package var rights: Rights {
        get {
            switch basis {
            case .everything: .everything
            case .granted: .token(user, grants)
            case .keyWithoutScopes: .key(reads: false, publishes: false)
            case .readingKey: .key(reads: true, publishes: false)
            case .publishingKey: .key(reads: false, publishes: true)
            case .wholeKey: .key(reads: true, publishes: true)
            }
        }
        set {
            grants = .none
            switch newValue {
            case .everything: basis = .everything
            case .token(_, let granted): (basis, grants) = (.granted, granted)
            case .key(reads: false, publishes: false): basis = .keyWithoutScopes
            case .key(reads: true, publishes: false): basis = .readingKey
            case .key(reads: false, publishes: true): basis = .publishingKey
            case .key(reads: true, publishes: true): basis = .wholeKey
            }
        }
    }

    /// As its rights say. `mutating`, though nothing is changed: who has sessions in an object would ask a copy otherwise, and count a reference for
    /// each of its names; this is asked for each publication.
    package mutating func mayPublish(to channel: Name) -> Bool { rights.mayPublish(to: channel) }

    /// Milliseconds since 1970.
    package var tokenExpires: UInt64? {
        get { tokenEnd == 0 ? nil : tokenEnd }
        set { tokenEnd = newValue ?? 0 }
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
