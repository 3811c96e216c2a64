import HubBase
import HubCore
import HubNet
import HubWire

/// Joins the node's loops to the broker and the presence store: takes what loops ask, hands out what channels carry, keeps presence.
///
/// Lives on one loop: with Redis on a loop of its own, embedded on the first gateway loop (a publication then goes all its way in one
/// turn). It holds no decision of its own beyond who gets what: those are the broker's, the store's and the presence machine's.
final class Backplane {
    let node: NodeIdentity
    let state: NodeState
    let log: Log
    let broker: any Broker
    let store: any PresenceStore
    let rates: any RateStore
    let hooks: HookShell
    let memberStore: any MemberStore
    var machine: PresenceMachine
    /// Who is in which channel.
    let members: MembersMachine
    /// The turn's time; the delegates' calls have none of their own.
    var now: Instant

    let mailbox: Mailbox<BackplaneMessage>
    var mail: [BackplaneMessage] = []
    private let loops: [(mailbox: Mailbox<LoopMessage>, waker: LoopWaker)]
    private var outgoing: [[LoopMessage]]

    /// What channels are carried, for whom, and what those who come back to them missed.
    let recovery: RecoveryMachine

    var numbers = BackplaneNumbers()
    var health = HealthMachine()
    var revocations: RevocationKeeper
    let revocationChannel = RevocationKeeper.channel
    /// Where revocations are written before they count as said; the embedded node's with a snapshot.
    var journal: RevocationJournal?
    /// What it isn't asked about now is told to other nodes. Set before the thread begins.
    var asker: AskShell?
    /// Posts for streams of other loops and nodes.
    var exchange: PostExchange
    /// Explanations that are being put together, and what other nodes are asked for them.
    var explaining: [UInt64: Explaining] = [:]
    var lastExplaining: UInt64 = 0
    var inquiries = ConnectionInquiries()
    /// What a post may hold (limits.messageBytes), whoever sends it.
    var postBytesMax: Int
    /// log.personal
    var logsPersonal = true
    private var tickedAt = Instant(nanoseconds: 0)
    /// When the stores were up last, or the node didn't stop yet.
    private var storeUpAt = Instant(nanoseconds: 0)
    /// Loops that sit on the same thread as we do need no wake.
    let ownLoop: Int?
    private var hasStopped = false
    /// As the loops know it.
    private var nodeCount = 1

    /// A node that stops waits so long for stores that are away: links that were lost are mostly back by then.
    private static let leavingPatience: Span = .seconds(3)

    /// The `high` word of tags: loops use their number, the machine and we our own.
    static let machineTags: UInt64 = 1 << 32
    static let probeTag = RequestTag(high: 1 << 33, low: 1)
    static let feedTags: UInt64 = 1 << 34
    static let historyTags: UInt64 = 1 << 35
    static let markTags: UInt64 = 1 << 36
    static let controlTags: UInt64 = 1 << 37
    static let memberTags: UInt64 = 1 << 38
    static let revocationTags: UInt64 = 1 << 39
    static let revocationTag = RequestTag(high: revocationTags, low: 0)
    static let revocationCheckTag = RequestTag(high: revocationTags, low: 1)
    static let explainTags: UInt64 = 1 << 45
    static let inquiryTags: UInt64 = 1 << 46
    static let loopsMax = 64

