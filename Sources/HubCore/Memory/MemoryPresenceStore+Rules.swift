import HubBase
import HubWire

// What the scripts *apply*, *find* and *expire* decide (redis-design §2, Scripts).
extension MemoryPresenceStore {
    /// The version of the user after the operation.
    func apply(_ operation: PresenceOperation, partition: Int, events: inout [PresenceChange], at now: Instant) -> UInt64 {
        switch operation.kind {
        case .up(let state): up(operation, state, isRestore: false, partition: partition, events: &events, at: now)
        case .restore(let state): up(operation, state, isRestore: true, partition: partition, events: &events, at: now)
        case .down(let grace): down(operation, grace: grace, partition: partition, events: &events, at: now)
        }
    }

    private func up(
        _ operation: PresenceOperation, _ state: ConnectionState, isRestore: Bool, partition: Int, events: inout [PresenceChange],
        at now: Instant
    ) -> UInt64 {
        let known = user(operation.user, at: now)
        let user = known ?? makeUser(operation.user)
        let cause = PresenceCause(of: operation, isNew: !user.has(operation.connection), hasRecord: known != nil)
        user.set(
            MemoryUser.Connection(
                connection: operation.connection, node: operation.node, device: operation.device, state: state, since: operation.since,
                leaseEnds: now + timers.lease))
        user.ends = .distantFuture
        user.grace = nil
        let why = Why(cause: cause, connection: operation.connection, node: operation.node, device: operation.device)
        let aggregate = user.aggregate
        if known == nil {
            // A record that was lost is no transition; and of one who is invisible from the start there is nothing to tell.
            let isSilent = isRestore || aggregate == .offline
            let before = become(aggregate, user, why, floor: operation.versionFloor, seen: aggregate == .offline ? nil : now, at: now)
            if !isSilent { tell(user, from: before, partition, &events, at: now) }
        } else if aggregate != user.status {
            let before = become(aggregate, user, why, floor: operation.versionFloor, seen: now, at: now)
            tell(user, from: before, partition, &events, at: now)
        } else if operation.versionFloor > user.version {
            // Behind what the node knows, the record has lost its last changes: watchers would pass over what it says from now on.
            user.become(
                aggregate, at: user.changedAt, microseconds: microseconds(at: now), step: timers.versionStep, floor: operation.versionFloor)
            note(Why(cause: .restored, connection: why.connection, node: why.node, device: why.device), user, at: now)
            events.append(user.change)
        }
        schedule(user, partition: partition)
        return user.version
    }

    private func down(
        _ operation: PresenceOperation, grace: Span, partition: Int, events: inout [PresenceChange], at now: Instant
    ) -> UInt64 {
        guard let user = user(operation.user, at: now) else { return 0 }
        guard let gone = user.remove(operation.connection) else { return user.version }
        let why = Why(cause: PresenceCause(of: operation, isNew: false, hasRecord: true), gone)
        if !user.hasConnections {
            if user.status == .offline {
                user.ends = now + timers.tombstoneTTL
                return user.version
            }
            // A clean leave is told at once, but not while other connections of the user may still have to register again.
            let isHeld = now < partitions[partition].holdUntil || now < partitions[partition].warmUntil
            if grace > .zero || isHeld {
                user.grace = (began: now, ends: now + grace)
                user.close = why.transition(.offline, version: 0, time: milliseconds(at: now))
                schedule(user, partition: partition)
                return user.version
            }
            user.ends = now + timers.tombstoneTTL
        }
        let aggregate = user.aggregate
        if aggregate != user.status {
            let before = become(aggregate, user, why, floor: operation.versionFloor, seen: now, at: now)
            tell(user, from: before, partition, &events, at: now)
        }
        return user.version
    }

