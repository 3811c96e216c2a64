import HubBase
import HubContracts
import HubCore
import HubWire
import Testing

/// Two nodes' presence machines on one memory store, with clients whose truth is known: random connects, closes, statuses and faults from
/// a seed, and what must hold whatever happens (redis-design §11, 1 to 3).
final class PresenceWorld: PresenceStoreDelegate {
    struct Client {
        var user: Name
        var node: Int
        var asked = Payload.Status.online
        /// Sends something every second.
        var isBusy: Bool
        /// Since when its state, as others should see it, is the same.
        var steadySince: Instant
        var lastActive: Instant
        /// Asked for and not answered: which of them holds isn't known.
        var wishes = 0
    }

    final class Node {
        var machine: PresenceMachine
        let incarnation: Name
        var isCut = false
        var isPaused = false
        /// What came while it was paused.
        var inbox: [(inout PresenceMachine, Instant) -> Void] = []
        /// Since when nothing went wrong with it.
        var healthySince: Instant
        /// What its watchers were told last.
        var seen: [Name: PresenceChange] = [:]
        /// Connections to be proved.
        var probed: [Name] = []

        init(_ machine: consuming PresenceMachine, incarnation: Name, at now: Instant) {
            self.machine = machine
            self.incarnation = incarnation
            healthySince = now
        }

        func hear(at now: Instant, _ body: @escaping (inout PresenceMachine, Instant) -> Void) {
            if isPaused { inbox.append(body) } else { body(&machine, now) }
        }
    }

    let store: MemoryPresenceStore
    var nodes: [Node] = []
    var chance: Chance
    var now = Instant(nanoseconds: 200_000_000_000_000)
    /// The store's clock, which may jump, less ours, in nanoseconds.
    private var shift: Int64 = 0
    private var storeNow: Instant { Instant(nanoseconds: UInt64(Int64(now.nanoseconds) + shift)) }
    /// How long the store takes to answer, and what is on its way, in order.
    private(set) var slowness = Span.zero
    private var underWay = Queue<(at: Instant, arrive: (_ isLinkLost: Bool) -> Void)>()
    private var lastArrival = Instant(nanoseconds: 0)
    var clients: [Name: Client] = [:]
    let users: [Name]
    /// Of those, who is never anything but invisible: nobody may ever hear of them.
    let hidden: Set<Name>
    /// Who comes invisibly: decided apart, so that the other choices of a seed stay what they were.
    var hiding: Chance
    let timers: PresenceTimers
    /// What the operations that the store took ask for.
    private var ledger: PresenceLedger
    /// Runs in which whoever is left does something while one is awaited; chosen apart, like who comes invisibly.
    let isCrowded: Bool
    var mood: Chance
    var errands: [(at: Instant, run: () -> Void)] = []
    /// The last event of each user; none after its record was lost.
    private var lastEvent: [Name: PresenceChange] = [:]
    private var lastVersion: [Name: UInt64] = [:]
    private var told: [Name: [PresenceChange]] = [:]
    var lastName = 0
    private var lastIncarnation: UInt64 = 0
    private var stored: [PresenceChange] = []
    /// Status requests by tag, and the node that owes the answer.
    var waiting: [UInt64: Wish] = [:]
    struct Wish {
        var node: Node
        var connection: Name
        var status: Payload.Status
    }
    var lastTag: UInt64 = 0
    /// Whom all, who were well, knew to be gone when the store came back with older data: until something else happens nobody tells otherwise.
    var knownGone: Set<Name> = []
    private var isStoreDown = false
    private var remembered: MemoryPresenceStore.Memory?
    private var crashes = 0
    private var crashesRemembered = 0
    private(set) var hasLostData = false
    private var hasGoneBack = false
    private(set) var transitions = 0
    private(set) var problems: [String] = []

