import HubBase
import HubWire

// What this node's clients are shown of a channel's members.
extension MembersMachine {
    /// A loop has clients who follow the members of channels, from the answer on.
    package func follow(_ names: [Name], loop: Int, tag: RequestTag, at now: Instant) {
        var answer = Answer(tag: tag, channels: names)
        lastAnswer += 1
        for name in names where options(of: name).isOn {
            let channel = channel(name)
            channel.followers |= 1 << UInt64(truncatingIfNeeded: loop)
            if channel.view == nil {
                lastView += 1
                numbers.followed += 1
                channel.view = MembersView(number: lastView)
            }
            if channel.refreshAt == nil { channel.refreshAt = now + chance.span(in: timers.heartbeat.scaled(by: 0.5)..<timers.heartbeat) }
            if !isReady(channel, at: now), isUp {
                answer.lists += 1
                channel.view?.waiting.append(lastAnswer)
                read(channel, at: now)
            }
            schedule(channel)
        }
        answers[lastAnswer] = answer
        if answer.lists == 0 { giveAnswer(lastAnswer) } else { answerEnds.append((id: lastAnswer, at: now + MembersMachine.listWithin)) }
    }

    /// The loop has no followers of the channel any more.
    package func unfollow(_ name: Name, loop: Int) {
        guard let channel = channels[name] else { return }
        channel.followers &= ~(1 << UInt64(truncatingIfNeeded: loop))
        guard channel.followers == 0 else { return }
        if channel.view != nil { numbers.followed -= 1 }
        channel.view = nil
        channel.flushAt = nil
        channel.readAt = nil
        removeIfUnused(channel)
    }

    /// One page of a channel's members, for anybody.
    package func page(of name: Name, cursor: String?, tag: RequestTag, at now: Instant) {
        let options = options(of: name)
        guard options.isOn else {
            let error = WireError(
                .forbidden, "who is in channels of this namespace isn't kept (namespaces.NAME.presence, and never of inboxes)")
            return actions.append(.page(.failure(error), channel: name, tag: tag))
        }
        if cursor == nil, let channel = channels[name], let view = channel.view, view.isLoaded, view.mode != .counts {
            // As the asker is shown it: later frames follow it.
            return actions.append(.page(.success(shown(view)), channel: name, tag: tag))
        }
        guard isUp else { return actions.append(.page(.failure(MembersMachine.away), channel: name, tag: tag)) }
        actions.append(
            .list(
                channel: name, cursor: cursor ?? "0", limit: MemberLimits.page, whole: options.threshold,
                tag: open(.page(tag, name), at: now)))
    }

    /// Whether followers can be answered without a read.
    private func isReady(_ channel: MemberChannel, at now: Instant) -> Bool {
        guard let view = channel.view, view.isLoaded else { return false }
        return view.mode != .counts || (view.page != nil && now.since(view.pageAt) < MembersView.pageHolds)
    }

    func giveAnswer(_ id: UInt64) {
        guard let answer = answers.removeValue(forKey: id) else { return }
        let pages = answer.channels.map { (name) -> MembersPage? in
            guard let channel = channels[name], let view = channel.view else { return nil }
            if view.isLoaded, view.mode != .counts { return shown(view) }
            if view.isLoaded, let page = view.page, isUp {
                // Not less than followers were told since: nothing might follow that says it again.
                let occupancy = page.sequence < view.shown ? view.shownCount : page.occupancy
                return MembersPage(
                    members: page.members, occupancy: occupancy, sequence: max(page.sequence, view.shown), mode: .counts,
                    cursor: page.cursor)
            }
            // They get the list as soon as it can be had.
            channel.view?.owesList = true
            return nil
        }
        actions.append(.followed(pages, tag: answer.tag))
    }

    private func shown(_ view: MembersView) -> MembersPage {
        let members = view.asShown()
        return MembersPage(members: members, occupancy: UInt64(members.count), sequence: view.shown, mode: view.mode, isStale: !isUp)
    }

    // MARK: Reading

    func read(_ channel: MemberChannel, at now: Instant) {
        guard isUp, let view = channel.view, !view.isReading else { return }
        channel.view?.isReading = true
        channel.view?.begunAtRead = channel.begun
        channel.view?.held = []
        channel.view?.hasOverflowed = false
        channel.readAt = nil
        actions.append(
            .list(
                channel: channel.name, cursor: "0", limit: MemberLimits.page, whole: channel.threshold,
                tag: open(.list(channel, view: view.number), at: now)))
    }