    /// How many users went offline.
    func sweep(_ partition: Int, at now: Instant) -> Int {
        if let last = partitions[partition].lastSweep {
            let pause = now.since(last)
            if now >= last && pause < timers.sweepInterval { return 0 }
            // Everybody was blind: the leases may have run out because nobody could refresh them.
            if now < last || pause > timers.gapMax { partitions[partition].holdUntil = now + timers.hold }
        } else {
            partitions[partition].warmUntil = now + timers.hold
        }
        partitions[partition].lastSweep = now
        guard now >= partitions[partition].holdUntil else { return 0 }

        var offline = 0
        var events: [PresenceChange] = []
        while let (due, user) = partitions[partition].deadlines.popFirst(dueBy: now) {
            // An entry that was overtaken by an earlier one, or of a record that is gone.
            guard user.queuedDue == due else { continue }
            user.queuedDue = .distantFuture
            if settle(user, partition: partition, events: &events, at: now) { offline += 1 }
            schedule(user, partition: partition)
            if events.count == 100 {
                feed(events, partition: partition)
                events = []
            }
        }
        feed(events, partition: partition)
        return offline
    }

    /// Ends what is due of one user; true when the user went offline by it.
    private func settle(_ user: MemoryUser, partition: Int, events: inout [PresenceChange], at now: Instant) -> Bool {
        var seen = now
        var why: Why
        if let ended = user.removeExpired(at: now) {
            // Last proven alive when the lease was last renewed.
            let ends = ended.leaseEnds.nanoseconds
            seen = Instant(nanoseconds: ends - min(ends, timers.lease.nanoseconds))
            why = Why(cause: .expired, ended)
        } else if let grace = user.grace, grace.ends <= now {
            seen = grace.began
            why = user.close.map { Why(cause: $0.cause, connection: $0.connection, node: $0.node, device: $0.device) } ?? Why(cause: .lost)
        } else {
            return false
        }
        why.sweeper = nodeName
        // Whatever it led to: what is over must not come due again.
        user.grace = nil
        guard user.hasConnections else {
            user.ends = now + timers.tombstoneTTL
            guard user.status != .offline else { return false }
            let before = become(.offline, user, why, floor: 0, seen: seen, at: now)
            tell(user, from: before, partition, &events, at: now)
            return true
        }
        if user.aggregate != user.status {
            let before = become(user.aggregate, user, why, floor: 0, seen: now, at: now)
            tell(user, from: before, partition, &events, at: now)
        }
        return false
    }

    /// The state until then.
    private func become(
        _ status: PresenceStatus, _ user: MemoryUser, _ why: Why, floor: UInt64, seen: Instant?, at now: Instant
    ) -> PresenceStatus {
        let before = user.status
        user.become(
            status, at: seen.map { milliseconds(at: $0) } ?? 0, microseconds: microseconds(at: now), step: timers.versionStep, floor: floor)
        note(why, user, at: now)
        return before
    }

    /// A transition, for watchers and for backends.
    private func tell(_ user: MemoryUser, from before: PresenceStatus, _ partition: Int, _ events: inout [PresenceChange], at now: Instant)
    {
        events.append(user.change)
        hooks?.append(
            HookKind(from: before, to: user.status), user.name, status: user.status, version: user.version, time: user.changedAt,
            partition: partition, at: now)
    }

    private func note(_ why: Why, _ user: MemoryUser, at now: Instant) {
        guard timers.explainTTL > .zero else { return }
        user.note(why.transition(user.status, version: user.version, time: milliseconds(at: now)), until: now + timers.explainTTL)
    }

    /// What changes a state, for the trail.
    private struct Why {
        var cause: PresenceCause
        var connection = Name.empty
        var node = Name.empty
        var device = Name.empty
        var sweeper = Name.empty

        init(cause: PresenceCause, connection: Name = .empty, node: Name = .empty, device: Name = .empty) {
            self.cause = cause
            self.connection = connection
            self.node = node
            self.device = device
        }

        init(cause: PresenceCause, _ connection: MemoryUser.Connection) {
            self.init(cause: cause, connection: connection.connection, node: connection.node, device: connection.device)
        }

        func transition(_ status: PresenceStatus, version: UInt64, time: UInt64) -> PresenceTransition {
            PresenceTransition(
                status: status, cause: cause, version: version, time: time, sweeper: sweeper, connection: connection, node: node,
                device: device)
        }
    }

    /// Sees to it that the user is looked at when its next lease or its grace ends, not later.
    func schedule(_ user: MemoryUser, partition: Int) {
        let due = user.nextDue
        guard due < user.queuedDue else { return }
        user.queuedDue = due
        partitions[partition].deadlines.insert(user, due: due)
    }
}
