import HubBase
import HubCore
import HubNet
import HubToken
import HubWire

/// One loop's gateway: the sessions, channels and watched users of the connections that landed on it.
///
/// A shell around the values of HubCore: it reads envelopes, asks the values, and carries out. Everything here happens on the loop's
/// thread; what other threads must do goes out through `outbox` and comes back through the mailbox.
final class GatewayLoop {
    let number: Int
    let net: NetLoop
    let node: NodeIdentity
    let state: NodeState
    let log: Log
    var configuration: Configuration
    var tokens: TokenVerifier
    /// Of the key set that tokens are checked with beside the configuration's own keys.
    var keySet: [TokenKey] = []
    /// Set before the loop's thread begins.
    var keySetReader: KeySetReader?
    /// What the namespaces' rules grant, and what tokens granted: one of each for all connections that have the same.
    var rules: Grants
    var grantsKnown: Set<Grants> = []
    var grantsLimit = 1024
    /// Of all nodes, as the backplane tells them.
    var revocations = RevocationList()
    var apiKeys: APIKeyVerifier
    var chance: Chance
    var origins: OriginList
    var paces: Paces
    var userPaces: UserPaces
    /// Of the API key whose request is being looked at.
    var callingKey: KeyPaces.Pace?

    // Connections, by index.
    var sessions: [Session] = []
    var kinds: [ConnectionKind] = []
    /// Of those that were asked for theirs.
    var addressPaces: [AddressPace?] = []
    /// Messages that came before the welcome had left.
    var early: [UInt32: EarlyMessages] = [:]
    /// When the message came that is handled only now; nil: now.
    var replayed: Instant?
    /// The `connect` that is acknowledged once the welcome has left.
    var connectRequests: [UInt32: RequestID] = [:]
    /// Of streams that aren't welcomed yet: where in its default channel the client stands.
    var resumePositions: [UInt32: Position] = [:]
    /// Of connections that aren't open yet: the channels that their tokens name.
    var claimedChannels: [UInt32: [Name]] = [:]
    /// By connection: the warning of its token's end, or the end itself.
    var tokenTimers: [TimerID?] = []
    let streamKeys: StreamKeys

    // Channels.
    var channels: Registry
    var channelStates: [ChannelState] = []
    var batches = Slab<SubscribeBatch>()
    var joinings = Slab<Joining>()
    /// By connection: its keys in `joinings`; the places of channels whose history it is still catching up with.
    var joiningOf: [UInt32: ConnectionJoinings] = [:]
    var catchingUp: [UInt32: Set<Int>] = [:]
    /// Bytes of pages that are on their way: by connection; and of those that `history` brings, for all.
    var promised: [UInt32: Int] = [:]
    var historyUnderWay = 0
    var pagesWritten: [(connection: ConnectionID, bytes: Int)] = []
    /// Of connections whose queue has no room for the page that they asked for: when it's looked at next.
    var roomDelays: [UInt32: Span] = [:]

    // Who types.
    var typingThrottle: TypingThrottle
    var typingBoard: TypingBoard
    var isTypingTimed = false
    var isHeldTypingTimed = false

    // Channels whose members are followed.
    var followed: Registry
    /// By place: those who wait to follow.
    var followInterest: [Int: Int] = [:]

    // Watched users.
    var watched: Registry
    var changesWaiting: [PresenceChange] = []
    /// When what waits was caused.
    var causesWaiting: [PresenceCauseTime] = []
    /// By connection: how fast it's told, and what it isn't told yet, by the user's place.
    var changePaces: [UInt32: ChangePace] = [:]
    var changesHeld: [UInt32: [Int: PresenceChange]] = [:]
    /// For a flush of presence: who is told what.
    var watcherScratch: [UInt64] = []

    // What a backend is asked.
    /// Set before the loop's thread begins.
    var asker: AskShell?
    var asks = Slab<Asking>()
    /// By connection: questions that keep it waiting; publications about which there are some; a token that the backend is to check.
    var askingCounts: [UInt32: Int] = [:]
    var askLines: [UInt32: AskLine] = [:]
    var tokensShown: [UInt32: Secret] = [:]
    /// In which channels, and about what at all.
    var askRules = Grants.none
    var asksOfChannels: Permissions = []