    package func listed(_ result: Result<MembersList, WireError>, tag: RequestTag, at now: Instant) {
        guard owns(tag), let request = requests.removeValue(forKey: tag.low) else { return }
        switch (request, result) {
        case (.page(let tag, let name), .success(let list)):
            let mode =
                channels[name]?.view?.mode
                ?? MembersView.mode(for: list.occupancy, threshold: options(of: name).threshold, now: .each)
            let page = MembersPage(
                members: list.members, occupancy: list.occupancy, sequence: list.sequence, mode: mode, cursor: list.cursor)
            actions.append(.page(.success(page), channel: name, tag: tag))
        case (.list(let channel, let number), .success(let list)):
            guard channel.view?.number == number else { return }
            take(list, channel, at: now)
        case (_, .failure(let error)): failed(request, error, at: now)
        case (_, .success): failed(request, WireError(.internal, "an answer to another question"), at: now)
        }
    }

    func listFailed(_ channel: MemberChannel, _ number: UInt64, at now: Instant) {
        guard channel.view?.number == number else { return }
        channel.view?.isReading = false
        channel.view?.held = []
        channel.readAt = now + MembersMachine.pace
        answerWaiting(channel)
        schedule(channel)
    }

    private func answerWaiting(_ channel: MemberChannel) {
        guard let waiting = channel.view?.waiting, !waiting.isEmpty else { return }
        channel.view?.waiting = []
        for id in waiting {
            guard let lists = answers[id]?.lists else { continue }
            answers[id]?.lists = lists - 1
            if lists <= 1 { giveAnswer(id) }
        }
    }

    private func take(_ list: MembersList, _ channel: MemberChannel, at now: Instant) {
        guard var view = channel.view else { return }
        let wasCounts = view.isLoaded && view.mode == .counts
        guard isBelieved(list, channel, view, wasCounts: wasCounts) else {
            channel.view?.isReading = false
            channel.view?.held = []
            channel.readAt = now + MembersMachine.collect
            return check(channel, at: now)
        }
        if list.begun != channel.begun { beganAnew(channel, list.begun, at: now) }
        view.isReading = false
        if wasCounts && list.begun != 0 && channel.sequence > list.sequence {
            // Counts went on while it was read: as a page it's as good as any, as a list it isn't.
            view.page = list
            view.pageAt = now
            channel.view = view
            if list.cursor == nil { scheduleFlush(channel, at: now) }
            answerWaiting(channel)
            return schedule(channel)
        }
        channel.sequence = max(channel.sequence, list.sequence)
        channel.occupancy = list.occupancy
        let mode = MembersView.mode(for: list.occupancy, threshold: channel.threshold, now: view.mode)
        if list.cursor != nil || mode == .counts {
            let isSwitch = view.isLoaded && view.mode != .counts
            view.forgetList()
            view.page = list
            view.pageAt = now
            if isSwitch { channel.flushAt = nil }
            if !view.isLoaded {
                view.shown = channel.sequence
                view.shownCount = channel.occupancy
            }
            view.isLoaded = true
            channel.view = view
            let isDue = isSwitch || view.owesList
            if isDue || view.shown != channel.sequence || view.shownCount != channel.occupancy {
                scheduleFlush(channel, isSwitch: isDue, at: now)
            }
        } else {
            view.page = nil
            if wasCounts {
                view.mode = mode
                view.owesList = true
            }
            let isWarm = channel.isWarm(at: now)
            let present = Set(list.members.lazy.map(\.user))
            if !isWarm { for user in view.members.keys where !present.contains(user) { view.set(user, 0) } }
            for member in list.members { view.set(member.user, member.devices) }
            if !view.isLoaded {
                view.mode = mode
                view.isLoaded = true
                view.before = [:]
                view.shown = channel.sequence
            }
            channel.view = view
            if view.owesList { channel.flushAt = nil }
            if view.owesList || !view.before.isEmpty { scheduleFlush(channel, isSwitch: view.owesList, at: now) }
        }
        // What came meanwhile goes on from there.
        let held = view.held
        channel.view?.held = []
        for news in held { hear(news, channel, at: now) }
        if view.hasOverflowed, channel.view?.mode != .counts { channel.readAt = channel.readAt ?? now }
        answerWaiting(channel)
        schedule(channel)
    }

    /// False: it's behind what's known, because the channel began anew while it was read, or because the store went back.
    private func isBelieved(_ list: MembersList, _ channel: MemberChannel, _ view: MembersView, wasCounts: Bool) -> Bool {
        // Counts go on while a list is read.
        if list.begun == channel.begun { return list.begun == 0 || wasCounts || list.sequence >= channel.sequence }
        return list.begun == 0 ? channel.begun == view.begunAtRead : list.sequence >= channel.known.sequence
    }

