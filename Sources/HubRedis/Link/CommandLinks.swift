import HubBase
import HubCore
import HubNet
import HubWire

/// All command links together: a call goes to the master that has its keys, wherever that is by then.
///
/// A publication whose outcome isn't known (the link was lost, Redis was silent) is sent again, with the same message id, for 30 s: the
/// dedup key makes that safe. All other calls are answered `unavailable` then; their callers repeat the current state, not old operations.
///
/// Calls of one lane stay in their order on all ways: while some are on a detour (the lane moved, a server takes nothing), later ones join them,
/// and they go on together once no earlier one is under way. A lane whose link is down takes nothing new; one whose master has just joined
/// waits for it.
final class CommandLinks {
    private struct Detour {
        var calls: [Waiting] = []
        var retryAt: Instant
    }

    private let loop: NetLoop
    private let keys: KeySpace
    private let masters: Masters
    /// Owns this, so it's there as long as it.
    private unowned(unsafe) let backend: RedisBackend
    let isCluster: Bool
    private var detours: [Int: Detour] = [:]
    private var detouredCalls = 0
    /// Calls of each lane that a link has; counted in a cluster only.
    private var underWay = [Int](repeating: 0, count: Lane.count)
    private var publishedBytes = 0
    /// Of those, by master; counted in a cluster only.
    private var heldBytes: [Int: Int] = [:]
    private var sequence: UInt64 = 0
    /// Refusals that mustn't be told from within the call.
    private var refused: [(Waiting, WireError)] = []
    private var configurationRetry: Instant?
    private var reloads = 0

    /// After a second redirection, and after one that names nobody; doubled up to sixteenfold.
    static let redirectDelay: Span = .milliseconds(50)

    init(loop: NetLoop, keys: KeySpace, masters: Masters, backend: RedisBackend) {
        self.loop = loop
        self.keys = keys
        self.masters = masters
        self.backend = backend
        isCluster = masters.isCluster
    }

    /// Whether another call, or a publication of some bytes, may be made; the error otherwise. In a cluster a call may still be answered
    /// `unavailable` because its own master is away.
    func refusal(replies: Int = 1, bytes: Int = 0) -> WireError? {
        guard masters.hasLink else { return .redisAway }
        guard masters.owedReplies + detouredCalls + replies <= RedisLink.callLimit * masters.all.count,
            publishedBytes + bytes <= RedisLink.byteLimit
        else { return .redisFull }
        return nil
    }

    /// Lanes whose calls leave at once.
    func openLanes(of master: Master) -> LaneSet {
        var lanes = master.link.isUp ? master.lanes : LaneSet()
        for lane in detours.keys { lanes.remove(lane) }
        return lanes
    }

    /// Whether calls of the channel wait for another master than the one that answers now.
    func isOnDetour(_ channel: Name) -> Bool { !detours.isEmpty && detours[isCluster ? Partition.of(channel) : 0] != nil }

    /// A name that no other reload of scripts has, by any node.
    func nameReload() -> [UInt8] {
        reloads += 1
        return backend.incarnation.bytes + [UInt8](" \(reloads)".utf8)
    }

    /// Makes a call. It leaves at the end of the turn.
    func send(_ call: Call) {
        sequence += 1
        publishedBytes += call.publishedBytes
        carry(Waiting(call: call, lane: isCluster ? call.lane : 0, sequence: sequence, since: loop.now))
    }

    private func carry(_ waiting: Waiting, isAgain: Bool = false) {
        if isCluster, case .states(let states) = waiting.call { return read(states, waiting) }
        // Those that wait for the link were sent before it was lost. What comes now is told at once that it can't be done.
        let master = masters.master(of: waiting.lane)
        if !detours.isEmpty, detours[waiting.lane] != nil, isAgain || master?.link.isUp == true {
            return detour(waiting, lane: waiting.lane, at: nil)
        }
        guard let master, master.link.isUp else {
            if let master, master.isJoining(at: loop.now) { return queue(waiting, for: master) }
            return refused.append((waiting, .redisAway))
        }
        let link = master.link
        guard isAgain || link.owedReplies + waiting.call.replies <= RedisLink.callLimit else {
            return refused.append((waiting, .redisFull))
        }
        guard isCluster else { return link.send(waiting) }
        guard isAgain || hasRoom(for: waiting, on: master) else { return refused.append((waiting, .redisFull)) }
        underWay[waiting.lane] += 1
        link.send(hold(waiting, at: master))
    }

