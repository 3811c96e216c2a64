import HubBase
import HubWire

// How the node's own users reach the store, and what the store says of the others.
extension MembersMachine {
    /// Puts the user in line if the store should hear of it.
    func touch(_ user: Name, in channel: MemberChannel, at now: Instant) {
        guard let member = channel.users[user], !member.isDirty else { return }
        guard !member.isSettled else {
            if member.isEmpty { channel.forget(user) }
            return
        }
        channel.users[user]?.isDirty = true
        channel.dirty.append(user)
        if channel.collectAt == nil && !channel.isInFlight { channel.collectAt = departure == nil ? now + MembersMachine.collect : now }
    }

    /// What the store was told may not be there any more: all of it is said again.
    private func sayAgain(_ channel: MemberChannel, besides said: [MemberCount] = [], at now: Instant, after span: Span) {
        let said = Set(said.lazy.map(\.user))
        for (user, member) in channel.users where member.stored != 0 && !said.contains(user) {
            channel.users[user]?.stored = LocalMember.unknown
            guard !member.isDirty else { continue }
            channel.users[user]?.isDirty = true
            channel.dirty.append(user)
        }
        if !channel.dirty.isEmpty && !channel.isInFlight { channel.collectAt = min(channel.collectAt ?? .distantFuture, now + span) }
    }

    func send(_ channel: MemberChannel, at now: Instant) {
        guard isUp, !channel.isInFlight, !channel.dirty.isEmpty else { return }
        var batch: [MemberCount] = []
        var rest: [Name] = []
        for user in channel.dirty {
            guard let member = channel.users[user] else { continue }
            guard !member.isSettled else {
                channel.users[user]?.isDirty = false
                if member.isEmpty { channel.forget(user) }
                continue
            }
            let count = MemberCount(user: user, devices: member.devices)
            // Those who leave go by themselves: that's never refused for want of memory.
            if batch.count < MemberLimits.changes, batch.first.map({ ($0.devices > 0) == (count.devices > 0) }) ?? true {
                // Until it's answered it's neither what it was nor what is wanted: who goes meanwhile, or comes back, is to be said too.
                channel.users[user]?.stored = LocalMember.unknown
                channel.users[user]?.isDirty = false
                batch.append(count)
            } else {
                rest.append(user)
            }
        }
        channel.dirty = rest
        channel.hasMore = !rest.isEmpty
        guard !batch.isEmpty else { return }
        channel.isInFlight = true
        // Who comes is there however late that's said.
        let mayBeLate = batch[0].devices > 0 || channel.mayBeLate
        let tag = open(.change(channel, batch, mayBeLate: mayBeLate), at: now)
        actions.append(.change(batch, channel: channel.name, known: channel.known, mayBeLate: mayBeLate, tag: tag))
        seeToRefresh(channel, at: now)
        // A call prolongs the lease.
        if departure != nil { refresh(channel, at: now) }
    }

    private func seeToRefresh(_ channel: MemberChannel, at now: Instant) {
        if channel.refreshAt == nil { channel.refreshAt = now + chance.span(in: timers.heartbeat.scaled(by: 0.5)..<timers.heartbeat) }
    }

    package func changed(_ result: Result<MembersTip, WireError>, tag: RequestTag, at now: Instant) {
        guard owns(tag), let request = requests.removeValue(forKey: tag.low) else { return }
        guard case .change(let channel, let batch, _) = request, case .success(let tip) = result else {
            return failed(request, result.error, at: now)
        }
        channel.isInFlight = false
        channel.lastCall = tag.low
        // If the channel has begun anew since, it was said for the beginning before. A store without the channel (0) has no members there.
        let counts = tip.begun == 0 || tip.begun >= channel.begun
        if batch[0].devices == 0 { channel.mayBeLate = false }
        for count in batch {
            if counts { channel.users[count.user]?.stored = Int64(count.devices) }
            if count.devices == 0 { channel.confirm(count.user) }
            touch(count.user, in: channel, at: now)
        }
        // A heartbeat that fell due while this was on its way found nobody here.
        if channel.hasMembers { seeToRefresh(channel, at: now) }
        if tip.isNew { sayAgain(channel, besides: batch, at: now, after: .zero) }
        if !channel.dirty.isEmpty {
            channel.collectAt = min(channel.collectAt ?? .distantFuture, now + (channel.hasMore ? .zero : MembersMachine.collect))
        }
        learn(channel, begun: tip.begun, sequence: tip.sequence, occupancy: tip.occupancy, at: now)
        schedule(channel)
        removeIfUnused(channel)
    }