    var pending = Slab<Pending>()
    var publishBatches = Slab<PublishBatch>()
    var outbox: [BackplaneMessage] = []
    var inbox: [LoopMessage] = []
    let mailbox = Mailbox<LoopMessage>()
    let backplaneMailbox: Mailbox<BackplaneMessage>
    let backplaneWaker: LoopWaker
    /// Set when the backplane lives on this loop: then it takes its turn inside ours.
    var backplane: Backplane?

    var numbers = LoopNumbers()
    var numbersToldAt = Instant(nanoseconds: 0)
    var refusalsTold: UInt64 = 0
    var securityLimiters = [LogLimiter](repeating: LogLimiter(), count: SecurityEvent.allCases.count)
    var wallClock: UInt64 = 0
    var wallClockTurn = Instant(nanoseconds: 0)
    var health: NodeHealth = .up
    var isStopping = false
    /// Scratch for names with escapes and for encoding.
    var scratch = ByteBuffer(capacity: 4096)

    init(
        number: Int, net: NetLoop, node: NodeIdentity, state: NodeState, log: Log, configuration: Configuration, seed: UInt64,
        streamKeys: StreamKeys, backplaneMailbox: Mailbox<BackplaneMessage>, backplaneWaker: LoopWaker
    ) {
        self.number = number
        self.net = net
        self.node = node
        self.state = state
        self.log = log
        self.configuration = configuration
        origins = OriginList(configuration.origins)
        paces = Paces(configuration.limits)
        userPaces = UserPaces(configuration.limits)
        tokens = TokenVerifier(configuration)
        rules = Grants.rules(configuration)
        apiKeys = APIKeyVerifier(keys: configuration.apiKeys)
        typingThrottle = TypingThrottle(throttle: configuration.typing.throttle, expire: configuration.typing.believed)
        typingBoard = TypingBoard(expire: configuration.typing.believed)
        var chance = Chance(seed: seed)
        channels = Registry(seed: chance.next())
        watched = Registry(seed: chance.next())
        followed = Registry(seed: chance.next())
        self.chance = chance
        self.streamKeys = streamKeys
        self.backplaneMailbox = backplaneMailbox
        self.backplaneWaker = backplaneWaker
        adoptAsks()
    }

    enum ConnectionKind: UInt8 {
        case none, session, echo
        /// Opened only to be told when to come back.
        case turnedAway
    }

    enum TimerKind: UInt32 {
        case presenceFlush = 1
        case tokenExpiry = 2
        case typing = 3
        case userConnections = 4
        case tokenWarning = 10
        case presencePace = 5
        case heldTyping = 6
        case room = 7
    }

    /// The wall clock, read once a turn at most.
    func wallMilliseconds() -> UInt64 {
        if wallClockTurn != net.now || wallClock == 0 {
            wallClock = WallClock.milliseconds()
            wallClockTurn = net.now
        }
        return wallClock
    }

    func tag(_ key: UInt64) -> RequestTag { RequestTag(high: UInt64(number), low: key) }
}

extension GatewayLoop: LoopHandler {
    func woken() { takeMail() }

    func timerFired(kind: UInt32, value: UInt64) {
        switch TimerKind(rawValue: kind) {
        case .presenceFlush: flushPresence()
        case .tokenExpiry: tokenEnding(ConnectionID(packed: value))
        case .tokenWarning: tokenWarning(ConnectionID(packed: value))
        case .typing: typingTimePassed()
        case .heldTyping: heldTypingIsDue()
        case .userConnections: askForConnections(ConnectionID(packed: value))
        case .presencePace: flushHeldPresence()
        case .room: lookForRoom(ConnectionID(packed: value))
        case nil: break
        }
    }

    func turnEnding() {
        // With the backplane on this loop a publication goes all the way within one turn. Mail that our own mail causes is taken too, a
        // few times; what still comes then waits for the next turn, so that one busy pair can't keep the sockets from being served.
        var rounds = 0
        forgetPagesWritten()
        repeat {
            postOutbox()
            backplane?.turn(at: net.now)
            takeMail()
            rounds += 1
        } while backplane != nil && !outbox.isEmpty && rounds < 4
        if !outbox.isEmpty {
            postOutbox()
            net.wake()
        }
        if net.now.since(numbersToldAt) >= .milliseconds(200) { tellNumbers() }
    }

