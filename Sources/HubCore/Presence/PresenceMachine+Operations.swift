import HubBase
import HubWire

// How connections' states reach the store.
extension PresenceMachine {
    /// Puts a connection in line if it needs an operation and may have one now. The pace is for changes of state: a close doesn't wait for it, nor
    /// does what the store has lost, since others may take the user for gone after a hold.
    mutating func queue(_ place: Int) {
        let connection = connections[place]
        guard connection.errand == .none, connection.needsOperation, !connection.isCooling || mayBeEarly(connection), mayBeWritten(place)
        else { return }
        connections[place].errand = .queued
        let partition = partition(of: place)
        partitions[partition].ready.append(Int32(place))
        activate(partition)
    }

    private func mayBeEarly(_ connection: PresenceConnection) -> Bool {
        guard connection.phase == .open else { return true }
        guard case .holds = connection.stored else { return false }
        return connection.proof == .given
    }

    /// The same for one that has changed. Where it stands in line already it goes behind those who came since: the user's other device may be among
    /// them, and was there before this one went, or turned away or invisible. Cost: a look along the partition's line.
    mutating func queueAnew(_ place: Int) {
        guard connections[place].errand == .queued else { return queue(place) }
        leaveLine(place)
        partitions[partition(of: place)].ready.append(Int32(place))
    }

    mutating func leaveLine(_ place: Int) { partitions[partition(of: place)].ready.removeAll { Int($0) == place } }

    /// Of a connection whose lease may be over nothing is written that came by itself, before the store has said that the lease stands, or the peer
    /// that it lives.
    private func mayBeWritten(_ place: Int) -> Bool {
        let connection = connections[place]
        guard connection.phase == .open, case .holds = connection.stored, waiters[place] == nil else { return true }
        switch connection.proof {
        case .given: return true
        case .missing: return false
        case .fine: return !partitions[partition(of: place)].isDoubtful
        }
    }

    mutating func activate(_ partition: Int) {
        guard !partitions[partition].isActive, !partitions[partition].isInFlight else { return }
        guard !partitions[partition].ready.isEmpty || !partitions[partition].endsAgain.isEmpty else { return }
        partitions[partition].isActive = true
        active.append(partition)
    }

    /// One call for each partition that has something queued and nothing in flight.
    mutating func sendOperations(at now: Instant) {
        // Every turn asks.
        guard !active.isEmpty else { return }
        let partitions = active
        active = []
        for partition in partitions { send(partition, at: now) }
    }

    private mutating func send(_ partition: Int, at now: Instant) {
        partitions[partition].isActive = false
        if !partitions[partition].endsAgain.isEmpty { return sendEnds(partition, at: now) }
        let ready = partitions[partition].ready
        var operations: [PresenceOperation] = []
        var places: [Int32] = []
        var taken = 0
        for place in ready {
            let isAlone = connections[Int(place)].isAlone
            if operations.count == PresenceLimits.operations || isAlone && !operations.isEmpty { break }
            taken += 1
            guard let operation = makeOperation(Int(place), at: now) else { continue }
            operations.append(operation)
            places.append(place)
            if isAlone { break }
        }
        partitions[partition].ready.removeFirst(taken)
        if operations.isEmpty { return activate(partition) }
        partitions[partition].isInFlight = true
        let tag = open(.apply(partition: partition, places: places), at: now)
        actions.append(.apply(operations, partition: partition, tag: tag))
    }

