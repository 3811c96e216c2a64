import HubBase
import HubCore
import HubNet
import HubWire

/// One loop's counts since start. The loop owns them and copies them out a few times a second; nothing is shared on the way of a message.
struct LoopNumbers: Sendable {
    var net = NetCounters()
    var connections = 0
    /// The loop has begun to close them all, and takes no more.
    var isStopping = false
    var sessions = 0
    var subscriptions = 0
    var channels = 0
    var watched = 0
    var deliveries: UInt64 = 0
    /// Publications taken from clients and the HTTP API, by class.
    var publications: [UInt64] = [UInt64](repeating: 0, count: MessageClass.allCases.count)
    /// Refusals sent, by code.
    var refusals: [UInt64] = [UInt64](repeating: 0, count: ErrorCode.allCases.count)
    var resyncs: UInt64 = 0
    /// `typing` that said nothing new, acknowledged and not handed on.
    var typingThrottled: UInt64 = 0
    /// Those who stopped typing without saying so, as far as this loop's subscribers are concerned.
    var typingExpired: UInt64 = 0
    var authenticationFailures: UInt64 = 0
    /// Refusals by a rate.
    var rateLimited: [UInt64] = [UInt64](repeating: 0, count: RateLimit.allCases.count)
    /// What was reported of users' spending.
    var rateReports: UInt64 = 0
    /// Refusals by kind.
    var security: [UInt64] = [UInt64](repeating: 0, count: SecurityEvent.allCases.count)
    /// Connections closed for flooding.
    var floods: UInt64 = 0
    /// Connections closed, or not opened, by `limits.connectionsPerUser`.
    var refusedByUser: UInt64 = 0
    /// Subscriptions and watchings that ended because the right to them did.
    var rightsLost: UInt64 = 0
    /// Connections closed by an operator's word.
    var revokedClosed: UInt64 = 0
    /// Open streams of events; they're among the sessions.
    var streams = 0
    /// Posts to streams that this loop answered, by what became of them.
    var streamPosts: [UInt64] = [UInt64](repeating: 0, count: StreamPostOutcome.allCases.count)
    /// Presence changes that were written to watchers, by how old their causes were.
    var staleness = StalenessNumbers()
    /// WebSockets that weren't opened because too many came at once.
    var turnedAway: UInt64 = 0
}

struct BackplaneNumbers: Sendable {
    var linkUp = false
    var storeFull = false
    var received: UInt64 = 0
    var resyncs: UInt64 = 0
    var presenceChanges: UInt64 = 0
    var swept: UInt64 = 0
    var falseOfflines: UInt64 = 0
    /// Typing that was fanned out locally while the broker was away.
    var localOnly: UInt64 = 0
    var probesFailed: UInt64 = 0
    /// Subscribers with a position, by what became of it.
    var recovery = RecoveryMachine.Numbers()
    /// What channels remember for those who come back, in bytes.
    var recoveryBytes = 0
    /// Posts that were passed on to other nodes, and such that came from them.
    var postsForwarded: UInt64 = 0
    var postsReceived: UInt64 = 0
    /// Messages on the node's control channel that it couldn't read.
    var controlForeign: UInt64 = 0
    /// Channels that got a new epoch because what this node acknowledged was taken back; and acknowledged places that couldn't be remembered.
    var channelsRenewed: UInt64 = 0
    var acknowledgementsForgotten: UInt64 = 0
    /// When the log told of the last of them.
    var renewalTold: Instant?
    var hooks = HookNumbers()
    /// Events that wait in the partitions that this node delivers, and how long the oldest does.
    var hookBacklog: (length: Int, oldest: Span) = (0, .zero)
    var revocations = 0
    var members = MembersMachine.Numbers()
}
