import HubBase
import HubWire

// What the scripts *apply*, *find* and *expire* decide (redis-design §2, Scripts).
extension MemoryPresenceStore {
    /// The version of the user after the operation.
    func apply(_ operation: PresenceOperation, partition: Int, events: inout [PresenceChange], at now: Instant) -> UInt64 {
        switch operation.kind {
        case .up(let state): up(operation, state, isRestore: false, partition: partition, events: &events, at: now)
        case .restore(let state): up(operation, state, isRestore: true, partition: partition, events: &events, at: now)
        case .down(let grace, let ago, let told):
            down(operation, grace: grace, ago: ago, told: told, partition: partition, events: &events, at: now)
        }
    }

    private func up(
        _ operation: PresenceOperation, _ state: ConnectionState, isRestore: Bool, partition: Int, events: inout [PresenceChange],
        at now: Instant
    ) -> UInt64 {
        let user = user(operation.user, at: now) ?? makeUser(operation.user)
        let held = user.state(of: operation.connection)
        let cause = PresenceCause(of: operation, isNew: held == nil, hasRecord: user.wasSeen)
        let why = Why(cause: cause, connection: operation.connection, node: operation.node, device: operation.device)
        let moment = milliseconds(at: now)
        let since = user.since(of: operation.connection) ?? moment - min(moment, operation.age.milliseconds)
        user.set(
            MemoryUser.Connection(
                connection: operation.connection, node: operation.node, device: operation.device, state: state, since: since,
                leaseEnds: now + timers.lease))
        user.ends = .distantFuture
        defer { schedule(user, partition: partition) }
        let wasShown = held != nil && held != .invisible
        if state != .invisible && !wasShown && !isRestore { user.comeBack(operation.device, as: state) }
        if user.real != .offline {
            user.goodbye = nil
            if state == .invisible && wasShown {
                keepEnd(
                    user, Why(cause: .setInvisible, connection: why.connection, node: why.node, device: why.device), ended: now, at: now)
            } else if state != .invisible && !wasShown && user.awaited.isEmpty {
                user.close = nil
            }
        } else if !user.wasSeen {
            // Nobody has ever seen this user, or the record was lost since; nobody does now, so there's no state to keep, as of who is gone.
            return operation.versionFloor
        } else if user.status == .offline {
            return user.version
        } else if wasShown {
            // Turning invisible is leaving. One that's written again was invisible before: the record is an older one, and others may be missing in it.
            var notBefore = operation.knowsLoss || isRestore ? othersUntil(partition, at: now) : nil
            if isRestore && notBefore == nil { notBefore = now + min(timers.hold, MemoryPresenceStore.registerWithin) }
            if isToldLater(
                user, Why(cause: .setInvisible, connection: why.connection, node: why.node, device: why.device), partition, ended: now,
                notBefore: notBefore, at: now)
            {
                return user.version
            }
        } else if !user.awaited.isEmpty || user.goodbye != nil {
            // Whose last connection that counts may still come back: an invisible one is no coming back.
            return user.version
        }
        let aggregate = user.aggregate
        if !user.wasSeen {
            // A record that was lost is no transition; but once others had their time to register again, watchers may have been told that the user
            // is gone.
            let before = become(aggregate, user, why, floor: operation.versionFloor, seen: now, in: partition, at: now)
            if !isRestore {
                tell(user, from: before, partition, &events, at: now)
            } else if othersUntil(partition, at: now) == nil {
                events.append(user.change)
            }
        } else if aggregate != user.status {
            let before = become(aggregate, user, why, floor: operation.versionFloor, seen: now, in: partition, at: now)
            tell(user, from: before, partition, &events, at: now)
        } else if state != .invisible && operation.versionFloor > user.version {
            // Behind what the node knows, the record has lost its last changes: watchers would pass over what it says from now on.
            let version = nextVersion(of: user, floor: operation.versionFloor, partition, at: now)
            user.become(aggregate, at: user.changedAt, version: version)
            note(Why(cause: .restored, connection: why.connection, node: why.node, device: why.device), user, at: now)
            events.append(user.change)
        }
        return user.version
    }