    /// nil when the connection came back to what the store holds before its turn.
    private mutating func makeOperation(_ place: Int, at now: Instant) -> PresenceOperation? {
        let connection = connections[place]
        let user = users[Int(connection.user)]
        guard connection.needsOperation else {
            connections[place].errand = .none
            answerWaiters(of: place, all: true, version: user.floor)
            return nil
        }
        guard mayBeWritten(place) else {
            connections[place].errand = .none
            return nil
        }
        let kind: PresenceOperation.Kind
        switch connection.phase {
        case .leaving: kind = .down(grace: .zero, ago: now.since(connection.lastActivity))
        case .left, .lost: kind = .down(grace: timers.grace, ago: now.since(connection.lastActivity))
        // A restoring writes no event for a lost record, so it may carry only what was known before.
        case .open: kind = connection.restores ? .restore(connection.state) : .up(connection.state)
        }
        // What is restored is nobody's change: it doesn't make the client's next one wait.
        if !connection.restores { startCooling(place, at: now) }
        connections[place].errand = connection.phase == .open ? .up(connection.state) : .down
        if connection.phase != .open { ends.expect(user.name) }
        if connection.phase == .open, waiters[place] != nil {
            for index in waiters[place]!.list.indices { waiters[place]!.list[index].isCarried = true }
        }
        let name = connections.name(place)
        return PresenceOperation(
            kind: kind, user: user.name, connection: name, node: node,
            device: connection.device.isEmpty ? DeviceName.standard(of: name) : connection.device,
            age: now.since(connection.cameAt), versionFloor: user.floor, isAsked: isAsked(place),
            isKnown: connection.phase == .open && connection.leasePlace >= 0, was: acknowledged(connection),
            loss: settledAt == nil ? .none : .seen)
    }

    /// Of an end: what the store may have lost.
    private func acknowledged(_ connection: PresenceConnection) -> ConnectionState? {
        guard connection.phase != .open, connection.leasePlace == PresenceConnection.hadLease, connection.state != .invisible
        else { return nil }
        return connection.state
    }

    /// By the client's wish, as far as is known: an operation that is tried again after a refusal has nobody who waits for it any more.
    private func isAsked(_ place: Int) -> Bool {
        switch connections[place].phase {
        case .leaving, .left: true
        case .lost: false
        case .open: connections[place].asked != .online || waiters[place] != nil
        }
    }

    package mutating func applied(_ result: Result<[UInt64], WireError>, tag: RequestTag, at now: Instant) {
        guard owns(tag) else { return }
        let request = requests.removeValue(forKey: tag.low)
        if case .endAgain(let partition, let ends)? = request { return endedAgain(result, partition, ends, at: now) }
        guard case .apply(let partition, let places)? = request else { return }
        partitions[partition].isInFlight = false
        switch result {
        case .success(let versions) where versions.count == places.count:
            for (place, version) in zip(places, versions) { stored(Int(place), version: version, at: now) }
        case .success(let versions):
            let error = WireError(.internal, "\(versions.count) answers to \(places.count) presence operations")
            for place in places { failed(Int(place), error, at: now) }
        case .failure(let error):
            // Not everybody's fault: somebody's record holds something else.
            let isSomebodys = error.code == .internal && places.count > 1
            for place in places {
                if isSomebodys { connections[Int(place)].isAlone = true }
                failed(Int(place), error, isFinal: !isSomebodys, at: now)
            }
        }
        activate(partition)
    }

    private mutating func stored(_ place: Int, version: UInt64, at now: Instant) {
        let user = Int(connections[place].user)
        users[user].floor = max(users[user].floor, version)
        let errand = connections[place].errand
        connections[place].errand = .none
        switch errand {
        case .down:
            ends.append(
                PresenceEnd(
                    user: users[user].name, connection: connections.name(place), isClean: connections[place].phase != .lost,
                    was: connections[place].state == .invisible ? nil : connections[place].state, device: connections[place].device,
                    cameAt: connections[place].cameAt, endedAt: connections[place].lastActivity, version: version, at: now))
            forget(place)
        case .up(let state):
            connections[place].stored = .holds(state)
            connections[place].proof = .fine
            connections[place].isAlone = false
            connections[place].acknowledgedAt = now
            if connections[place].phase == .open {
                addLease(place)
                answerWaiters(of: place, all: !connections[place].needsOperation, version: version)
                queue(place)
            } else {
                connections[place].errand = .queued
                connections[place].leasePlace = PresenceConnection.hadLease
            }
        case .none, .queued: preconditionFailure("an answer for a connection without an operation: \(errand)")
        }
    }