    init(seed: UInt64) {
        var timers = PresenceStoreContract.timers
        timers.awayAfter = .seconds(5)
        // Versions that tell no more of the time than that, in every fourth run.
        if seed % 4 == 3 { timers.lastSeenStep = .seconds(30) }
        isCrowded = [0, 2, 5].contains(seed % 7)
        // Time for several to do something in.
        if isCrowded { timers.grace = .milliseconds(1_500) }
        self.timers = timers
        ledger = PresenceLedger(timers: timers)
        mood = Chance(seed: seed &+ 0x6772_6163_65)
        let hidden = (0..<3).map { Name(trusted: [UInt8]("hidden-\($0)".utf8)) }
        users = (0..<12).map { Name(trusted: [UInt8]("user-\($0)".utf8)) } + hidden
        self.hidden = Set(hidden)
        hiding = Chance(seed: ~seed)
        chance = Chance(seed: seed)
        store = MemoryPresenceStore(
            timers: timers, node: "storestorest", nodeName: "store", wallClockAtStart: 1_800_000_000_000,
            startedAt: Instant(nanoseconds: 100_000_000_000_000))
        for _ in 0..<2 { nodes.append(makeNode()) }
        store.delegate = self
        store.start(at: now)
        turn(.milliseconds(10))
        for number in nodes.indices { startWatching(number) }
    }

    private func makeNode() -> Node {
        lastIncarnation += 1
        let incarnation = Name(trusted: [UInt8]("node\(lastIncarnation)".utf8))
        let machine = PresenceMachine(
            timers: timers, node: incarnation, tagSpace: lastIncarnation, chance: Chance(seed: chance.next()), at: now)
        return Node(machine, incarnation: incarnation, at: now)
    }

    private func startWatching(_ number: Int) {
        lastTag += 1
        nodes[number].machine.watch(users, loop: 0, tag: RequestTag(high: 99, low: lastTag), at: now)
    }

    func problem(_ text: String) { problems.append("at \(now.nanoseconds / 1_000_000) ms: \(text)") }

    // MARK: Time

    func turn(_ span: Span) {
        now = now + span
        let due = errands.filter { $0.at <= now }
        errands.removeAll { $0.at <= now }
        for errand in due { errand.run() }
        while let next = underWay.first, next.at <= now {
            _ = underWay.popFirst()
            next.arrive(false)
        }
        for connection in sortedClients {
            guard let client = clients[connection], client.isBusy, now.since(client.lastActive) >= .seconds(1) else { continue }
            clients[connection]!.lastActive = now
            nodes[client.node].hear(at: now) { $0.activity(connection: connection, at: $1) }
        }
        for number in nodes.indices where !nodes[number].isPaused {
            for connection in nodes[number].probed where clients[connection] != nil {
                nodes[number].machine.proved(connection: connection, at: now)
            }
            nodes[number].probed = []
            nodes[number].machine.tick(at: now)
        }
        for _ in 0..<3 {
            for number in nodes.indices where !nodes[number].isPaused { carryOut(number) }
            store.advance(at: now)
        }
    }

    private func carryOut(_ number: Int) {
        let node = nodes[number]
        for action in node.machine.takeActions(at: now) {
            let cut = WireError(.unavailable, "cut")
            switch action {
            case .apply(let operations, let partition, let tag):
                if node.isCut {
                    node.machine.applied(.failure(cut), tag: tag, at: now)
                } else {
                    ledger.asked(operations, tag: tag, at: storeNow)
                    store.apply(operations, partition: partition, tag: tag, at: storeNow)
                }
            case .refresh(let renewal, let partition, let tag):
                if node.isCut {
                    node.machine.refreshed(.failure(cut), tag: tag, at: now)
                } else {
                    ledger.asked(renewal, tag: tag, at: storeNow)
                    store.refresh(renewal, partition: partition, tag: tag, at: storeNow)
                }
            case .sweep(let partition, let tag):
                if node.isCut {
                    node.machine.swept(.failure(cut), partition: partition, tag: tag, at: now)
                } else {
                    store.sweep(partition: partition, tag: tag, at: storeNow)
                }
            case .read(let users, let tag):
                if node.isCut {
                    node.machine.read(.failure(cut), tag: tag, at: now)
                } else {
                    store.read(users, tag: tag, at: storeNow)
                }
            case .announce(let connections, let tag): store.announce(NodeFacts(connections: connections), tag: tag, at: storeNow)
            case .follow, .unfollow: break
            case .probe(let connection): node.probed.append(connection)
            case .watchAnswer(_, let changes, _): for change in changes { take(change, node, isNews: false) }
            case .changed(let changes): for change in changes { take(change, node, isNews: true) }
            case .presenceAck(let tag, let result):
                guard let wish = waiting.removeValue(forKey: tag.low) else {
                    problem("an answer that nobody waits for: \(tag)")
                    continue
                }
                guard clients[wish.connection] != nil else { continue }
                clients[wish.connection]!.wishes -= 1
                clients[wish.connection]!.steadySince = now
                // What is refused isn't wished any more; of what is acknowledged the last one holds.
                if case .success = result { clients[wish.connection]!.asked = wish.status }
            }
        }
    }