    private func down(
        _ operation: PresenceOperation, grace: Span, ago: Span, told: PresenceChange? = nil, partition: Int,
        events: inout [PresenceChange], at now: Instant
    ) -> UInt64 {
        let ended = Instant(nanoseconds: now.nanoseconds - min(now.nanoseconds, ago.nanoseconds))
        let cause = PresenceCause(of: operation, isNew: false, hasRecord: true)
        var (grace, held) = (grace, user(operation.user, at: now))
        var lost: MemoryUser.Connection?
        var notBefore = operation.knowsLoss && operation.was != nil ? othersUntil(partition, at: now) : nil
        if held?.state(of: operation.connection) == nil, let was = lostConnection(operation, partition, at: now) {
            if let held, held.wasSeen, operation.isRepeated || held.status == .offline {
                if held.status != .offline { keepEnd(held, Why(cause: cause, was), ended: ended, at: now) }
                return held.version
            }
            if held?.wasSeen != true {
                // Whoever was told that the user is gone knows it.
                guard told == nil else { return 0 }
                let user = held ?? makeUser(operation.user)
                let version = nextVersion(of: user, floor: operation.versionFloor, partition, at: now)
                user.become(was.state == .online ? .online : .away, at: was.since, version: version)
                held = user
                if operation.isRepeated, operation.isAsked || ago >= grace { grace = .zero }
            }
            notBefore = othersUntil(partition, at: now)
            lost = was
        }
        guard let user = held else { return 0 }
        guard let gone = lost ?? user.remove(operation.connection) else { return user.version }
        let why = Why(cause: cause, gone)
        let isOver = user.real == .offline
        if isOver && user.status == .offline {
            if !user.hasConnections { bury(user, at: now) }
            return user.version
        }
        // What was told is lost, and is what holds, unless the record has moved on. Who has heard it passes over the repetition.
        if isOver, let told, told.version > user.version {
            user.stay()
            let before = user.status
            user.become(.offline, at: told.lastSeen, version: told.version)
            if timers.versionStep > 1 { partitions[partition].top = max(told.version, partitions[partition].top ?? 0) }
            if !user.hasConnections { bury(user, at: now) }
            note(why, user, at: ended)
            tell(user, from: before, partition, &events, at: now)
            return user.version
        }
        // Beside others: it was told then, and is lost.
        if operation.loss == .over && !isOver { grace = .zero }
        if gone.state == .invisible {
            // It isn't the one that is waited for.
            if isOver && (!user.awaited.isEmpty || user.goodbye != nil) { return user.version }
        } else if grace > .zero && user.status != .offline {
            // Whoever else is there may go, or be away, before it's back: it counts until then.
            user.wait(for: gone, until: now + grace, cause: why.cause)
            keepEnd(user, why, ended: ended, at: now)
            if isOver, let notBefore { user.goodbye = notBefore }
            schedule(user, partition: partition)
            return user.version
        } else if isOver && isToldLater(user, why, partition, ended: ended, notBefore: notBefore, at: now) {
            return user.version
        }
        if !user.hasConnections { bury(user, at: now) }
        if !isOver && gone.state != .invisible { keepEnd(user, why, ended: ended, at: now) }
        let aggregate = user.aggregate
        if aggregate != user.status {
            let last = isOver && gone.state != .invisible ? lastEnd(user, why, ended: ended, at: now) : (why: why, at: now)
            let before = become(aggregate, user, last.why, floor: operation.versionFloor, seen: last.at, in: partition, at: now)
            tell(user, from: before, partition, &events, at: now)
        }
        return user.version
    }

    /// What the store has lost, as its node knows it; nil where a connection that's missing doesn't say that it was lost, or it counted for nobody.
    private func lostConnection(_ operation: PresenceOperation, _ partition: Int, at now: Instant) -> MemoryUser.Connection? {
        guard let was = operation.was, was != .invisible, othersUntil(partition, at: now) != nil else { return nil }
        let moment = milliseconds(at: now)
        return MemoryUser.Connection(
            connection: operation.connection, node: operation.node, device: operation.device, state: was,
            since: moment - min(moment, operation.age.milliseconds), leaseEnds: now)
    }

    /// Where data were lost: until when others may have to register again, so that nobody is declared offline by the ends of those who have.
    private func othersUntil(_ partition: Int, at now: Instant) -> Instant? {
        if partitions[partition].lastSweep == nil { return now + timers.hold }
        return now < partitions[partition].warmUntil ? partitions[partition].warmUntil : nil
    }

    /// So long nodes take at most to write their connections again once the store is back.
    private static let registerWithin = Span.seconds(7)

    /// Of the ends of connections that counted the last one: ends come in any order, as a node may be late. A time to come was written by a clock
    /// that has gone back.
    private func lastEnd(_ user: MemoryUser, _ why: Why, ended: Instant, at now: Instant) -> (why: Why, at: Instant) {
        guard let close = user.close, close.at > ended, close.at <= now else { return (why, ended) }
        return (Why(close.transition), close.at)
    }

    private func keepEnd(_ user: MemoryUser, _ why: Why, ended: Instant, at now: Instant) {
        let last = lastEnd(user, why, ended: ended, at: now)
        user.close = (transition: last.why.transition(.offline, version: 0, time: milliseconds(at: last.at)), at: last.at)
    }