    /// Whether it took effect isn't known; the current state goes out again after the pace. `isFinal`: those who wait for it are told.
    private mutating func failed(_ place: Int, _ error: WireError, isFinal: Bool = true, at now: Instant) {
        switch connections[place].errand {
        case .down: ends.giveUp(users[Int(connections[place].user)].name)
        case .up where connections[place].phase != .open: leaveLine(place)
        default: break
        }
        // Only a refused restoring hasn't begun it.
        if connections[place].isRestoring { startCooling(place, at: now) }
        connections[place].errand = .none
        connections[place].stored = .unknown
        // Who left cleanly then may be back elsewhere by now.
        if connections[place].phase == .leaving { connections[place].phase = .left }
        if isFinal { refuseWaiters(of: place, error, onlyCarried: true) }
        // A refused close waits for the pace too.
        if !connections[place].isCooling { queue(place) }
    }

    private mutating func startCooling(_ place: Int, at now: Instant) {
        guard !connections[place].isCooling else { return }
        connections[place].isCooling = true
        cooling.append((place: Int32(place), generation: connections[place].generation, until: now + PresenceMachine.pace))
    }

    /// Connections whose pace allows the next operation.
    mutating func endCooling(at now: Instant) {
        while let next = cooling.first, next.until <= now {
            _ = cooling.popFirst()
            let place = Int(next.place)
            guard connections.isUsed(place, generation: next.generation) else { continue }
            connections[place].isCooling = false
            queue(place)
        }
    }

    /// The store is back, perhaps without its last writes: leases that are gone show with the next refresh, but a state that went back to an
    /// older one would stay (an invisible user shown to others). So each that was acknowledged lately is written again once its peer has shown
    /// that it lives; what holds already makes no event. Cost: a look at every connection.
    mutating func rewriteAcknowledged() {
        for place in 0..<connections.capacity where connections.isUsed(place) {
            guard let at = connections[place].acknowledgedAt else { continue }
            connections[place].acknowledgedAt = nil
            // While the store is away nothing is forgotten. Who waits in line may have come back to what was acknowledged, and send nothing.
            guard at + PresenceMachine.lossMax > upUntil, connections[place].phase == .open, connections[place].proof == .fine,
                connections[place].errand == .none || connections[place].errand == .queued, case .holds = connections[place].stored
            else { continue }
            connections[place].proof = .missing
            actions.append(.probe(connection: connections.name(place)))
        }
    }

    /// The connection is done with.
    mutating func forget(_ place: Int) {
        removeLease(place)
        waiters[place] = nil
        let user = Int(connections[place].user)
        connections.remove(place)
        users[user].connections -= 1
        users.removeIfUnused(user)
    }

    /// What waits in line when the store goes away may no longer make anybody offline at once when it is back.
    mutating func softenLeaves() {
        for partition in partitions.indices {
            for place in partitions[partition].ready where connections[Int(place)].phase == .leaving {
                connections[Int(place)].phase = .left
            }
        }
    }

    // MARK: Who waits

    mutating func answerWaiters(of place: Int, all: Bool, version: UInt64) {
        guard var waiting = waiters.removeValue(forKey: place) else { return }
        var left: [Waiter] = []
        for waiter in waiting.list {
            if all || waiter.isCarried {
                actions.append(.presenceAck(tag: waiter.tag, .success(version)))
                waiting.held = waiter.wish
            } else {
                left.append(waiter)
            }
        }
        waiting.list = left
        if !left.isEmpty { waiters[place] = waiting }
    }

    /// Who is refused is told so, and once nobody waits any more what was wished is what held before: a refused wish never takes effect later,
    /// least of all in place of an invisibility that was asked for since. Whether one that was on its way did isn't known; the next operation
    /// sets it right.
    mutating func refuseWaiters(of place: Int, _ error: WireError, onlyCarried: Bool = false) {
        guard var waiting = waiters.removeValue(forKey: place) else { return }
        var left: [Waiter] = []
        for waiter in waiting.list {
            if waiter.isCarried || !onlyCarried {
                actions.append(.presenceAck(tag: waiter.tag, .failure(error)))
            } else {
                left.append(waiter)
            }
        }
        waiting.list = left
        if left.isEmpty { connections[place].asked = waiting.held } else { waiters[place] = waiting }
    }
}