    /// The lane is with a master that was never reached yet: nothing is wrong with either, and its calls go on when it is.
    private func queue(_ waiting: Waiting, for master: Master) {
        guard hasRoom(for: waiting, on: master) else { return refused.append((waiting, .redisFull)) }
        var waiting = hold(waiting, at: master)
        // Nothing has become of it: it's told in time if the master isn't reached.
        waiting.refused = loop.now
        detour(waiting, lane: waiting.lane, at: nil)
    }

    /// One master that doesn't answer mustn't take the room of the others' publications.
    private func hasRoom(for waiting: Waiting, on master: Master) -> Bool {
        heldBytes[master.number, default: 0] + waiting.call.publishedBytes <= RedisLink.byteLimit / max(masters.all.count, 2)
    }

    /// Counts a publication's bytes with the master that it's sent to, until it's answered.
    private func hold(_ waiting: Waiting, at master: Master) -> Waiting {
        let bytes = waiting.call.publishedBytes
        guard bytes > 0, waiting.master != master.number else { return waiting }
        letGo(waiting)
        heldBytes[master.number, default: 0] += bytes
        var waiting = waiting
        waiting.master = master.number
        return waiting
    }

    private func letGo(_ waiting: Waiting) {
        guard let master = waiting.master, let held = heldBytes[master] else { return }
        let left = held - waiting.call.publishedBytes
        heldBytes[master] = left > 0 ? left : nil
    }

    /// A read of many users goes to each master that has some of them. It has no order to keep.
    private func read(_ states: StatesCall, _ waiting: Waiting) {
        for part in states.split({ self.masters.master(of: $0)?.number ?? -1 }) {
            var one = Waiting(call: .states(part), lane: Lane.several, sequence: waiting.sequence, since: waiting.since)
            one.redirects = waiting.redirects
            let lane = part.users.first.map(Partition.of) ?? 0
            let master = masters.master(of: lane)
            if let master, master.link.isUp {
                master.link.send(one)
            } else if let master, master.isJoining(at: loop.now) {
                detour(one, lane: lane, at: nil)
            } else {
                refused.append((one, .redisAway))
            }
        }
    }

    // MARK: Time

    func advance(at now: Instant) {
        if !refused.isEmpty {
            let due = refused
            refused.removeAll(keepingCapacity: true)
            for (waiting, error) in due { fail(waiting, error) }
        }
        for lane in Array(detours.keys) {
            giveUp(lane, at: now)
            release(lane, at: now)
        }
        if let due = configurationRetry, due <= now {
            configurationRetry = nil
            masters.master(of: Lane.configuration)?.link.checkConfigurationIfUp()
        }
    }

    /// Calls whose time is over; the outcome of publications among them stays unknown.
    private func giveUp(_ lane: Int, at now: Instant) {
        guard let detour = detours[lane], detour.calls.contains(where: { $0.until <= now }) else { return }
        let over = detour.calls.filter { $0.until <= now }
        detours[lane]?.calls.removeAll { $0.until <= now }
        detouredCalls -= over.count
        for waiting in over { fail(waiting, waiting.refused == nil ? .redisAway : .redisRefuses) }
    }

    /// Lets a lane's calls go on, in the order in which they were first made, if they can.
    private func release(_ lane: Int, at now: Instant) {
        guard let detour = detours[lane], detour.retryAt <= now, !isCluster || underWay[lane] == 0,
            detour.calls.isEmpty || masters.master(of: lane)?.link.isUp == true
        else { return }
        detours[lane] = nil
        detouredCalls -= detour.calls.count
        for waiting in detour.calls.sorted(by: { $0.sequence < $1.sequence }) { carry(waiting, isAgain: true) }
    }

    /// Ends all that waits, for good.
    func stop() {
        let lanes = detours
        detours.removeAll()
        detouredCalls = 0
        for detour in lanes.values.sorted(by: { ($0.calls.first?.sequence ?? 0) < ($1.calls.first?.sequence ?? 0) }) {
            for waiting in detour.calls { fail(waiting, .redisAway) }
        }
        let due = refused
        refused.removeAll()
        for (waiting, error) in due { fail(waiting, error) }
    }