    private func take(_ change: PresenceChange, _ node: Node, isNews: Bool) {
        let known = node.seen[change.user]
        if let known, isNews && change.version <= known.version { problem("news that isn't newer: \(change) after \(known)") }
        if let known, change.version <= known.version { return }
        // A node that was frozen tells in one go what it had missed: old news, in order.
        let isCatchingUp = now.since(node.healthySince) < .seconds(1)
        if change.status == .offline && isNews && !isCatchingUp { judgeOffline(change.user, "a node told its watchers") }
        if isNews && change.status != .offline && knownGone.contains(change.user) {
            problem("a node told its watchers that \(change.user), known to be gone, is there: \(change)")
        }
        node.seen[change.user] = change
    }

    /// §11.3: no offline for one who always had a connection on a node that was well.
    private func judgeOffline(_ user: Name, _ what: String) {
        let settled = Span.seconds(5)
        for (connection, client) in clients where client.user == user && client.asked != .invisible && client.wishes == 0 {
            let node = nodes[client.node]
            if now.since(client.steadySince) > settled && !node.isCut && !node.isPaused && now.since(node.healthySince) > settled {
                problem("\(what) that \(user) is offline, with \(connection) open")
            }
        }
    }

    // MARK: What fate does

    func cut(_ number: Int) {
        guard !nodes[number].isCut else { return }
        knownGone = []
        nodes[number].isCut = true
        nodes[number].hear(at: now) { $0.storeHealth(.down("cut"), at: $1) }
    }

    func heal(_ number: Int) {
        guard nodes[number].isCut else { return }
        nodes[number].isCut = false
        nodes[number].healthySince = now
        // The store itself may be away too; then it tells when it is back.
        guard !isStoreDown else { return }
        nodes[number].hear(at: now) { $0.storeHealth(.up, at: $1) }
    }

    func pause(_ number: Int) {
        knownGone = []
        nodes[number].isPaused = true
    }

    func resume(_ number: Int) {
        let node = nodes[number]
        guard node.isPaused else { return }
        node.isPaused = false
        node.healthySince = now
        for body in node.inbox { body(&node.machine, now) }
        node.inbox = []
    }

    /// `kill -9` and a new process: its clients are gone, and nobody says so.
    func crash(_ number: Int) {
        let isCut = nodes[number].isCut
        knownGone = []
        crashes += 1
        clients = clients.filter { $0.value.node != number }
        nodes[number] = makeNode()
        // Nobody is left who waited there.
        waiting = waiting.filter { entry in nodes.contains { $0 === entry.value.node } }
        nodes[number].isCut = isCut
        nodes[number].machine.storeHealth(isCut || isStoreDown ? .down("cut") : .up, at: now)
        startWatching(number)
    }

    func hurtAll() {
        knownGone = []
        for node in nodes { node.healthySince = now }
    }

    func refuseNext(_ count: Int) {
        knownGone = []
        store.failNext(count, with: WireError(.storeFull, "full"))
    }

    func slow(_ span: Span) {
        slowness = span
        // News that waited is old when it comes.
        hurtAll()
    }