    private func postOutbox() {
        guard !outbox.isEmpty else { return }
        backplaneMailbox.post(contentsOf: &outbox)
        if backplane == nil { backplaneWaker.wake() }
    }

    private func takeMail() {
        mailbox.take(into: &inbox)
        guard !inbox.isEmpty else { return }
        for message in inbox { receive(message) }
        inbox.removeAllForReuse()
    }

    func tellNumbers() {
        numbersToldAt = net.now
        numbers.net = net.counters
        numbers.connections = net.connectionCount
        numbers.channels = channels.count
        numbers.watched = watched.count
        state.report(numbers, of: number)
        logRefusals()
    }

    /// One line a second at most for the whole node, with its totals, however many clients are turned away.
    private func logRefusals() {
        let refusals = numbers.net.refused + numbers.turnedAway
        guard refusals > refusalsTold else { return }
        refusalsTold = refusals
        let loops = state.loopNumbers
        log.limited(
            .warning, "connections.refused", perSecond: 1, at: net.now,
            [
                "refusedInAll": loops.reduce(0) { $0 + $1.net.refused }, "byAddress": loops.reduce(0) { $0 + $1.net.refusedByAddress },
                "byAddressPace": loops.reduce(0) { $0 + $1.net.refusedByAddressPace },
                "turnedAwayInAll": loops.reduce(0) { $0 + $1.turnedAway },
                "outOfDescriptors": loops.reduce(0) { $0 + $1.net.outOfDescriptors },
                "connections": net.limits.connections.inUse, "limit": net.limits.connections.limit,
            ])
    }

    private func receive(_ message: LoopMessage) {
        switch message {
        case .published(let result, let tag): published(result, tag: tag)
        case .readMoved(let result, let tag): readMoved(result, tag: tag)
        case .joined(let result, let tag): joined(result, tag: tag)
        case .historyRead(let channel, let result, let tag): historyRead(channel, result, tag: tag)
        case .durable(let delivery): deliver(delivery)
        case .ephemeral(let publication, let channel): deliver(publication, channel: channel)
        case .resync(let channel, let position, let reason): resync(channel, to: position, reason: reason)
        case .statusSet(let result, let tag): statusSet(result, tag: tag)
        case .watched(let changes, let isStale, let tag): watchAnswered(changes, isStale: isStale, tag: tag)
        case .presence(let changes): presenceChanged(changes)
        case .followed(let pages, let tag): followed(pages, tag: tag)
        case .members(let change): membersChanged(change.value)
        case .membersPage(let result, let channel, let tag): membersPage(result.value, channel, tag: tag)
        case .probe(let id, let connection): probe(ConnectionID(packed: id), connection: connection)
        case .presenceRead(let result, let isStale, let tag): presenceRead(result, isStale: isStale, tag: tag)
        case .inspected(let result, let isStale, let tag): inspected(result, isStale: isStale, tag: tag)
        case .explained(let result, let isStale, let tag): explained(result, isStale: isStale, tag: tag)
        case .look(let id, let connection, let origin): outbox.append(.looked(look(ConnectionID(packed: id), connection), origin))
        case .nodes(let result, let tag): nodesListed(result, tag: tag)
        case .post(let post, let origin): outbox.append(.postAnswered(take(post), origin))
        case .postAnswered(let outcome, let tag): postAnswered(outcome, tag: tag)
        case .settled(let result, let tag): settled(result, tag: tag)
        case .nodeCount(let count): userPaces.change(nodes: count)
        case .health(let health): healthChanged(health)
        case .asked(let reply, let tag): asked(reply.value, tag: tag)
        case .revoked(let revocations, let isLive): revoked(revocations, isLive: isLive)
        case .reconfigured(let configuration):
            reconfigure(configuration)
            state.adopted()
        case .keySet(let keys):
            keySet = keys
            tokens = TokenVerifier(configuration, and: keys)
        case .secured(let tls): net.tls = tls
        case .shutDown: shutDown()
        }
    }
}

extension ConnectionID {
    /// Both halves in one word, for timers and messages.
    var packed: UInt64 { UInt64(generation) << 32 | UInt64(index) }

    init(packed: UInt64) {
        self.init(index: UInt32(truncatingIfNeeded: packed), generation: UInt32(truncatingIfNeeded: packed >> 32))
    }
}
