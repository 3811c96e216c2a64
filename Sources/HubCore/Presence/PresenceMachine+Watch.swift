import HubBase
import HubWire

// What this node's clients watch: a copy of the watched users' states, kept current by the partitions' feeds.
extension PresenceMachine {
    /// Asked again for the same loop and user, it only answers again.
    package mutating func watch(_ names: [Name], loop: Int, tag: RequestTag, at now: Instant) {
        precondition(loop >= 0 && loop < PresenceMachine.loopsMax, "loop \(loop)")
        var batches: [UInt64] = []
        if followsUsers {
            let new = names.filter { name in users.place(of: name).map { !users[$0].isWatched } ?? true }
            if !new.isEmpty { actions.append(.follow(new)) }
        }
        for name in names {
            let place = users.insert(name)
            users[place].watchers |= 1 << UInt64(loop)
            guard users[place].knowledge == .none, isUp else { continue }
            if users[place].batch == 0 { readAgain(place) }
            if !batches.contains(users[place].batch) { batches.append(users[place].batch) }
        }
        let watch = PendingWatch(tag: tag, users: names, batches: batches.count)
        if batches.isEmpty { answer(watch) } else { watches.wait(watch, for: batches) }
    }

    package mutating func unwatch(_ names: [Name], loop: Int) {
        precondition(loop >= 0 && loop < PresenceMachine.loopsMax, "loop \(loop)")
        var left: [Name] = []
        defer { if followsUsers && !left.isEmpty { actions.append(.unfollow(left)) } }
        for name in names {
            guard let place = users.place(of: name), users[place].isWatched else { continue }
            users[place].watchers &= ~(1 << UInt64(loop))
            if !users[place].isWatched {
                // Nobody follows the feed for it any more.
                left.append(name)
                users[place].knowledge = .none
                // A read under way may be older than what isn't heard from now on: who watches next has it read anew.
                users[place].batch = 0
                users[place].isAnswered = false
                // What was known goes too: kept for who has connections here alone, it would tell an invisible user from one who is gone, once the
                // store has lost the record.
                users[place].status = .offline
                users[place].version = 0
                users[place].lastSeen = 0
            }
            users.removeIfUnused(place)
        }
    }

    private mutating func answer(_ watch: PendingWatch) {
        var isStale = watch.isStale || isStale
        let changes = watch.users.map { name in
            guard let place = users.place(of: name), users[place].isWatched else {
                return PresenceChange(user: name, status: .offline, version: 0, lastSeen: 0)
            }
            users[place].isAnswered = true
            if users[place].isUnreadable { isStale = true }
            return users[place].change
        }
        actions.append(.watchAnswer(tag: watch.tag, changes: changes, isStale: isStale))
    }

    /// The store is away: who waits gets what is known. What isn't will be read when it is back.
    mutating func answerStale() {
        for watch in watches.giveUp() { answer(watch) }
    }

    // MARK: The feeds

    package mutating func changed(_ changes: [PresenceChange], partition: Int, gap: Bool, at now: Instant) {
        if gap && partitions.indices.contains(partition) {
            partitions[partition].hasGap = true
            watches.hasGap = true
            askWhetherLost(partition, at: now)
        }
        var news: [PresenceChange] = []
        for change in changes {
            ends.told(change)
            guard let place = users.place(of: change.user) else { continue }
            judge(change, of: place, at: now)
            if mayBeHalf(change, of: place, at: now) { continue }
            learn(change, of: place, news: &news)
        }
        if !news.isEmpty { actions.append(.changed(news)) }
    }

    /// Takes what is newer, and adds it to `news` when watchers here must hear of it: not of a record that was written again, which says the same
    /// by a version of its own.
    private mutating func learn(_ change: PresenceChange, of place: Int, news: inout [PresenceChange]) {
        users[place].floor = max(users[place].floor, change.version)
        guard users[place].isWatched, change.version > users[place].version else { return }
        let isNews = change.status != users[place].status || change.status == .offline && change.lastSeen != users[place].lastSeen
        users[place].status = change.status
        users[place].version = change.version
        users[place].lastSeen = change.lastSeen
        users[place].knowledge = .current
        if users[place].isAnswered && isNews { news.append(users[place].change) }
    }

    /// From now on these users' transitions are heard; what was before must be read. A read under way may be older than that.
    package mutating func followed(_ names: [Name]) {
        for name in names {
            guard let place = users.place(of: name), users[place].isWatched, !watches.isUnsent(users[place].batch) else { continue }
            readAgain(place)
        }
    }

    // MARK: Reading

    /// Puts the user in line to be read, unless it waits there already.
    mutating func readAgain(_ place: Int) { users[place].batch = watches.append(users[place].name) }

    /// Users whose state has to be asked for by now.
    mutating func findUnread(at now: Instant) {
        while let next = watches.retries.first, next.at <= now {
            _ = watches.retries.popFirst()
            if let place = users.place(of: next.user), users[place].isWatched, users[place].batch == 0 { readAgain(place) }
        }
        while let next = watches.halves.first, next.at <= now {
            _ = watches.halves.popFirst()
            if let place = users.place(of: next.user), users[place].isWatched, !watches.isUnsent(users[place].batch) { readAgain(place) }
        }
        while let next = watches.suspects.first, next.at <= now {
            _ = watches.suspects.popFirst()
            guard let place = users.place(of: next.user), users[place].isWatched, users[place].knowledge == .suspect else { continue }
            // Cleared and suspected anew since: that has its own entry.
            guard users[place].suspectedAt + timers.hold <= now else { continue }
            users[place].knowledge = .suspectDue
            readAgain(place)
        }
        for _ in 0..<auditWalk.steps(over: users.capacity, at: now) {
            let place = auditWalk.next(of: users.capacity)
            if users.isUsed(place), users[place].isWatched, users[place].batch == 0 { readAgain(place) }
        }
    }

