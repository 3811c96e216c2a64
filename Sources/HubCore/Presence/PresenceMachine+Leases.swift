import HubBase
import HubWire

// Time: heartbeats, sweeps, announcements, idleness; and whether the store is there.
extension PresenceMachine {
    /// At least every 100 ms; more often costs little.
    package mutating func tick(at now: Instant) {
        watchSoundness(at: now)
        endRequests(at: now)
        endCooling(at: now)
        if let settlesAt, settlesAt <= now { self.settlesAt = nil }
        if isUp {
            upUntil = now
            ends.forget(before: now)
            retryEnds(at: now)
        }
        // What follows looks at every partition: not more than a hundred times a second.
        guard now.since(scannedAt) >= .milliseconds(10) else { return }
        scannedAt = now
        findIdle(at: now)
        guard isUp else { return }
        for partition in partitions.indices {
            if partitions[partition].nextHeartbeat <= now { heartbeat(partition, at: now) }
            if partitions[partition].nextSweep <= now { sweep(partition, at: now) }
        }
        if announceAt <= now {
            announceAt = now + PresenceMachine.announceEvery
            actions.append(.announce(connections: UInt64(connectionCount), tag: open(.announce, at: now)))
        }
        findUnread(at: now)
    }

    private mutating func heartbeat(_ partition: Int, at now: Instant) {
        // After trouble everything is looked at.
        let coversRecords = partitions[partition].isHurried || partitions[partition].beatsUntilRecords <= 0
        partitions[partition].beatsUntilRecords = (coversRecords ? timers.beatsOfRecord : partitions[partition].beatsUntilRecords) - 1
        if partitions[partition].isHurried {
            partitions[partition].isHurried = false
            partitions[partition].nextHeartbeat = now + timers.heartbeat.scaled(by: Double(partition + 1) / Double(Partition.count))
        } else {
            partitions[partition].nextHeartbeat =
                now + chance.span(in: timers.heartbeat.scaled(by: 0.9)..<timers.heartbeat.scaled(by: 1.1))
        }
        let places = partitions[partition].leases
        var start = 0
        while start < places.count {
            let end = min(start + PresenceLimits.leases, places.count)
            let leases = places[start..<end].map { place in
                Lease(user: users[Int(connections[Int(place)].user)].name, connection: connections.name(Int(place)))
            }
            let tag = open(.refresh(partition: partition, leases: leases), at: now)
            actions.append(.refresh(LeaseRenewal(leases: leases, coversRecords: coversRecords), partition: partition, tag: tag))
            partitions[partition].doubtEndsWith = tag.low
            start = end
        }
        if places.isEmpty { partitions[partition].isDoubtful = false }
    }

    package mutating func refreshed(_ result: Result<[Int], WireError>, tag: RequestTag, at now: Instant) {
        guard owns(tag), case .refresh(let partition, let leases)? = requests.removeValue(forKey: tag.low) else { return }
        guard case .success(let missing) = result else {
            // Sooner than the next heartbeat, but not at once: two may fail before a lease ends.
            partitions[partition].nextHeartbeat = min(partitions[partition].nextHeartbeat, now + timers.heartbeat.scaled(by: 1.0 / 6))
            partitions[partition].isHurried = true
            soundSince = now
            return
        }
        for index in missing where leases.indices.contains(index) {
            guard let place = connections.place(of: leases[index].connection), connections[place].phase == .open else { continue }
            // What has an operation on its way is written by that; what isn't stored yet never had a lease to lose.
            guard case .holds = connections[place].stored, connections[place].errand == .none else { continue }
            connections[place].proof = .missing
            actions.append(.probe(connection: leases[index].connection))
        }
        if partitions[partition].isDoubtful && partitions[partition].doubtEndsWith == tag.low { endDoubt(partition) }
    }

    mutating func addLease(_ place: Int) {
        guard connections[place].leasePlace < 0 else { return }
        let partition = partition(of: place)
        connections[place].leasePlace = Int32(partitions[partition].leases.count)
        partitions[partition].leases.append(Int32(place))
    }

    mutating func removeLease(_ place: Int) {
        let leasePlace = Int(connections[place].leasePlace)
        guard leasePlace >= 0 else { return }
        connections[place].leasePlace = -1
        let partition = partition(of: place)
        let last = partitions[partition].leases.removeLast()
        if leasePlace < partitions[partition].leases.count {
            partitions[partition].leases[leasePlace] = last
            connections[Int(last)].leasePlace = Int32(leasePlace)
        }
    }

    // MARK: Sweeps and nodes

    /// Every node sweeps every partition; the more nodes, the rarer each, down to what one of them alone must do.
    private mutating func sweep(_ partition: Int, at now: Instant) {
        partitions[partition].nextSweep = now + chance.span(in: timers.pauses(between: timers.sweepInterval, nodes: nodes.count))
        guard !partitions[partition].isSweeping else { return }
        partitions[partition].isSweeping = true
        actions.append(.sweep(partition: partition, tag: open(.sweep(partition: partition), at: now)))
    }