    init(
        node: NodeIdentity, state: NodeState, log: Log, broker: any Broker, store: any PresenceStore, rates: any RateStore,
        memberStore: any MemberStore, hooks: HookShell,
        timers: PresenceTimers,
        recovery: RecoveryMachine.Limits, namespaces: [String: HistoryOptions], postBytesMax: Int, chance: Chance,
        mailbox: Mailbox<BackplaneMessage>,
        loops: [(mailbox: Mailbox<LoopMessage>, waker: LoopWaker)], ownLoop: Int?,
        at now: Instant
    ) {
        self.node = node
        self.state = state
        self.log = log
        self.broker = broker
        self.store = store
        self.rates = rates
        self.hooks = hooks
        self.memberStore = memberStore
        self.mailbox = mailbox
        self.loops = loops
        self.ownLoop = ownLoop
        self.postBytesMax = postBytesMax
        // The embedded broker, on a gateway loop, knows of no other node.
        exchange = PostExchange(isAlone: ownLoop != nil)
        self.now = now
        self.recovery = RecoveryMachine(limits: recovery)
        self.recovery.setNamespaces(namespaces)
        revocations = RevocationKeeper(at: now)
        outgoing = [[LoopMessage]](repeating: [], count: loops.count)
        machine = PresenceMachine(
            timers: timers, node: node.name, incarnation: node.incarnation, tagSpace: Backplane.machineTags, chance: chance, at: now)
        var chance = chance
        members = MembersMachine(
            timers: timers, node: node.incarnation, tagSpace: Backplane.memberTags, chance: Chance(seed: chance.next()))
        members.setNamespaces(namespaces)
        self.recovery.occupancy = { [members] in members.occupancy(of: $0) }
        machine.followsUsers = store.followsUsers
        broker.delegate = self
        store.delegate = self
        rates.delegate = self
        memberStore.delegate = self
    }

    func start(at now: Instant) {
        self.now = now
        broker.start(at: now)
        store.start(at: now)
        memberStore.start(at: now)
    }

    /// Takes mail, lets broker, store and machine do what is due, and posts what loops are to get.
    func turn(at now: Instant) {
        guard !hasStopped else { return }
        self.now = now
        mailbox.take(into: &mail)
        for message in mail { receive(message) }
        mail.removeAllForReuse()
        if now.since(tickedAt) >= .milliseconds(20) {
            tickedAt = now
            machine.tick(at: now)
            countNodes()
            carryOut(revocations.tick(at: now, wall: WallClock.milliseconds()))
            members.storeSilence(memberStore.isSilent(for: MembersMachine.silence, at: now), at: now)
            members.tick(at: now)
            if machine.isUp || !members.isLeaving { storeUpAt = now }
            let isAway = now.since(storeUpAt) >= Backplane.leavingPatience
            state.hasLeft = members.isLeaving && (isAway || members.hasLeft && machine.hasToldEnds)
            watchHealth()
            recovery.tick(at: now)
            carryOutRecovery()
            numbers.recovery = recovery.numbers
            numbers.recoveryBytes = recovery.bytes
            numbers.acknowledgementsForgotten = broker.forgottenAcknowledgements
            advanceExchange()
            hooks.tick(nodes: machine.nodes.count, at: now)
            numbers.hooks = hooks.numbers
            numbers.hookBacklog = hooks.backlog(at: now)
            advanceInquiries()
            state.storeClockOffset = store.clockOffset
            numbers.falseOfflines = machine.falseOfflines
            state.report(numbers)
        }
        carryOutPresence()
        carryOutMembers()
        broker.advance(at: now)
        store.advance(at: now)
        rates.advance(at: now)
        memberStore.advance(at: now)
        carryOutPresence()
        carryOutMembers()
        flush()
    }

    /// Within a turn, so that what it writes leaves at the turn's end.
    private func stop(at now: Instant) {
        guard !hasStopped else { return }
        hasStopped = true
        if hooks.stop(at: now) {
            // They'd find it out by the next announcement otherwise.
            let message = ControlMessage.hooksLetGo(from: node.incarnation).bytes()
            for other in machine.nodes where other.incarnation != node.incarnation {
                broker.send(message, to: other.incarnation, tag: .none, at: now)
            }
        }
        broker.stop(at: now)
        store.stop(at: now)
        memberStore.stop(at: now)
    }

    /// A node that is cut off goes by what it knew last.
    private func countNodes() {
        let count = max(machine.nodes.count, 1)
        guard count != nodeCount else { return }
        nodeCount = count
        postToAll(.nodeCount(count))
    }

    // MARK: From loops