    // MARK: Leases

    func refresh(_ channel: MemberChannel, at now: Instant) {
        guard isUp || departure != nil, channel.hasMembers || channel.followers != 0 || channel.isChecked else { return }
        channel.refreshAt = now + chance.span(in: timers.heartbeat.scaled(by: 0.9)..<timers.heartbeat.scaled(by: 1.1))
        // One at a time: the lease began when the store took the one that's under way, not when its answer comes.
        guard !channel.isRefreshing || departure != nil else {
            channel.owesRefresh = true
            return
        }
        channel.isRefreshing = true
        let role = role(in: channel, at: now)
        let cuts = if case .leaving = role { true } else { false }
        if cuts { departure?.underWay += 1 }
        actions.append(
            .refresh(channel: channel.name, role: role, known: channel.known, tag: open(.refresh(channel, cuts: cuts), at: now)))
    }

    package func refreshed(_ result: Result<MembersLease, WireError>, tag: RequestTag, at now: Instant) {
        guard owns(tag), let request = requests.removeValue(forKey: tag.low) else { return }
        guard case .refresh(let channel, let cuts) = request, case .success(let lease) = result else {
            return failed(request, result.error, at: now)
        }
        if cuts { departure?.underWay -= 1 }
        channel.isRefreshing = false
        channel.isChecked = false
        guard !channel.isGone else { return }
        if channel.owesRefresh { channel.refreshAt = now }
        channel.owesRefresh = false
        if !lease.isKnown { sayAgain(channel, at: now, after: .zero) }
        learn(channel, begun: lease.begun, sequence: lease.sequence, occupancy: lease.occupancy, at: now)
        if channel.reaps == 0 {
            for node in lease.dead {
                channel.reaps += 1
                actions.append(.reap(node: node, channel: channel.name, tag: open(.reap(channel), at: now)))
            }
        }
        if let end = lease.othersEnd {
            // Whoever of the living comes first takes the dead one out; not all at once.
            let spread = min(.seconds(1), timers.heartbeat.scaled(by: 0.125))
            let at = now + end + chance.span(in: .milliseconds(1)..<max(spread, .milliseconds(2)))
            channel.refreshAt = min(channel.refreshAt ?? .distantFuture, at)
        }
        schedule(channel)
        removeIfUnused(channel)
    }

    /// There are as many as followers were shown, unless this number stands for two states.
    private func compare(_ channel: MemberChannel, _ occupancy: UInt64, at now: Instant) {
        channel.occupancy = occupancy
        guard let view = channel.view, view.isLoaded else { return }
        if view.mode == .counts {
            if view.shownCount != occupancy { scheduleFlush(channel, at: now) }
        } else if UInt64(view.members.count) != occupancy, !channel.isWarm(at: now) {
            channel.readAt = channel.readAt ?? now
        }
    }

    /// One number stands for two states: the store went back, and others have moved it on to where it was. The next one is above both, and makes
    /// the channel begin anew, behind whatever it has moved to by then.
    func outgrow(_ channel: MemberChannel, at now: Instant) {
        channel.sequence += MembersMachine.leap
        check(channel, at: now)
    }

    /// What's heard or read doesn't fit what's known: a lease, which says what that is, decides.
    func check(_ channel: MemberChannel, at now: Instant) {
        channel.refreshAt = min(channel.refreshAt ?? .distantFuture, now + chance.span(in: .zero..<MembersMachine.collect))
        schedule(channel)
    }

    package func reaped(_ result: Result<Int, WireError>, tag: RequestTag, at now: Instant) {
        guard owns(tag), let request = requests.removeValue(forKey: tag.low) else { return }
        guard case .reap(let channel) = request, case .success(let count) = result else { return failed(request, result.error, at: now) }
        channel.reaps -= 1
        numbers.reaped += UInt64(count)
    }

    // MARK: Sweeps

