import HubBase
import HubWire

/// The presence of one node's connections, and what its clients watch. A machine: inputs in, actions out (`takeActions`), no clock.
///
/// The shell calls inputs as they happen, `tick` at least every 100 ms, and `takeActions` once at the end of each turn: operations of one
/// turn leave in one call for each partition.
///
/// - *Level-triggered*: what should be in the store is kept, not what was done. A connection whose stored state differs, or isn't known,
///   gets an operation with its current state, again every `pace`, until the store says yes. Nothing old is ever replayed.
/// - *One call in flight for each partition*, so that operations on a user keep their order.
/// - *Leases* are renewed for every connection that the gateway hasn't reported closed. That is as good as proof of life: the gateway's
///   ping and pong deadline closes a silent socket long before its lease would matter. Only what the store reports missing has to prove
///   itself first (`probe`, `proved`), as it may belong to a process that was frozen meanwhile.
/// - *Without the store* presence is frozen: nothing is invented, answers are marked stale.
package struct PresenceMachine: ~Copyable {
    package let timers: PresenceTimers
    let node: Name
    let tagSpace: UInt64
    var chance: Chance

    var connections: PresenceConnections
    var users = PresenceUsers()
    var partitions: [PartitionState]
    /// Partitions with queued operations and no call in flight.
    var active: [Int] = []
    /// When operations that went out stop holding back the next one of their connection, in order.
    var cooling = Queue<(place: Int32, generation: UInt32, until: Instant)>()
    /// The last moment at which the store was there: what it acknowledged too long before can't be lost any more.
    var upUntil: Instant
    /// Who waits for which connection's state to be stored.
    var waiters: [Int: Waiting] = [:]
    /// What ended lately, for a store that comes back without it.
    var ends = PresenceEnds()
    /// Ends that were refused when they were written again, and when they're tried once more.
    var endsRefused = Queue<(end: PresenceEnd, until: Instant)>()

    var requests: [UInt64: Request] = [:]
    /// When requests are given up, in order.
    var requestEnds = Queue<(id: UInt64, at: Instant)>()
    var lastRequest: UInt64 = 0

    var watches = WatchQueue()
    /// The store hears only of users that are named to it.
    package var followsUsers = false
    package internal(set) var isUp = false
    /// Nothing new can be kept: who comes isn't in the store, so no answer is sure. `settlesAt`: when it's over, and those have got in.
    var isFull = false
    var settlesAt: Instant?
    /// Whether the store was there before; and until when, after it came back, connections may still have to be written again.
    var wasUp = false
    var settledAt: Instant?
    var actions: [PresenceAction] = []

    /// All nodes that lived at the last announcement.
    package internal(set) var nodes: [NodeEntry] = []
    /// Connections that are open.
    package internal(set) var connectionCount = 0

    /// Since when nothing happened to this node that could cost its connections their leases: no pause, no cut, no refusal.
    var soundSince: Instant
    var tickedAt: Instant
    /// Users whom the feed declared offline while a connection here, in good order, showed otherwise. More than none is a fault of the hub's.
    package internal(set) var falseOfflines: UInt64 = 0

    var scannedAt: Instant
    var announceAt: Instant
    var idleWalk: Patrol
    var auditWalk: Patrol

    /// State changes of one connection reach the store at most this often, and what failed is tried again after it.
    package static let pace = Span.seconds(2)
    /// A store that doesn't answer within this is taken to have refused.
    package static let answerWithin = Span.seconds(20)
    /// A store that was away may have lost what it acknowledged so long before: a failover to a replica that was behind, a restart from a log
    /// that isn't written at once.
    package static let lossMax = Span.seconds(30)
    package static let announceEvery = Span.seconds(10)
    /// All watched users are read again within this, whatever the feeds said.
    package static let audit = Span.seconds(300)
    /// Requests of one connection that may wait for its state to be stored.
    package static let waitersMax = 16
    /// What the tables' entries of a connection and its user cost, without their dictionaries and names.
    package static var bytesPerConnection: Int { MemoryLayout<PresenceConnection?>.stride + MemoryLayout<PresenceUser?>.stride }
    /// Loops that can watch.
    package static let loopsMax = 64

    struct PartitionState {
        var leases: [Int32] = []
        var ready: [Int32] = []
        /// Ends that are written again, before all else.
        var endsAgain: [PresenceEnd] = []
        var isInFlight = false
        var isActive = false
        var isSweeping = false
        var hasGap = false
        /// Leases may have ended that no refresh was refused for yet: `doubtEndsWith` is the refresh whose answer says which (0: not sent yet).
        var isDoubtful = false
        /// The store is back, or its feed had a hole: until then, or the next sweep, it isn't known whether it has lost its data.
        var unsureUntil: Instant?
        /// The sweep under way may be from before that.
        var isSweepOld = false
        /// Watched users who are away since may be told as soon as it's known that nothing is lost.
        var hasHalves = false
        /// It has lost its data: until then nodes may still have to register again.
        var newUntil: Instant?
        var doubtEndsWith: UInt64 = 0
        /// The next heartbeat is out of turn, after the store came back or refused; then the partition goes to its own place in the period.
        var isHurried = false
        /// Heartbeats until one renews the users' records too.
        var beatsUntilRecords = 0
        var nextHeartbeat: Instant
        var nextSweep: Instant
    }

    struct Waiter {
        var tag: RequestTag
        var wish: Payload.Status
        /// The operation that is under way carries what it asked for.
        var isCarried = false
    }

    /// Those who wait for one connection's state, in the order in which they asked.
    struct Waiting {
        /// What holds if all of them are refused: what was acknowledged last, or the opening asked for.
        var held: Payload.Status
        var list: [Waiter] = []
    }

    enum Request {
        case apply(partition: Int, places: [Int32])
        case endAgain(partition: Int, ends: [PresenceEnd])
        case refresh(partition: Int, leases: [Lease])
        case sweep(partition: Int)
        case read(ReadBatch)
        case announce
    }

    /// - Parameters:
    ///   - node: this node, as it stands in users' records.
    ///   - incarnation: what the ids of its connections begin with; nil: `node`.
    ///   - tagSpace: the `high` word of every tag that the machine makes; the shell keeps other requests' tags out of it.
    package init(timers: PresenceTimers, node: Name, incarnation: Name? = nil, tagSpace: UInt64, chance: Chance, at now: Instant) {
        self.timers = timers
        self.node = node
        connections = PresenceConnections(node: incarnation ?? node)
        upUntil = now
        self.tagSpace = tagSpace
        self.chance = chance
        partitions = Array(repeating: PartitionState(nextHeartbeat: now, nextSweep: now), count: Partition.count)
        scannedAt = now
        soundSince = now
        tickedAt = now
        announceAt = now
        // Away comes at most a sixteenth late, and never more than 5 s.
        idleWalk = Patrol(period: min(.seconds(5), timers.awayAfter.scaled(by: 1.0 / 16)), stepsMax: 100_000, at: now)
        auditWalk = Patrol(period: PresenceMachine.audit, stepsMax: 1_000, at: now)
    }

    /// Whether an answer of the store is for this machine.
    package func owns(_ tag: RequestTag) -> Bool { tag.high == tagSpace }
    /// The store can't be reached, and presence is frozen; or it's full, and who comes can't be registered. Answers are marked.
    package var isStale: Bool { !isUp || isFull || settlesAt != nil }

    /// Everything to be done since the last call, in order.
    package mutating func takeActions(at now: Instant) -> [PresenceAction] {
        if isUp {
            sendOperations(at: now)
            sendReads(at: now)
        }
        guard !actions.isEmpty else { return [] }
        let taken = actions
        actions = []
        return taken
    }

    // MARK: Connections

    /// Told again of one that it knows, it does nothing. `status`: what the client asked for with the opening, so that it's never shown otherwise.
    package mutating func connected(
        connection: Name, user: Name, device: Name, status: Payload.Status = .online, at now: Instant
    ) {
        guard connections.place(of: connection) == nil else { return }
        let userPlace = users.insert(user)
        users[userPlace].connections += 1
        connectionCount += 1
        let place = connections.insert(connection: connection, device: device, user: userPlace, at: now)
        connections[place].asked = status
        queue(place)
    }

    /// `clean`: the client said goodbye, so the user is offline at once if this was the last. Not so while the store is away: the user may
    /// be back on another node that can't say so yet either. `lastHeard`: when that was before its end was noticed, as when it fell silent.
    package mutating func closed(connection: Name, clean: Bool, lastHeard: Instant? = nil, at now: Instant) {
        guard let place = connections.place(of: connection), connections[place].phase == .open else { return }
        connectionCount -= 1
        connections[place].phase = !clean ? .lost : isUp ? .leaving : .left
        connections[place].lastActivity = lastHeard ?? now
        if connections[place].leasePlace >= 0 {
            removeLease(place)
            connections[place].leasePlace = PresenceConnection.hadLease
        }
        refuseWaiters(of: place, WireError(.unavailable, "the connection closed before its status was stored"))
        switch connections[place].errand {
        case .queued where connections[place].stored == .never:
            // Never seen by anybody.
            leaveLine(place)
            forget(place)
        case .up:
            // In line from now on, not from that answer on: whoever comes until then comes after it. It may be the same client, who is waited for
            // no longer by that.
            partitions[partition(of: place)].ready.append(Int32(place))
        case .none, .queued, .down: queueAnew(place)
        }
    }

    /// The client sets its status. Answered by `presenceAck` when the store holds it, or with a refusal: then it isn't wished any more, and what
    /// held before is what will be written.
    package mutating func requested(connection: Name, status: Payload.Status, tag: RequestTag, at now: Instant) {
        guard let place = connections.place(of: connection), connections[place].phase == .open else {
            let error = WireError(.unavailable, "the connection is closing")
            return actions.append(.presenceAck(tag: tag, .failure(error)))
        }
        guard isUp else { return actions.append(.presenceAck(tag: tag, .failure(PresenceMachine.frozen))) }
        guard (waiters[place]?.list.count ?? 0) < PresenceMachine.waitersMax else {
            let error = WireError(
                .rateLimited, "too many status changes of this connection are waiting",
                retryAfter: PresenceMachine.pace.milliseconds)
            return actions.append(.presenceAck(tag: tag, .failure(error)))
        }
        let held = connections[place].asked
        waiters[place, default: Waiting(held: held)].list.append(Waiter(tag: tag, wish: status))
        connections[place].asked = status
        connections[place].isIdle = false
        connections[place].lastActivity = now
        if !connections[place].needsOperation && connections[place].errand == .none {
            answerWaiters(of: place, all: true, version: users[Int(connections[place].user)].floor)
        } else {
            queueAnew(place)
        }
    }

    /// The client did something. Cheap: one lookup, the time is stored.
    package mutating func activity(connection: Name, at now: Instant) {
        guard let place = connections.place(of: connection), connections[place].phase == .open else { return }
        connections[place].lastActivity = now
        if connections[place].isIdle {
            connections[place].isIdle = false
            queue(place)
        }
    }

    /// The peer of a probed connection showed that it lives.
    package mutating func proved(connection: Name, at now: Instant) {
        guard let place = connections.place(of: connection), connections[place].proof == .missing else { return }
        connections[place].proof = .given
        queue(place)
    }

    /// Of every connection that has ended the store knows it. For a node that stops.
    package var hasToldEnds: Bool { !connections.hasEnding }

    static let frozen = WireError(.unavailable, "presence is frozen while its store can't be reached", retryAfter: 2_000)

    // MARK: Requests to the store

    /// Notes a request and gives it a tag.
    mutating func open(_ request: Request, at now: Instant) -> RequestTag {
        lastRequest += 1
        requests[lastRequest] = request
        requestEnds.append((id: lastRequest, at: now + PresenceMachine.answerWithin))
        return RequestTag(high: tagSpace, low: lastRequest)
    }

    func partition(of place: Int) -> Int { Int(users[Int(connections[place].user)].partition) }
}