    private func receive(_ message: BackplaneMessage) {
        switch message {
        case .publish(let publication, let channel, let attempt, let tag):
            if let journal, isOfRevocations(channel), write(publication, into: journal, tag: tag) { return }
            broker.publish(publication, to: channel, attempt: attempt?.value, tag: tag, at: now)
        case .journaled(let entries, let error): journaled(entries, error)
        case .broadcast(let publication, let channel):
            if case .down = health.broker {
                // Cut off from the others, typing still reaches those who are here.
                numbers.localOnly += 1
                received(publication, channel: channel)
            } else {
                broker.broadcast(publication, to: channel, at: now)
            }
        case .markRead(let publication, let offset, let channel, let tag):
            broker.markRead(publication, offset: offset, in: channel, tag: tag, at: now)
        case .join(let batch):
            recovery.join(batch, at: now)
            carryOutRecovery()
        case .drop(let channel, let loop):
            recovery.drop(channel, loop: loop)
            carryOutRecovery()
        case .readHistory(let channel, let query, let tag): broker.readHistory(of: channel, query.value, tag: tag, at: now)
        case .connected(let user, let device, let connection, let status):
            machine.connected(connection: connection, user: user, device: device, status: status, at: now)
        case .closed(let connection, let clean, let lastHeard):
            machine.closed(connection: connection, clean: clean, lastHeard: lastHeard, at: now)
            if let serial = node.serial(of: connection) { members.closed(connection: serial.value, isClean: clean, at: now) }
        case .memberJoined(let channel, let user, let device, let connection, let isVisible):
            members.joined(channel, connection: connection, user: user, device: device, isVisible: isVisible, at: now)
        case .memberLeft(let channel, let connection): members.left(channel, connection: connection, at: now)
        case .memberShows(let isVisible, let connection): members.showed(isVisible, connection: connection, at: now)
        case .follow(let channels, let loop, let tag): members.follow(channels, loop: loop, tag: tag, at: now)
        case .unfollow(let channel, let loop): members.unfollow(channel, loop: loop)
        case .membersPage(let channel, let cursor, let tag): members.page(of: channel, cursor: cursor, tag: tag, at: now)
        case .activity(let connection): machine.activity(connection: connection, at: now)
        case .proved(let connection): machine.proved(connection: connection, at: now)
        case .status(let status, let connection, let tag):
            machine.requested(connection: connection, status: status, tag: tag, at: now)
        case .watch(let users, let loop, let tag): machine.watch(users, loop: loop, tag: tag, at: now)
        case .unwatch(let users, let loop): machine.unwatch(users, loop: loop)
        case .readPresence(let users, let tag): store.read(users, tag: tag, at: now)
        case .inspect(let user, let tag): store.inspect(user, explains: false, tag: tag, at: now)
        case .explain(let user, let tag): explain(user, tag: tag)
        case .looked(let answer, let origin): looked(answer, origin)
        case .post(let post, let tag): pass(post, tag: tag)
        case .postAnswered(let outcome, let origin): passBack(outcome, to: origin)
        case .hookAnswered(let result, let number, let partition):
            hooks.answered(result, number: number, partition: partition, at: now)
        case .reconfigured(let configuration):
            hooks.adopt(configuration.hooks, at: now)
            broker.setNamespaces(configuration.brokerNamespaces, at: now)
            recovery.setNamespaces(configuration.namespaces)
            members.setNamespaces(configuration.namespaces)
            postBytesMax = configuration.limits.messageBytes
            logsPersonal = configuration.logPersonal
            state.adopted()
        case .settle(let report, let tag): rates.settle(report.value, tag: tag, at: now)
        case .leave: members.leave(at: now)
        case .stop: stop(at: now)
        case .nodes(let tag): announce(UInt64(machine.connectionCount), tag: tag)
        }
    }

    // MARK: To loops

    var loopCount: Int { loops.count }

    func post(_ message: LoopMessage, to loop: UInt64) {
        guard loop < UInt64(outgoing.count) else { return }
        outgoing[Int(loop)].append(message)
    }

    func postToAll(_ message: LoopMessage) {
        for loop in outgoing.indices { outgoing[loop].append(message) }
    }

    /// `carriers`: a bit for each loop.
    func post(_ message: LoopMessage, toCarriers carriers: UInt64) {
        var carrying = carriers
        while carrying != 0 {
            outgoing[carrying.trailingZeroBitCount].append(message)
            carrying &= carrying - 1
        }
    }

    private func flush() {
        for loop in outgoing.indices where !outgoing[loop].isEmpty {
            loops[loop].mailbox.post(contentsOf: &outgoing[loop])
            if loop != ownLoop { loops[loop].waker.wake() }
        }
    }
}