    /// Channels whose nodes have all died are looked after by whoever lives. Every node sweeps every partition; the more nodes, the rarer each.
    func sweep(at now: Instant) {
        guard isUp, departure == nil, now.since(sweepsScanned) >= .milliseconds(10) else { return }
        sweepsScanned = now
        for partition in sweeps.indices where sweeps[partition].next <= now {
            sweeps[partition].next = now + chance.span(in: timers.pauses(between: timers.memberSweepInterval, nodes: nodesLive))
            guard !sweeps[partition].isUnderWay else { continue }
            sweeps[partition].isUnderWay = true
            actions.append(.sweep(partition: partition, tag: open(.sweep(partition: partition), at: now)))
        }
    }

    package func swept(_ result: Result<MembersSwept, WireError>, tag: RequestTag, at now: Instant) {
        guard owns(tag), let request = requests.removeValue(forKey: tag.low) else { return }
        guard case .sweep(let partition) = request, case .success(let swept) = result else { return failed(request, result.error, at: now) }
        sweeps[partition].isUnderWay = false
        numbers.reaped += UInt64(swept.users)
    }

    // MARK: Failure

    func failed(_ request: Request, _ error: WireError, at now: Instant) {
        numbers.failures += 1
        switch request {
        case .change(let channel, let batch, let mayBeLate):
            // Whether it took effect isn't known; what is so by then goes out again.
            channel.isInFlight = false
            let isAwaited = batch[0].devices == 0 && (!isUp || !mayBeLate)
            if isAwaited {
                channel.mayBeLate = true
                // Those who would have left behind it, too.
                awaitAgain(in: channel, at: now)
            }
            for count in batch where !isAwaited || !awaitAgain(count.user, in: channel, at: now) { touch(count.user, in: channel, at: now) }
            // What waits behind a late one, as who is back, waits no longer.
            channel.collectAt = now + (isAwaited ? MembersMachine.collect : MembersMachine.pace)
            schedule(channel)
        case .refresh(let channel, let cuts):
            channel.isRefreshing = false
            channel.owesRefresh = false
            guard !cuts else { return notCut(channel, error, at: now) }
            channel.refreshAt = min(channel.refreshAt ?? .distantFuture, now + MembersMachine.pace)
            schedule(channel)
        case .reap(let channel): channel.reaps -= 1
        case .sweep(let partition): sweeps[partition].isUnderWay = false
        case .list(let channel, let view): listFailed(channel, view, at: now)
        case .page(let tag, let name): actions.append(.page(.failure(error), channel: name, tag: tag))
        }
    }

    package func storeHealth(_ health: BackendHealth, at now: Instant) {
        let wasUp = isUp
        isUp = health == .up
        guard isUp != wasUp else { return }
        guard isUp else {
            for id in answers.keys.sorted() { giveAnswer(id) }
            for channel in channels.values { awaitAgain(in: channel, at: now) }
            return
        }
        for partition in sweeps.indices { sweeps[partition].next = now + chance.span(in: .zero..<timers.memberSweepInterval.scaled(by: 2)) }
        awaitAnew(dueBy: .distantFuture, at: now)
        let spread = min(.seconds(5), timers.heartbeat.scaled(by: 1.0 / 6))
        // It may have gone back to when these had somebody.
        while let one = emptied.popFirst() {
            let channel = channel(one.channel)
            channel.isChecked = true
            channel.sequence = max(channel.sequence, one.known.sequence)
            channel.lastCall = max(channel.lastCall, one.known.call)
        }
        for channel in channels.values {
            if !channel.dirty.isEmpty && !channel.isInFlight { channel.collectAt = now }
            channel.refreshAt = now + chance.span(in: .zero..<spread)
            // What was told meanwhile wasn't heard.
            if channel.view != nil { channel.readAt = now + chance.span(in: .zero..<min(.seconds(1), spread)) }
            schedule(channel)
        }
    }

    /// Whether the store owes answers and has said nothing for `silence`; before each tick. Nobody is said to have left meanwhile: if it stood
    /// still, nobody could say elsewhere that they're back either.
    package func storeSilence(_ isSilent: Bool, at now: Instant) {
        guard isSilent != (silentSince != nil) else { return }
        let since = silentSince
        silentSince = isSilent ? now : nil
        guard let since, now.since(since) + MembersMachine.silence >= MembersMachine.standstill else { return }
        awaitAnew(dueBy: now, at: now)
        for channel in channels.values where !channel.mayBeLate {
            if awaitAgain(in: channel, at: now) { channel.mayBeLate = true }
        }
    }