    /// An hour ahead or back. Ahead, the records' TTLs pass with it.
    ///
    /// Back, and data lost as well, is more than versions are made for: they'd be lower than those that were lost. So it's one or the other.
    func jump(ahead: Bool, losesRecords: Bool) {
        if !ahead && hasLostData { return }
        if !ahead { hasGoneBack = true }
        ledger.clockJumped()
        shift += ahead ? 3_600_000_000_000 : -3_600_000_000_000
        if ahead && losesRecords {
            for user in users { store.forgetRecord(of: user) }
            ledger.forgetAll(mayShow: [])
            lastEvent = [:]
            hasLostData = true
        }
        if !ahead { store.clockWentBack(to: storeNow) }
        hurtAll()
    }

    var isAhead: Bool { shift > 0 }

    func remember() {
        remembered = store.remember()
        crashesRemembered = crashes
    }

    /// Away and back at once, without what was written since it was remembered.
    func restartWithOldData() {
        // Rounded versions begin above what the partition has seen, and a partition that has seen less again is more than they're made for.
        guard let memory = remembered, !isStoreDown, !hasGoneBack, timers.versionStep == 1 else { return }
        hasLostData = true
        store.setHealth(.down("restart"))
        store.advance(at: now)
        store.comeBack(to: memory)
        ledger.forgetAll(mayShow: users)
        lastEvent = [:]
        let gone = users.filter { user in
            nodes.allSatisfy { $0.seen[user]?.status == .offline } && !clients.values.contains { $0.user == user }
        }
        let isWell =
            slowness == .zero && crashes == crashesRemembered
            && nodes.allSatisfy {
                !$0.isCut && !$0.isPaused && now.since($0.healthySince) > .seconds(1)
            }
        store.setHealth(.up)
        remembered = nil
        hurtAll()
        if isWell { knownGone = Set(gone) }
    }

    func loseAllData() {
        guard !hasGoneBack else { return }
        hasLostData = true
        store.loseAllData()
        ledger.forgetAll(mayShow: [])
        lastEvent = [:]
        hurtAll()
    }

    func forgetRecord() { forgetRecord(of: users[Int(chance.next() % 12)]) }

    func forgetRecord(of user: Name) {
        guard !hasGoneBack else { return }
        hasLostData = true
        store.forgetRecord(of: user)
        ledger.forget(user)
        lastEvent[user] = nil
        hurtAll()
    }

    // MARK: The truth

    func truth(of user: Name) -> PresenceStatus {
        var status = PresenceStatus.offline
        for client in clients.values where client.user == user {
            switch client.asked {
            case .invisible: break
            case .away: status = status == .online ? .online : .away
            case .online: status = client.isBusy || status == .online ? .online : .away
            }
        }
        return status
    }

    func judgeEnd() {
        store.read(users, tag: RequestTag(high: 77, low: 1), at: storeNow)
        store.advance(at: now)
        if stored.count != users.count { problem("the store didn't answer") }
        for (user, stored) in zip(users, stored) {
            let expected = truth(of: user)
            if hidden.contains(user), stored.version != 0 || nodes.contains(where: { ($0.seen[user]?.version ?? 0) != 0 }) {
                problem("\(user), who was never shown, is known: \(stored)")
            }
            if !ledger.shown.contains(user), stored.version != 0 || stored.lastSeen != 0 {
                problem("\(user), whose record was lost and who wasn't shown since, can be told from who is gone: \(stored)")
            }
            if stored.status != expected { problem("in the end \(user) is \(stored.status) in the store, in truth \(expected)") }
            for (number, node) in nodes.enumerated() {
                let seen = node.seen[user]?.status ?? .offline
                if seen != expected { problem("in the end \(user) is \(seen) to watchers on node \(number), in truth \(expected)") }
            }
        }
        // Where data was lost there may be some: a record without its other connections ends with the one it has.
        for (number, node) in nodes.enumerated() where node.machine.falseOfflines > 0 && !hasLostData {
            problem("node \(number) counted \(node.machine.falseOfflines) false offlines")
        }
        if !waiting.isEmpty && nodes.allSatisfy({ !$0.isCut }) { problem("\(waiting.count) status requests were never answered") }
    }