    mutating func sendReads(at now: Instant) {
        if watches.hasGap { readGaps() }
        while let batch = watches.next() {
            actions.append(.read(batch.users, tag: open(.read(batch), at: now)))
        }
    }

    /// One walk over the users for all gaps together. A read under way may be older than the gap, so it doesn't count.
    private mutating func readGaps() {
        watches.hasGap = false
        for place in 0..<users.capacity where users.isUsed(place) && users[place].isWatched {
            if partitions[Int(users[place].partition)].hasGap && !watches.isUnsent(users[place].batch) { readAgain(place) }
        }
        for partition in partitions.indices { partitions[partition].hasGap = false }
    }

    package mutating func read(_ result: Result<PresenceSnapshot, WireError>, tag: RequestTag, at now: Instant) {
        guard owns(tag), case .read(let batch)? = requests.removeValue(forKey: tag.low) else { return }
        var snapshot: PresenceSnapshot?
        if case .success(let value) = result, value.changes.count == batch.users.count { snapshot = value }
        var news: [PresenceChange] = []
        for (index, name) in batch.users.enumerated() {
            guard let place = users.place(of: name) else { continue }
            let isLatest = users[place].batch == batch.number
            if isLatest { users[place].batch = 0 }
            guard users[place].isWatched else { continue }
            users[place].isUnreadable = snapshot?.unreadable.contains(name) ?? false
            guard let snapshot, !users[place].isUnreadable else {
                watches.retries.append((user: name, at: now + PresenceMachine.pace))
                continue
            }
            take(snapshot.changes[index], isWarming: snapshot.isWarming, isLatest: isLatest, of: place, news: &news, at: now)
        }
        if !news.isEmpty { actions.append(.changed(news)) }
        for watch in watches.finish(batch, failed: snapshot == nil) { answer(watch) }
    }

    /// A missing record isn't yet an offline user: it may be lost, and its node about to write it again. Only when it is still missing a
    /// hold later, and the store isn't filling again, the watchers are told; nobody else can, as the record that would have ended is gone.
    ///
    /// A record behind what was told, in another state, is a suspicion too: the answer may be older than the news, or the store came back
    /// without its last writes, and nobody who knows of them writes. Still so a hold later, in an answer that was asked for then, the store's
    /// state is told.
    private mutating func take(
        _ change: PresenceChange, isWarming: Bool, isLatest: Bool, of place: Int, news: inout [PresenceChange], at now: Instant
    ) {
        let isMissing = change.version == 0
        let contradicts = isMissing && users[place].version > 0 && users[place].status != .offline
        let isBehind = !isMissing && change.version < users[place].version && change.status != users[place].status
        guard contradicts || isBehind || (isMissing && isWarming) else {
            if mayBeHalf(change, of: place, at: now) { return }
            users[place].knowledge = .current
            learn(change, of: place, news: &news)
            return
        }
        guard users[place].knowledge == .suspectDue else {
            if users[place].knowledge != .suspect { suspect(place, at: now) }
            return
        }
        if isMissing && isWarming || isBehind && (!isLatest || ends.isBeingRepeated(users[place].name)) {
            // The user's hold is over, and the store's ends a moment later: its first sweep came after the first read.
            watches.retries.append((user: users[place].name, at: now + PresenceMachine.pace))
        } else if contradicts, hasNobodyToShow(place) {
            var offline = users[place].change
            offline.status = .offline
            offline.version &+= 1
            learn(offline, of: place, news: &news)
        } else if isBehind {
            var state = change
            state.version = users[place].version &+ 1
            learn(state, of: place, news: &news)
        } else {
            suspect(place, at: now)
        }
    }

    /// Who was online and is away, while nodes may still have to register again: perhaps only the device that is away was so far. Told once they had
    /// their time, if it's still so: read again then.
    private mutating func mayBeHalf(_ change: PresenceChange, of place: Int, at now: Instant) -> Bool {
        guard users[place].isWatched, users[place].status == .online, change.status == .away, change.version > users[place].version
        else { return false }
        let partition = Int(users[place].partition)
        let never = Instant(nanoseconds: 0)
        let until = max(partitions[partition].newUntil ?? never, partitions[partition].unsureUntil ?? never)
        guard now < until else { return false }
        partitions[partition].hasHalves = true
        watches.halves.append((user: users[place].name, at: until))
        return true
    }

    private mutating func suspect(_ place: Int, at now: Instant) {
        users[place].knowledge = .suspect
        users[place].suspectedAt = now
        watches.suspects.append((user: users[place].name, at: now + timers.hold))
    }

    /// Whether all connections of the user here are invisible, and the store knows it: then nothing here will write a state for others. Cost: a look
    /// at the partition's leases where there are connections.
    private func hasNobodyToShow(_ place: Int) -> Bool {
        let count = users[place].connections
        if count == 0 { return true }
        var hidden: Int32 = 0
        for lease in partitions[Int(users[place].partition)].leases {
            let connection = connections[Int(lease)]
            if Int(connection.user) == place && connection.phase == .open && connection.errand == .none && connection.state == .invisible
                && connection.stored == .holds(.invisible)
            {
                hidden += 1
            }
        }
        return hidden == count
    }
}
