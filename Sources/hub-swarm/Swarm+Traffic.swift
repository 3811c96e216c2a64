import HubBase
import HubClient
import HubClientNet
import HubSwarm
import HubWire

/// What the bots say and what they hear.
extension Swarm {
    // MARK: Sending

    /// Everything that is due.
    func send(_ since: Instant, _ now: Instant) {
        while let arrival = nextArrival, since + arrival.at <= now {
            send(arrival.bot, scheduled: (since + arrival.at).nanoseconds)
            nextArrival = schedule.next()
        }
    }

    private func send(_ bot: Int, scheduled: UInt64, isWaiting: Bool = false) {
        if bots[bot].receiver.isSubscribed, trySend(bot, scheduled) {
            // What waited for its bot is late by the hub's fault, what is sent at once by the swarm's.
            recorder.sent(due: scheduled, at: Clock.now().nanoseconds, isLate: !isWaiting)
        } else {
            if bots[bot].backlog.count < Bot.backlogMax { bots[bot].backlog.append(scheduled) } else { count("unsent") }
        }
    }

    private func trySend(_ bot: Int, _ scheduled: UInt64) -> Bool {
        let sequence = bots[bot].sequence + 1
        payload.removeAll()
        SwarmPayload(run: run, bot: UInt32(bot), sequence: sequence, scheduled: scheduled).encode(size: options.size, into: &payload)
        let messageId = Name(trusted: Array("\(run)-\(bot)-\(sequence)".utf8))
        let isSent = fleet.publish(
            bot, .chat, channel: rooms[bots[bot].room].name, messageId: messageId, payload: payload.bytes, context: UInt64(sequence))
        guard isSent else { return false }
        check?.sent(
            messageId, to: rooms[bots[bot].room].name, .chat, user: Name(trusted: Array(user(bot).utf8)), device: Self.device,
            payload: Array(payload.bytes), by: bot)
        bots[bot].sequence = sequence
        report.sent += 1
        outstanding += 1
        return true
    }

    private func sendBacklog(_ bot: Int) {
        let waiting = bots[bot].backlog
        bots[bot].backlog.removeAll()
        for scheduled in waiting { send(bot, scheduled: scheduled, isWaiting: true) }
    }

    // MARK: Receiving

    func received(_ received: ClientMachine.Received, _ message: UnsafeRawBufferPointer, client: Int) {
        switch received {
        case .publication(let envelope, let subscription, let order): delivery(envelope, message, client, subscription, order)
        case .acknowledged(let request, let envelope): acknowledged(request, envelope, message, client)
        case .refused(let request, _, let error):
            count(error.code.rawValue)
            if request.kind == .publish { outstanding -= 1 }
            if request.kind == .subscribe { check?.refusedSubscription(rooms[bots[client].room].name, by: client) }
            if request.kind == .subscribe, !error.code.mayRetry { loseHope(client) }
        case .welcome:
            connected += 1
            wasWelcomed = true
        case .refusedUnasked(let envelope): count(envelope.wireError(in: message).code.rawValue)
        case .unsubscribed:
            count("unsubscribed")
            check?.unsubscribed(rooms[bots[client].room].name, by: client)
            bots[client].receiver.ended()
        case .resync(let envelope, _):
            count("resync")
            check?.announced(rooms[bots[client].room].name, envelope, message, by: client, seat: client)
        case .violation: count("violation")
        // What a bot missed while it was away is the checker's business, not this tally's.
        case .missed(let envelope, _): check?.missed(rooms[bots[client].room].name, envelope, message, by: client, seat: client)
        case .early(let envelope, _):
            if check == nil { return unasked(envelope, message, client) }
            check?.received(rooms[bots[client].room].name, envelope, message, isEarly: true, by: client, seat: client)
        case .subscribed: break
        case .system(let envelope):
            let event = envelope.event.bytes(in: message)
            if event.elementsEqual("degraded".utf8) { check?.degraded(client) }
            if event.elementsEqual("restored".utf8) { check?.restored(client) }
        // Nobody watches, nor follows members.
        case .presence(let envelope), .members(let envelope): unasked(envelope, message, client)
        case .ignored: break
        }
    }