    /// Something wasn't heard.
    func missed(_ channel: MemberChannel, at now: Instant) {
        if let view = channel.view {
            if channel.readAt == nil && !view.isReading { numbers.gaps += 1 }
            channel.readAt = channel.readAt ?? now
        } else {
            channel.sequence = max(channel.sequence, channel.expected)
            channel.refreshAt = now
        }
        schedule(channel)
    }

    // MARK: The feed

    func hear(_ news: MembersNews, _ channel: MemberChannel, at now: Instant) {
        guard let view = channel.view else {
            guard news.sequence > channel.sequence else { return }
            channel.sequence = news.sequence
            channel.occupancy = news.occupancy
            return
        }
        if view.isReading && !(view.isLoaded && view.mode == .counts) {
            if view.held.count < MembersView.heldMax { channel.view?.held.append(news) } else { channel.view?.hasOverflowed = true }
            return
        }
        guard news.sequence > channel.sequence else { return }
        guard view.isLoaded else { return }
        if view.mode != .counts, news.sequence != channel.sequence + 1 { return missed(channel, at: now) }
        channel.sequence = news.sequence
        channel.occupancy = news.occupancy
        guard view.mode != .counts else { return scheduleFlush(channel, at: now) }
        for count in news.users { channel.view?.set(count.user, count.devices) }
        if let count = channel.view?.members.count, count > channel.threshold {
            channel.view?.forgetList()
            channel.flushAt = nil
            scheduleFlush(channel, isSwitch: true, at: now)
        } else {
            scheduleFlush(channel, at: now)
        }
    }

    // MARK: Frames

    func scheduleFlush(_ channel: MemberChannel, isSwitch: Bool = false, at now: Instant) {
        guard let view = channel.view, view.isLoaded, channel.followers != 0, channel.flushAt == nil else { return }
        let paced = view.lastFrame.map { max($0 + MembersView.pace, now) } ?? now
        if isSwitch || view.mode == .each {
            channel.flushAt = paced
        } else if view.mode == .batched {
            channel.flushAt = max(paced, now + MembersView.batch)
        } else {
            channel.flushAt = view.lastFrame.map { max($0 + MembersView.countsEvery, now) } ?? now
        }
    }

    func flush(_ channel: MemberChannel, at now: Instant) {
        guard var view = channel.view, view.isLoaded, channel.followers != 0 else { return }
        let count = view.mode == .counts ? channel.occupancy : UInt64(view.members.count)
        let next = MembersView.mode(for: count, threshold: channel.threshold, now: view.mode)
        if view.mode == .counts {
            if let warm = channel.warmUntil, warm > now {
                channel.flushAt = warm
                return
            }
            // The list is worth telling again: it's read, and told whole.
            if next != .counts && isUp { return read(channel, at: now) }
            guard view.shown != channel.sequence || view.shownCount != count || view.owesList else { return }
            if view.shown == channel.sequence && view.shownCount != count { outgrow(channel, at: now) }
            channel.view?.owesList = false
            push(MembersChange(channel: channel.name, mode: .counts, occupancy: count, sequence: channel.sequence), channel, at: now)
            return
        }
        view.mode = next
        var change = MembersChange(channel: channel.name, mode: next, occupancy: count, sequence: channel.sequence, previous: view.shown)
        if next == .counts {
            view.forgetList()
            view.owesList = false
            change.previous = nil
        } else if view.owesList {
            view.owesList = false
            view.before = [:]
            change.previous = nil
            change.members = view.asShown()
        } else {
            view.takeChanges(into: &change)
            if change.joined.isEmpty && change.left.isEmpty && change.updated.isEmpty {
                // It came and went: nothing to tell. A mode alone isn't worth a frame either.
                channel.view = view
                return
            }
            if view.shown == channel.sequence {
                outgrow(channel, at: now)
                change.sequence = channel.sequence
            }
        }
        channel.view = view
        push(change, channel, at: now)
    }

    private func push(_ change: MembersChange, _ channel: MemberChannel, at now: Instant) {
        channel.view?.shown = channel.sequence
        channel.view?.shownCount = change.occupancy
        channel.view?.lastFrame = now
        numbers.frames[Int(change.mode.rawValue)] += 1
        actions.append(.push(change, loops: channel.followers))
    }
}