    /// The last that counted is gone, by a goodbye or because it's invisible now: is that to be told later? It is where one is awaited, and
    /// while others may still have to register again: until `notBefore`, where it's known that data were lost.
    private func isToldLater(
        _ user: MemoryUser, _ why: Why, _ partition: Int, ended: Instant, notBefore: Instant?, at now: Instant
    ) -> Bool {
        let isHeld = notBefore != nil || now < partitions[partition].holdUntil || now < partitions[partition].warmUntil
        guard isHeld || !user.awaited.isEmpty else { return false }
        if user.awaited.isEmpty || notBefore != nil { user.goodbye = notBefore ?? now }
        keepEnd(user, why, ended: ended, at: now)
        schedule(user, partition: partition)
        return true
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
            if partitions[partition].isOther { outputs.append(.lost(partition)) }
            partitions[partition].isOther = false
        }
        partitions[partition].lastSweep = now
        // Where the versions of new records begin that tell no moment of their own: above whatever was before this partition's data.
        if partitions[partition].top == nil { partitions[partition].top = microseconds(at: now) }
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
        let hadConnections = user.hasConnections
        let last = user.close
        let over = user.removeAwaited(at: now)
        let ended = user.removeExpired(at: now)
        let waited = user.goodbye.map { $0 <= now } ?? false
        // Last proven alive when the lease was last renewed.
        let proved = ended.map { Instant(nanoseconds: $0.leaseEnds.nanoseconds - min($0.leaseEnds.nanoseconds, timers.lease.nanoseconds)) }
        if let ended, let proved, user.real != .offline || !user.awaited.isEmpty {
            keepEnd(user, Why(cause: .expired, ended), ended: proved, at: now)
        }
        // Lost, or left, when that happened, not now.
        let close = over != nil || waited || ended != nil ? last : nil
        var seen = proved ?? now
        var why: Why
        if let close, user.real == .offline, close.at >= proved ?? close.at {
            seen = close.at
            why = Why(close.transition)
        } else if let ended {
            why = Why(cause: .expired, ended)
        } else if let over {
            why = Why(cause: over.cause, over.connection)
        } else if waited {
            why = Why(cause: .lost)
        } else {
            // At most invisible ones have ended: nobody's business.
            if hadConnections && !user.hasConnections && user.status == .offline { bury(user, at: now) }
            return false
        }
        if user.aggregate == .offline, user.goodbye.map({ $0 > now }) ?? false {
            // Others may still have to register again.
            if let ended, let proved { keepEnd(user, Why(cause: .expired, ended), ended: proved, at: now) }
            return false
        }
        why.sweeper = nodeName
        // Whatever it led to: what is over must not come due again.
        if waited { user.goodbye = nil }
        guard user.aggregate == .offline else {
            if user.aggregate != user.status {
                let before = become(user.aggregate, user, why, floor: 0, seen: now, in: partition, at: now)
                tell(user, from: before, partition, &events, at: now)
            }
            return false
        }
        user.stay()
        if !user.hasConnections { bury(user, at: now) }
        guard user.status != .offline else { return false }
        let before = become(.offline, user, why, floor: 0, seen: seen, in: partition, at: now)
        tell(user, from: before, partition, &events, at: now)
        return true
    }

    /// Nobody is there any more: what was last seen is remembered for a while. Of a user whom nobody ever saw there is nothing to remember.
    private func bury(_ user: MemoryUser, at now: Instant) {
        user.ends = user.wasSeen ? now + timers.tombstoneTTL : now
    }

    /// Of a record: it only grows, and tells no more of the time than last seen does. A record that is new may have been there and be lost: it
    /// begins above all that the partition has seen, and above the one version more that nodes give by themselves to who has no record.
    private func nextVersion(of user: MemoryUser, floor: UInt64, _ partition: Int, at now: Instant) -> UInt64 {
        let step = timers.versionStep
        var moment = microseconds(at: now)
        var least = user.version &+ 1
        if step > 1, user.wasSeen || partitions[partition].top != nil {
            moment -= moment % step
            if !user.wasSeen { least = (partitions[partition].top ?? 0) &+ 2 }
        }
        let version = max(least, moment, floor &+ 1)
        if step > 1 { partitions[partition].top = max(version, partitions[partition].top ?? 0) }
        return version
    }

    /// The state until then.
    private func become(
        _ status: PresenceStatus, _ user: MemoryUser, _ why: Why, floor: UInt64, seen: Instant, in partition: Int, at now: Instant
    ) -> PresenceStatus {
        let before = user.status
        let version = nextVersion(of: user, floor: floor, partition, at: now)
        user.become(status, at: milliseconds(at: seen), version: version)
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

        init(_ close: PresenceTransition) {
            self.init(cause: close.cause, connection: close.connection, node: close.node, device: close.device)
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