    // MARK: From the links

    func write(_ call: Call, into out: inout ByteBuffer, scripts: ScriptTable) { backend.write(call, into: &out, scripts: scripts) }

    func replied(_ call: Call, _ reply: borrowing Reply) { backend.replied(call, reply) }

    /// The last reply of a call has come.
    func ended(_ waiting: Waiting) {
        arrived(waiting)
        answered(waiting)
    }

    func failed(_ waiting: Waiting, _ error: WireError) {
        arrived(waiting)
        fail(waiting, error)
    }

    /// Its reply won't come on this connection.
    func interrupted(_ waiting: Waiting) {
        arrived(waiting)
        if case .publish = waiting.call {
            var waiting = waiting
            waiting.reloads = 0
            waiting.refused = nil
            detour(waiting, lane: waiting.lane, at: loop.now)
        } else {
            fail(waiting, .redisAway)
        }
    }

    /// The server takes nothing now, and says so: nothing was done. It's left; a publication waits a short while for one that does.
    func turnedDown(_ waiting: Waiting) {
        let refused = waiting.refused ?? loop.now
        var waiting = waiting
        waiting.refused = refused
        guard case .publish = waiting.call else { return interrupted(waiting) }
        arrived(waiting)
        waiting.reloads = 0
        detour(waiting, lane: waiting.lane, at: loop.now)
    }

    /// One of its keys holds something else.
    func foreign(_ call: Call, _ text: String) { backend.foreign(call, text) }

    /// Its keys are elsewhere, and nothing was done.
    func redirected(_ waiting: Waiting, _ redirect: Redirect, from link: RedisLink) {
        arrived(waiting)
        learn(redirect)
        var waiting = waiting
        waiting.redirects += 1
        waiting.refused = redirect == .down ? waiting.refused ?? loop.now : nil
        var lane = waiting.lane
        if case .states(let states) = waiting.call { lane = states.movedLane ?? Partition.of(states.users[0]) }
        let isKnown = if case .moved(_, .some) = redirect { waiting.redirects == 1 } else { false }
        let delay = CommandLinks.redirectDelay.nanoseconds << UInt64(min(waiting.redirects - 1, 4))
        detour(waiting, lane: lane, at: isKnown ? loop.now : loop.now + Span(nanoseconds: delay))
    }

    /// What a redirection says about who has what.
    func learn(_ redirect: Redirect) {
        if case .moved(let slot, let place?) = redirect { masters.redirect(keys.lanes(ofSlot: slot), to: place) }
        backend.topologyIsOld()
    }

    func configurationMoved(_ redirect: Redirect) {
        configurationRetry = loop.now + .seconds(1)
        learn(redirect)
    }

    /// Behind sentinels: the number of the failover that made the master.
    var failover: UInt64? { backend.failover }

    func hasConfiguration(_ link: RedisLink) -> Bool { masters.master(of: Lane.configuration)?.link === link }

    func linkUp(_ link: RedisLink) {
        // First of all: what may have been published before the link was lost.
        for lane in Array(detours.keys) where masters.master(of: lane)?.link === link {
            giveUp(lane, at: loop.now)
            release(lane, at: loop.now)
        }
    }

    func linkDown(_ link: RedisLink) { backend.linkDown(link) }

    /// Another master has the lane now. What the old one has of it is answered before anything new is sent.
    func laneMoved(_ lane: Int) {
        if underWay[lane] > 0, detours[lane] == nil { detours[lane] = Detour(retryAt: loop.now) }
    }

    // MARK: Upkeep

    private func detour(_ waiting: Waiting, lane: Int, at retryAt: Instant?) {
        detouredCalls += 1
        var detour = detours[lane] ?? Detour(retryAt: loop.now)
        detour.calls.append(waiting)
        if let retryAt { detour.retryAt = max(detour.retryAt, retryAt) }
        detours[lane] = detour
    }

    private func arrived(_ waiting: Waiting) { if isCluster, waiting.lane >= 0 { underWay[waiting.lane] -= 1 } }

    private func fail(_ waiting: Waiting, _ error: WireError) {
        answered(waiting)
        backend.failed(waiting.call, error)
    }

    private func answered(_ waiting: Waiting) {
        publishedBytes -= waiting.call.publishedBytes
        letGo(waiting)
    }
}
