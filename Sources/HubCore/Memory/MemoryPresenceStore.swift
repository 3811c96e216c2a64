import HubBase
import HubWire

/// The embedded presence store: one node, no Redis, the same promises in process (redis-design §6).
///
/// It does what the scripts do, by the same rules (redis-design §2), with `now` for Redis's clock: leases end by sweeps, transitions leave
/// through a feed for each partition, all answers and the feed from `advance`. A lease costs no scan: each user has one entry among its
/// partition's deadlines, which is looked at when it comes due and put back when the leases were renewed since.
package final class MemoryPresenceStore: PresenceStore {
    package weak var delegate: (any PresenceStoreDelegate)?

    struct PartitionState {
        var lastSweep: Instant?
        /// Nothing ends before: everybody was blind for a while.
        var holdUntil = Instant(nanoseconds: 0)
        /// A missing record proves nothing before.
        var warmUntil = Instant(nanoseconds: 0)
        /// The largest version, where versions are rounded; it begins with the first sweep, whose moment is nobody's.
        var top: UInt64?
        var deadlines = DeadlineHeap<MemoryUser>()
        /// A message of the feed was lost since the last one that arrived.
        var hasGap = false
        /// Its data were lost, and no sweep has found that yet.
        var isOther = false
    }

    let timers: PresenceTimers
    private let node: Name
    private let own: MemoryUser.Own
    let nodeName: Name
    private let wallClockAtStart: UInt64
    private let startedAt: Instant
    private let usersMax: Int

    private(set) var list: [MemoryUser] = []
    /// Places in `list`.
    private var table = PlaceTable()
    private let seed = PlaceTable.secret
    var partitions: [PartitionState]
    let outputs = Outputs<Output>()
    private var walk: Patrol
    private var feedWalk: Patrol
    var faults = Faults()
    /// Where backends are told of transitions.
    package var hooks: MemoryHookQueue?

    /// - Parameters:
    ///   - node: the incarnation; `nodeName`: what people call it.
    ///   - wallClockAtStart: milliseconds since 1970 at `startedAt`; from there on the store's clock follows the monotonic one.
    ///   - usersMax: records kept, offline ones with their last seen among them; beyond it a new user is refused with `storeFull`.
    package init(
        timers: PresenceTimers, node: Name, nodeName: Name, wallClockAtStart: UInt64, startedAt: Instant, usersMax: Int = 2_000_000
    ) {
        self.timers = timers
        self.node = node
        own = MemoryUser.Own(incarnation: node)
        self.nodeName = nodeName
        self.wallClockAtStart = wallClockAtStart
        self.startedAt = startedAt
        self.usersMax = usersMax
        partitions = Array(repeating: PartitionState(), count: Partition.count)
        walk = Patrol(period: .seconds(60), stepsMax: 256, at: startedAt)
        feedWalk = Patrol(period: .seconds(30), stepsMax: Partition.count, at: startedAt)
    }

    package func start(at now: Instant) { outputs.append(.health(.up)) }

    package func apply(_ operations: [PresenceOperation], partition: Int, tag: RequestTag, at now: Instant) {
        precondition(operations.count <= PresenceLimits.operations, "\(operations.count) operations in one call")
        if let error = faults.refusal() { return outputs.append(.applied(.failure(error), tag)) }
        let newcomers = operations.reduce(0) { count, operation in
            switch operation.kind {
            case .down: count
            case .up, .restore: known(operation.user) == nil ? count + 1 : count
            }
        }
        guard list.count + newcomers <= usersMax else {
            let error = WireError(.storeFull, "the embedded store holds as many users as it may", retryAfter: 2_000)
            return outputs.append(.applied(.failure(error), tag))
        }
        var versions: [UInt64] = []
        versions.reserveCapacity(operations.count)
        var events: [PresenceChange] = []
        for operation in operations {
            versions.append(apply(operation, partition: partition, events: &events, at: now))
        }
        outputs.append(.applied(.success(versions), tag))
        feed(events, partition: partition)
    }

    package func refresh(_ renewal: LeaseRenewal, partition: Int, tag: RequestTag, at now: Instant) {
        let leases = renewal.leases
        precondition(leases.count <= PresenceLimits.leases, "\(leases.count) leases in one call")
        if let error = faults.refusal() { return outputs.append(.refreshed(.failure(error), tag)) }
        var missing: [Int] = []
        for (place, lease) in leases.enumerated() {
            guard let user = user(lease.user, at: now), user.renewLease(of: lease.connection, until: now + timers.lease) else {
                missing.append(place)
                continue
            }
        }
        outputs.append(.refreshed(.success(missing), tag))
    }

    package func sweep(partition: Int, tag: RequestTag, at now: Instant) {
        if let error = faults.refusal() { return outputs.append(.swept(.failure(error), partition, tag)) }
        outputs.append(.swept(.success(sweep(partition, at: now)), partition, tag))
    }

    package func read(_ names: [Name], tag: RequestTag, at now: Instant) {
        precondition(names.count <= PresenceLimits.reads, "\(names.count) users in one call")
        if let error = faults.refusal() { return outputs.append(.read(.failure(error), tag)) }
        var isWarming = false
        let changes = names.map { name in
            let partition = Partition.of(name)
            if partitions[partition].lastSweep == nil || now < partitions[partition].warmUntil { isWarming = true }
            return user(name, at: now)?.change ?? PresenceChange(user: name, status: .offline, version: 0, lastSeen: 0)
        }
        outputs.append(.read(.success(PresenceSnapshot(changes: changes, isWarming: isWarming)), tag))
    }

    package func inspect(_ name: Name, explains: Bool, tag: RequestTag, at now: Instant) {
        if let error = faults.refusal() { return outputs.append(.inspected(.failure(error), tag)) }
        var record = record(of: name, at: now)
        if explains, let user = user(name, at: now), user.trailEnds > now {
            record.transitions = Array(user.trail.suffix(PresenceTransition.kept))
        }
        outputs.append(.inspected(.success(record), tag))
    }

    package var clockOffset: Int64? { Int64(clamping: wallClockAtStart) - Int64(clamping: startedAt.nanoseconds / 1_000_000) }

    package func announce(_ facts: NodeFacts, tag: RequestTag, at now: Instant) {
        if let error = faults.refusal() { return outputs.append(.nodes(.failure(error), tag)) }
        let entry = NodeEntry(incarnation: node, name: nodeName, left: PresenceLimits.nodeHolds.milliseconds, facts: facts)
        outputs.append(.nodes(.success([entry]), tag))
    }

    package func stop(at now: Instant) {
        outputs.removeAll()
        delegate = nil
    }

    package func advance(at now: Instant) {
        outputs.advance {
            deliver($0)
        } rest: {
            patrol(at: now)
        }
    }

    // Delivery.

    enum Output {
        case applied(Result<[UInt64], WireError>, RequestTag)
        case refreshed(Result<[Int], WireError>, RequestTag)
        case swept(Result<Int, WireError>, Int, RequestTag)
        case read(Result<PresenceSnapshot, WireError>, RequestTag)
        case inspected(Result<PresenceRecord, WireError>, RequestTag)
        case nodes(Result<[NodeEntry], WireError>, RequestTag)
        case changed([PresenceChange], Int)
        case lost(Int)
        case health(BackendHealth)
    }

    private func deliver(_ output: Output) {
        guard let delegate else { return }
        switch output {
        case .applied(let result, let tag): delegate.applied(result, tag: tag)
        case .refreshed(let result, let tag): delegate.refreshed(result, tag: tag)
        case .swept(let result, let partition, let tag): delegate.swept(result, partition: partition, tag: tag)
        case .read(let result, let tag): delegate.read(result, tag: tag)
        case .inspected(let result, let tag): delegate.inspected(result, tag: tag)
        case .nodes(let result, let tag): delegate.nodes(result, tag: tag)
        case .changed(let changes, let partition):
            let gap = partitions[partition].hasGap
            partitions[partition].hasGap = false
            delegate.changed(changes, partition: partition, gap: gap)
        case .lost(let partition): delegate.lost(partition: partition)
        case .health(let health): delegate.storeHealth(health)
        }
    }

    func feed(_ events: [PresenceChange], partition: Int) {
        guard !events.isEmpty else { return }
        if faults.dropsFeed() {
            partitions[partition].hasGap = true
        } else {
            outputs.append(.changed(events, partition))
        }
    }

    // Records.

    private func hash(_ name: Name) -> UInt64 { PlaceTable.hash(name, seed: seed) }

    /// The user's record, also where its TTL has passed.
    func known(_ name: Name) -> MemoryUser? { table.find(hash(name)) { list[$0].name == name }.map { list[$0] } }

    /// The user's record; nil when there is none, or its TTL has passed.
    func user(_ name: Name, at now: Instant) -> MemoryUser? {
        guard let user = known(name) else { return nil }
        if user.ends > now { return user }
        forget(user)
        return nil
    }

    func makeUser(_ name: Name) -> MemoryUser {
        keep(MemoryUser(name: name, own: own, place: list.count))
    }

    /// There's none of that name.
    func keep(_ user: MemoryUser) -> MemoryUser {
        list.append(user)
        table.insert(user.place, hash(user.name)) { hash(list[$0].name) }
        return user
    }

    func forget(_ user: MemoryUser) {
        table.remove(user.place, hash(user.name)) { hash(list[$0].name) }
        if let last = list.last, last !== user {
            table.remove(last.place, hash(last.name)) { hash(list[$0].name) }
            last.place = user.place
            list[user.place] = last
            table.insert(last.place, hash(last.name)) { hash(list[$0].name) }
        }
        list.removeLast()
        // What still waits among the deadlines finds nothing to end.
        user.queuedDue = .distantFuture
    }

    /// Records kept, offline ones among them.
    package var userCount: Int { list.count }

    func milliseconds(at instant: Instant) -> UInt64 { wallClockAtStart + instant.since(startedAt).milliseconds }
    func microseconds(at instant: Instant) -> UInt64 { wallClockAtStart * 1_000 + instant.since(startedAt).nanoseconds / 1_000 }

    /// Records whose TTL has passed, and feeds whose last message was lost: a few in each call.
    private func patrol(at now: Instant) {
        for _ in 0..<walk.steps(over: list.count, at: now) where !list.isEmpty {
            let user = list[walk.next(of: list.count)]
            if user.ends <= now {
                forget(user)
                walk.repeatPlace()
            } else if user.trailEnds <= now {
                user.forgetTrail()
            }
        }
        for _ in 0..<feedWalk.steps(over: Partition.count, at: now) {
            let partition = feedWalk.next(of: Partition.count)
            if partitions[partition].hasGap && outputs.isEmpty {
                partitions[partition].hasGap = false
                delegate?.changed([], partition: partition, gap: true)
            }
        }
    }

    private func record(of name: Name, at now: Instant) -> PresenceRecord {
        guard let user = user(name, at: now) else {
            let change = PresenceChange(user: name, status: .offline, version: 0, lastSeen: 0)
            return PresenceRecord(change: change, connections: [], graceLeft: nil, now: milliseconds(at: now))
        }
        let partition = partitions[Partition.of(name)]
        // Right before any sweep: what ran out is shown, not counted.
        var change = user.change
        let counting = user.connections.filter { $0.state != .invisible }
        let live = MemoryUser.aggregate(counting.filter { $0.leaseEnds > now })
        let awaited = user.awaited.filter { $0.ends > now }
        let online = awaited.filter { $0.connection.state == .online }.max { $0.ends < $1.ends }
        if now < partition.holdUntil {
            // Nobody could renew anything: what has run out since ends only after the hold.
        } else if live != .offline {
            change.status = online != nil ? .online : live
        } else if awaited.isEmpty {
            change.status = .offline
            if user.status != .offline {
                let proved = counting.map(\.leaseEnds).max().map { $0.nanoseconds - min($0.nanoseconds, timers.lease.nanoseconds) }
                let seen = [proved.map { Instant(nanoseconds: $0) }, user.close?.at].compactMap { $0 }.max()
                if let seen { change.lastSeen = milliseconds(at: seen) }
            }
        }
        let connections = user.connections.map {
            PresenceRecord.Connection(
                connection: $0.connection, node: $0.node, device: $0.device, state: $0.state, since: $0.since,
                leaseLeft: $0.leaseEnds.since(now).milliseconds)
        }
        var record = PresenceRecord(change: change, connections: connections, graceLeft: nil, now: milliseconds(at: now))
        record.kept = user.change
        if live == .offline, let ends = (user.awaited.map(\.ends) + [user.goodbye].compactMap { $0 }).max() {
            record.graceLeft = ends.since(now).milliseconds
            record.close = user.close?.transition
        } else if live == .away, let online {
            record.awaitedLeft = online.ends.since(now).milliseconds
            if user.close?.transition.connection == online.connection.connection { record.close = user.close?.transition }
        }
        return record
    }
}

/// How much one call of a presence store may carry (redis-design §1: each script stays near a millisecond).
package enum PresenceLimits {
    package static let operations = 50
    package static let leases = 250
    package static let reads = 1_000
    /// How long an announcement of a node counts.
    package static let nodeHolds = Span.seconds(30)
}
