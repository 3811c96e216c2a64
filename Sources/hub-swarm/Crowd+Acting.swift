import HubBase
import HubClient
import HubClientNet
import HubSwarm
import HubWire

/// What the bots do.
extension Crowd {
    /// Everything that is due.
    func act(_ now: Instant) {
        while let entry = agenda.takeDue(now) {
            let bot = Int(entry.bot)
            while let due = bots[bot].machine.next(scenario, now: now) { perform(due.action, bot, due: due.at, now) }
            let deadline = bots[bot].machine.deadline
            if deadline != .distantFuture { agenda.add(entry.bot, at: deadline) }
        }
    }

    private func perform(_ action: BotMachine.Action, _ bot: Int, due: Instant, _ now: Instant) {
        switch action {
        case .connect: connect(bot)
        case .leave:
            wentAway(bot, now)
            bots[bot].isLeaving = true
            bots[bot].isAwayByPlan = true
            bots[bot].wantsBack = false
            // The next session begins as sessions do.
            bots[bot].hasAskedStatus = false
            bots[bot].shown = .online
            fleet.change(bot) { $0.forgetStatus() }
            fleet.stop(bot)
            if case .closed = fleet.state(bot) { bots[bot].isLeaving = false }
        case .cut:
            breakConnection(bot) { fleet.cut(bot) }
            // Until its plan has it come back.
            bots[bot].isAwayByPlan = true
        case .lose: breakConnection(bot) { fleet.lose(bot) }
        case .type(let room): tellTyping(true, bot, room, due)
        case .say(let room):
            if scenario.talk.typing != nil { tellTyping(false, bot, room, due) }
            say(bot, room, due: due.nanoseconds)
        case .read(let room): tellRead(bot, room, due)
        case .goAway: setStatus(.away, bot, due)
        case .comeBack: setStatus(.online, bot, due)
        }
    }

    private func breakConnection(_ bot: Int, _ body: () -> Void) {
        // What has no connection isn't without it because of this.
        switch fleet.state(bot) {
        case .connecting, .greeting, .open: bots[bot].isAwayByPlan = true
        default: break
        }
        isOwnDoing = true
        body()
        isOwnDoing = false
    }

    private func connect(_ bot: Int) {
        if !bots[bot].hasStarted {
            bots[bot].hasStarted = true
            fleet.start(bot)
        } else if !fleet.restart(bot) {
            bots[bot].wantsBack = true
        }
    }

    // MARK: Talking

    private func say(_ bot: Int, _ room: Int, due: UInt64) {
        guard bots[bot].backlog.isEmpty, trySay(bot, room, due: due, isLate: true) else {
            if bots[bot].backlog.count < CrowdBot.backlogMax {
                bots[bot].backlog.append(CrowdBot.Waiting(due: due, room: room))
            } else {
                recorder.failed("unsent")
            }
            return
        }
    }

    private func trySay(_ bot: Int, _ room: Int, due: UInt64, isLate: Bool) -> Bool {
        let number = Int(roomsOfUsers[bots[bot].user * scenario.rooms.joined + room])
        let sequence = bots[bot].sequence + 1
        payload.removeAll()
        SwarmPayload(run: share.run &+ UInt64(share.index), bot: UInt32(bot), sequence: sequence, scheduled: due)
            .encode(size: scenario.talk.size, into: &payload)
        let messageId = names.message(bot, of: share.index, due: due)
        let isSent = fleet.publish(
            bot, scenario.talk.kind == .chat ? .chat : .event, channel: rooms[number].name, messageId: messageId, payload: payload.bytes,
            context: due)
        guard isSent else { return false }
        check?.sent(
            messageId, to: rooms[number].name, scenario.talk.kind == .chat ? .chat : .event,
            user: names.user(share.users.lowerBound + bots[bot].user), device: "d\(bots[bot].device)", payload: Array(payload.bytes),
            by: bot)
        bots[bot].sequence = sequence
        outstanding += 1
        recorder.sent(due: due, at: Clock.now().nanoseconds, isLate: isLate)
        return true
    }

    func sendBacklog(_ bot: Int) {
        let waiting = bots[bot].backlog
        bots[bot].backlog.removeAll()
        for message in waiting where !trySay(bot, message.room, due: message.due, isLate: false) { bots[bot].backlog.append(message) }
    }

    // MARK: Signs

    private func tellTyping(_ isTyping: Bool, _ bot: Int, _ room: Int, _ due: Instant) {
        bots[bot].typing += 1
        payload.removeAll()
        SwarmPayload(run: share.run &+ UInt64(share.index), bot: UInt32(bot), sequence: bots[bot].typing, scheduled: due.nanoseconds)
            .encode(size: 0, into: &payload)
        payload.removeLast(1)
        if isTyping { payload.append(",\"isTyping\":true}") } else { payload.append(",\"isTyping\":false}") }
        if fleet.tell(bot, .typing, channel: rooms[roomNumber(bot, room)].name, payload: payload.bytes) { tally.typingSent += 1 }
    }

    /// Up to the last that it has, if that's news.
    private func tellRead(_ bot: Int, _ room: Int, _ due: Instant) {
        let seat = bot * scenario.rooms.joined + room
        let name = rooms[roomNumber(bot, room)].name
        guard let offset = fleet.followed(bot).first(where: { $0.channel == name })?.position?.offset, offset > marks[seat] else { return }
        payload.removeAll()
        payload.append("{\"offset\":")
        payload.append(decimal: offset)
        payload.append("}")
        guard fleet.tell(bot, .read, channel: name, payload: payload.bytes) else { return }
        marks[seat] = offset
        marksDue[seat] = due.nanoseconds
        tally.readsSent += 1
    }

    private func setStatus(_ status: Payload.Status, _ bot: Int, _ due: Instant) {
        fleet.change(bot) { $0.setStatus(status) }
        bots[bot].hasAskedStatus = true
        bots[bot].shown = status == .away ? .away : .online
        guard bots[bot].isIn else { return }
        bots[bot].shownSince = max(due, bots[bot].attempted)
        bots[bot].isStatusUnsure = true
        noteStatus(bots[bot].user)
    }

    /// Within the share.
    func roomNumber(_ bot: Int, _ room: Int) -> Int { Int(roomsOfUsers[bots[bot].user * scenario.rooms.joined + room]) }

    /// It's no longer among its user's connections, though its socket may still be there.
    func wentAway(_ bot: Int, _ now: Instant) {
        guard bots[bot].isIn else { return }
        bots[bot].isIn = false
        presence?.went(bots[bot].user, wasAway: bots[bot].shown == .away && !bots[bot].isStatusUnsure, at: now)
        noteStatus(bots[bot].user)
    }
}