    /// Users who have left, which isn't said yet. (Of a call that is under way its answer tells.)
    @discardableResult private func awaitAgain(in channel: MemberChannel, at now: Instant) -> Bool {
        guard !channel.unconfirmed.isEmpty else { return false }
        var isAny = false
        for user in channel.unconfirmed.keys.sorted(by: { $0.bytes.lexicographicallyPrecedes($1.bytes) }) {
            if channel.users[user]?.isDirty == true, awaitAgain(user, in: channel, at: now) { isAny = true }
        }
        return isAny
    }

    /// That the user has left didn't get through, or came too late: nobody could say elsewhere meanwhile that they're back, so that they have the
    /// grace once more. It isn't said again that they're there: if the store took it after all, they have left. False where nobody is awaited.
    @discardableResult private func awaitAgain(_ user: Name, in channel: MemberChannel, at now: Instant) -> Bool {
        guard let end = channel.unconfirmed.removeValue(forKey: user), channel.users[user]?.devices == 0 else { return false }
        let until = now + timers.grace
        channel.users[user]?.awaitAgain(end.connection, device: end.device, until: until)
        lingering.append((channel.name, user, end.connection, until))
        guard departure != nil else { return true }
        departure?.until = until
        refresh(channel, at: now)
        return true
    }

    /// As of users (presence.md): nobody could say elsewhere meanwhile that they're back.
    private func awaitAnew(dueBy end: Instant, at now: Instant) {
        for _ in 0..<lingering.count {
            guard var next = lingering.first, next.until <= end else { return }
            _ = lingering.popFirst()
            next.until = now + timers.grace
            lingering.append(next)
        }
    }

    // MARK: What the store knows

    /// An answer says where the channel stands. Who follows hears it from the channel itself, or has missed it.
    func learn(_ channel: MemberChannel, begun: UInt64, sequence: UInt64, occupancy: UInt64, at now: Instant) {
        if begun != channel.begun {
            if begun == 0 {
                // It knows nothing of the channel, or the answer is late: the list tells.
                if channel.view != nil { channel.readAt = channel.readAt ?? now }
                return
            }
            guard sequence >= channel.known.sequence else { return check(channel, at: now) }
            beganAnew(channel, begun, at: now)
            // Its beginning may not have been heard, nor what followed.
            if channel.view != nil { channel.readAt = channel.readAt ?? now + MembersMachine.collect }
        }
        guard sequence > channel.sequence else {
            if sequence == channel.sequence { compare(channel, occupancy, at: now) }
            return
        }
        if channel.view == nil {
            channel.sequence = sequence
            channel.occupancy = occupancy
        } else {
            channel.expected = max(channel.expected, sequence)
            channel.expectAt = channel.expectAt ?? now + MembersMachine.heardWithin
        }
    }

    /// The store knows nothing of before. Members whom followers were shown aren't gone: their nodes say so again, within a hold. `begun` is 0
    /// when it knows nothing at all.
    func beganAnew(_ channel: MemberChannel, _ begun: UInt64, at now: Instant) {
        let isFirst = channel.begun == 0
        channel.begun = begun
        channel.expected = 0
        guard !isFirst else { return }
        channel.sequence = begun == 0 ? channel.sequence + 1 : max(channel.sequence, begun)
        channel.occupancy = 0
        if let view = channel.view, view.isLoaded, view.mode == .counts || !view.members.isEmpty { channel.warmUntil = now + timers.hold }
    }

    package func heard(_ news: MembersNews, channel name: Name, at now: Instant) {
        guard let channel = channels[name] else { return }
        if case .rejoin(let by) = news.kind {
            // One below what's known is that of a store that went back: a lease makes it begin above.
            guard news.sequence >= channel.known.sequence || news.sequence == channel.begun else { return check(channel, at: now) }
            if news.sequence != channel.begun { beganAnew(channel, news.sequence, at: now) }
            channel.sequence = max(channel.sequence, news.sequence)
            // Whoever found out has begun to.
            if by != node { sayAgain(channel, at: now, after: chance.span(in: .zero..<MembersMachine.collect)) }
        } else {
            hear(news, channel, at: now)
        }
        schedule(channel)
    }
}

extension Result where Failure == WireError {
    fileprivate var error: WireError {
        if case .failure(let error) = self { return error }
        return WireError(.internal, "an answer to another question")
    }
}