    // MARK: What the store says, to both nodes

    /// Who asked; a node that was cut off meanwhile hears of an error, though the operation took effect.
    private func answer<Value>(
        _ result: Result<Value, WireError>, _ tag: RequestTag,
        _ body: @escaping (inout PresenceMachine, Result<Value, WireError>, Instant) -> Void
    ) {
        pass { [self] isLinkLost in
            guard let node = nodes.first(where: { $0.machine.owns(tag) }) else { return }
            let result = node.isCut || isLinkLost ? .failure(WireError(.unavailable, "cut")) : result
            node.hear(at: now) { body(&$0, result, $1) }
        }
    }

    /// What the store says takes its time, and stays in order.
    private func pass(_ arrive: @escaping (_ isLinkLost: Bool) -> Void) {
        lastArrival = max(lastArrival, now + slowness)
        if lastArrival <= now { arrive(false) } else { underWay.append((at: lastArrival, arrive: arrive)) }
    }

    func applied(_ result: Result<[UInt64], WireError>, tag: RequestTag) {
        ledger.applied(result, tag: tag)
        answer(result, tag) { $0.applied($1, tag: tag, at: $2) }
    }
    func refreshed(_ result: Result<[Int], WireError>, tag: RequestTag) {
        ledger.refreshed(result, tag: tag)
        answer(result, tag) { $0.refreshed($1, tag: tag, at: $2) }
    }
    func swept(_ result: Result<Int, WireError>, partition: Int, tag: RequestTag) {
        answer(result, tag) { $0.swept($1, partition: partition, tag: tag, at: $2) }
    }
    func read(_ result: Result<PresenceSnapshot, WireError>, tag: RequestTag) {
        if tag.high == 77, case .success(let snapshot) = result { stored = snapshot.changes }
        answer(result, tag) { $0.read($1, tag: tag, at: $2) }
    }
    func inspected(_ result: Result<PresenceRecord, WireError>, tag: RequestTag) {}
    func nodes(_ result: Result<[NodeEntry], WireError>, tag: RequestTag) { answer(result, tag) { $0.nodes($1, tag: tag, at: $2) } }

    func changed(_ changes: [PresenceChange], partition: Int, gap: Bool) {
        if gap {
            // What was said in between wasn't heard.
            for user in users where Partition.of(user) == partition { lastEvent[user] = nil }
        }
        for change in changes {
            transitions += 1
            if hidden.contains(change.user) { problem("\(change) tells of who was never shown") }
            // What was told, and lost, is told again by who knows it.
            let isRepetition = hasLostData && change.status == .offline && told[change.user]?.contains(change) ?? false
            if let version = lastVersion[change.user], change.version <= version, !isRepetition {
                problem("the version of \(change) isn't above \(version)")
            }
            told[change.user, default: []].append(change)
            if let last = lastEvent[change.user], last.status == change.status {
                problem("\(change) repeats the state of \(last)")
            }
            if change.status == .offline { judgeOffline(change.user, "the feed said") }
            if !isRepetition, let wrong = ledger.judge(change, at: storeNow) { problem(wrong) }
            lastVersion[change.user] = max(change.version, lastVersion[change.user] ?? 0)
            lastEvent[change.user] = change
        }
        pass { [self] _ in
            for node in nodes where !node.isCut {
                node.hear(at: now) { $0.changed(changes, partition: partition, gap: gap, at: $1) }
            }
        }
    }

    func lost(partition: Int) {
        pass { [self] _ in
            for node in nodes where !node.isCut { node.hear(at: now) { $0.lost(partition, at: $1) } }
        }
    }

    func storeHealth(_ health: BackendHealth) {
        isStoreDown = health != .up
        if isStoreDown {
            knownGone = []
            // An answer that was under way went with its link: nobody takes what an old store said for what the new one holds.
            while let next = underWay.popFirst() { next.arrive(true) }
            lastArrival = now
        }
        for node in nodes where !node.isCut {
            node.hear(at: now) { $0.storeHealth(health, at: $1) }
            node.healthySince = now
        }
    }
}