    /// To its user's inbox a bot is subscribed by the hub itself.
    private func unasked(_ envelope: ServerEnvelope, _ message: UnsafeRawBufferPointer, _ client: Int) {
        let channel = envelope.channel.bytes(in: message)
        guard !channel.elementsEqual("user:\(user(client))".utf8) else {
            report.foreign += 1
            return
        }
        report.unasked += 1
        check?.unasked(envelope, message, by: client)
    }

    private func acknowledged(_ request: PendingRequest, _ envelope: ServerEnvelope, _ message: UnsafeRawBufferPointer, _ client: Int) {
        let position = envelope.position.isPresent ? Position(text: envelope.position.bytes(in: message)) : nil
        switch request.kind {
        case .history: check?.joined(rooms[bots[client].room].name, envelope, message, isPage: true, by: client)
        case .subscribe:
            check?.joined(rooms[bots[client].room].name, envelope, message, isPage: false, by: client)
            noteEpoch(position, client)
            bots[client].receiver.subscribed(at: envelope.offset ?? position?.offset ?? 0)
            if bots[client].standing == .joined { report.reconnects += 1 }
            if bots[client].standing == .outside, case .joining = phase { joined += 1 }
            bots[client].standing = .joined
            sendBacklog(client)
        case .publish:
            outstanding -= 1
            report.acked += 1
            recorder.acknowledged(due: Clock.now().nanoseconds)
            noteEpoch(position, client)
            guard let offset = envelope.offset, let position else { return count("ackWithoutOffset") }
            check?.acknowledged(
                Name(trusted: Array("\(run)-\(client)-\(request.context)".utf8)), envelope, message, at: position, by: client)
            let told = RoomJournal.Message(bot: UInt32(client), sequence: UInt32(truncatingIfNeeded: request.context))
            judge(rooms[bots[client].room].journal.acknowledge(told, at: offset))
        default: break
        }
    }

    private func delivery(
        _ envelope: ServerEnvelope, _ message: UnsafeRawBufferPointer, _ client: Int, _ subscription: Int?, _ order: Subscription.Order
    ) {
        guard subscription != nil else { return unasked(envelope, message, client) }
        guard let offset = envelope.offset else {
            report.foreign += 1
            return
        }
        check?.received(rooms[bots[client].room].name, envelope, message, by: client, seat: client)
        let now = Clock.now().nanoseconds
        // A room that began anew may say so here first: its new subscribers were told of no epoch yet.
        noteEpoch(envelope.position.isPresent ? Position(text: envelope.position.bytes(in: message)) : nil, client)
        if order == .otherEpoch { bots[client].receiver.subscribed(at: offset > 0 ? offset - 1 : 0) }
        delivered += 1
        if !bots[client].receiver.received(offset) { mismatches.duplicated += 1 }
        guard let said = SwarmPayload(envelope.payload.bytes(in: message)), said.run == run, Int(said.bot) < bots.count else {
            report.foreign += 1
            return
        }
        let latency = now > said.scheduled ? now - said.scheduled : 0
        report.latency.record(latency)
        recorder.delivered(lane: 0, due: said.scheduled, at: now)
        let told = RoomJournal.Message(bot: said.bot, sequence: said.sequence)
        judge(rooms[bots[client].room].journal.deliver(told, at: offset, lastSequence: &bots[Int(said.bot)].lastDelivered))
    }

    private func judge(_ verdict: RoomJournal.Verdict) {
        switch verdict {
        case .consistent: break
        case .storedTwice: mismatches.duplicated += 1
        case .contradicts, .reordered: mismatches.outOfOrder += 1
        }
    }

    private func noteEpoch(_ position: Position?, _ client: Int) {
        guard let epoch = position?.epoch, epoch != .none else { return }
        let room = bots[client].room
        guard rooms[room].epoch != epoch else { return }
        if rooms[room].epoch != nil {
            report.restarts += 1
            rooms[room].journal.restart()
        }
        rooms[room].epoch = epoch
    }

    func unanswered(_ request: PendingRequest, isTimeout: Bool, client: Int) {
        if request.kind == .publish { outstanding -= 1 }
        if case .leaving = phase { return }
        count(isTimeout ? "timeout" : "disconnected")
    }
}