    package mutating func swept(_ result: Result<Int, WireError>, partition: Int, tag: RequestTag, at now: Instant) {
        guard owns(tag), case .sweep(let partition)? = requests.removeValue(forKey: tag.low) else { return }
        let isOld = partitions[partition].isSweepOld
        partitions[partition].isSweeping = false
        partitions[partition].isSweepOld = false
        guard case .success = result else { return }
        if isOld {
            partitions[partition].nextSweep = now
            return
        }
        partitions[partition].unsureUntil = nil
        guard partitions[partition].hasHalves else { return }
        partitions[partition].hasHalves = false
        partitions[partition].hasGap = true
        watches.hasGap = true
    }

    /// The partition's feed has a hole: that of a message that was lost, or all data were. The next sweep says which, so it comes at once.
    mutating func askWhetherLost(_ partition: Int, at now: Instant) {
        partitions[partition].isSweepOld = partitions[partition].isSweeping
        // One that is being asked about already has its sweep, after an outage in its turn.
        guard partitions[partition].unsureUntil.map({ $0 <= now }) ?? true else { return }
        partitions[partition].unsureUntil = now + PresenceMachine.pace
        partitions[partition].nextSweep = now
    }

    package mutating func nodes(_ result: Result<[NodeEntry], WireError>, tag: RequestTag, at now: Instant) {
        guard owns(tag), case .announce? = requests.removeValue(forKey: tag.low), case .success(let entries) = result else { return }
        nodes = entries
    }

    // MARK: Idleness

    private mutating func findIdle(at now: Instant) {
        for _ in 0..<idleWalk.steps(over: connections.capacity, at: now) {
            let place = idleWalk.next(of: connections.capacity)
            guard connections.isUsed(place), connections[place].phase == .open, !connections[place].isIdle,
                now.since(connections[place].lastActivity) >= timers.awayAfter
            else { continue }
            connections[place].isIdle = true
            queueAnew(place)
        }
    }

    // MARK: The store's health

    package mutating func storeHealth(_ health: BackendHealth, at now: Instant) {
        switch health {
        case .up where !isUp:
            isUp = true
            soundSince = now
            announceAt = now
            // Leases may be about to end: renew all soon, spread so that the store isn't hit at once.
            for partition in partitions.indices {
                partitions[partition].nextHeartbeat = now + chance.span(in: .zero..<timers.refreshJitter)
                partitions[partition].isHurried = true
                partitions[partition].nextSweep = now + chance.span(in: .zero..<timers.sweepInterval.scaled(by: 2))
                // The feeds may have said what we didn't hear.
                partitions[partition].hasGap = true
                partitions[partition].unsureUntil = wasUp ? now + timers.refreshJitter + PresenceMachine.pace : nil
                doubt(partition)
            }
            watches.hasGap = true
            rewriteAcknowledged()
            endAgain()
            if wasUp { settledAt = now + timers.refreshJitter + PresenceMachine.pace }
            wasUp = true
        case .down where isUp:
            isUp = false
            softenLeaves()
            forgetRepeats()
            for place in waiters.keys.sorted() {
                refuseWaiters(of: place, PresenceMachine.frozen)
                queue(place)
            }
            answerStale()
        default: break
        }
    }

    /// A partition's data are gone, though the store was there all along: FLUSHALL, a key deleted by hand. Its last ends and its connections are
    /// written again soon, and whoever is watched is read again; who has no record when a hold has passed is gone.
    package mutating func lost(_ partition: Int, at now: Instant) {
        guard isUp, partitions.indices.contains(partition) else { return }
        soundSince = now
        partitions[partition].nextHeartbeat = min(partitions[partition].nextHeartbeat, now + chance.span(in: .zero..<timers.refreshJitter))
        partitions[partition].isHurried = true
        partitions[partition].hasGap = true
        doubt(partition)
        endAgain(of: partition)
        watches.hasGap = true
        settledAt = now + timers.refreshJitter + PresenceMachine.pace
        partitions[partition].newUntil = settledAt
    }

    /// The store has no room for anything new, or has again. What was refused meanwhile goes out again within `pace`.
    package mutating func storeFull(_ isFull: Bool, at now: Instant) {
        if self.isFull && !isFull { settlesAt = now + PresenceMachine.pace + PresenceMachine.pace }
        self.isFull = isFull
    }

    /// A store that never answers is taken to have refused; should the answer come after all, it is not heard.
    private mutating func endRequests(at now: Instant) {
        let error = WireError(.unavailable, "the presence store gave no answer", retryAfter: 2_000)
        while let next = requestEnds.first, next.at <= now || requests[next.id] == nil {
            _ = requestEnds.popFirst()
            let tag = RequestTag(high: tagSpace, low: next.id)
            switch requests[next.id] {
            case nil: break
            case .apply, .endAgain: applied(.failure(error), tag: tag, at: now)
            case .refresh: refreshed(.failure(error), tag: tag, at: now)
            case .sweep(let partition): swept(.failure(error), partition: partition, tag: tag, at: now)
            case .read: read(.failure(error), tag: tag, at: now)
            case .announce: nodes(.failure(error), tag: tag, at: now)
            }
        }
    }
}
