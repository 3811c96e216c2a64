import HubBase
import HubCheck
import HubClient
import HubClientNet
import HubSwarm
import HubWire

/// What the bots hear.
extension Crowd {
    func received(_ received: ClientMachine.Received, _ message: UnsafeRawBufferPointer, client: Int) {
        guard client < bots.count else { return heardByHostile(received, client) }
        switch received {
        case .welcome: welcomed(client)
        case .publication(let envelope, let subscription, let order): published(envelope, message, client, subscription, order)
        case .early(let envelope, let subscription): early(envelope, message, client, subscription)
        case .missed(let envelope, let order): missed(envelope, message, client, order)
        case .acknowledged(let request, let envelope): acknowledged(request, envelope, message, client)
        case .subscribed(_, let outcomes): for outcome in outcomes { subscribed(client, outcome) }
        case .refused(let request, _, let error):
            recorder.failed(error.code.rawValue)
            if request.kind == .publish { outstanding -= 1 }
        case .refusedUnasked(let envelope): recorder.failed(envelope.wireError(in: message).code.rawValue)
        case .presence(let envelope): told(envelope.changes, message, client, isAnswer: false)
        case .resync(let envelope, let subscription):
            tally.resyncs += 1
            guard let (room, seat) = place(client, subscription) else { return }
            holes.close(seat)
            check?.announced(rooms[room].name, envelope, message, by: client, seat: seat)
        case .unsubscribed(_, let subscription):
            recorder.failed("unsubscribed")
            bots[client].hasShifted = true
            check?.unsubscribed(subscription.channel, by: client)
        case .violation: recorder.failed("violation")
        case .system(let envelope):
            hearsOfHealth(envelope, message, client)
            // Signs were left out, which is announced: what was seen typing may have stopped.
            if envelope.event.bytes(in: message).elementsEqual("dropped".utf8) {
                ended.insert(client)
                bots[client].signsSince = Clock.now()
            }
        // Nobody follows members.
        case .members(let envelope): unasked(envelope, message, client)
        case .ignored: break
        }
    }

    private func hearsOfHealth(_ envelope: ServerEnvelope, _ message: UnsafeRawBufferPointer, _ client: Int) {
        let event = envelope.event.bytes(in: message)
        if event.elementsEqual("degraded".utf8) { check?.degraded(client) }
        if event.elementsEqual("restored".utf8) { check?.restored(client) }
    }

    private func welcomed(_ client: Int) {
        let now = Clock.now()
        connected += 1
        recorder.took(lane: Lane.connect.rawValue, from: bots[client].attempted.nanoseconds, to: now.nanoseconds)
        if bots[client].wasIn { tally.reconnects += 1 } else { tally.everIn += 1 }
        bots[client].wasIn = true
        bots[client].isIn = true
        bots[client].shownSince = bots[client].attempted
        presence?.came(bots[client].user, at: now)
        // A status that was asked for before is asked for again: then its answer makes it sure.
        bots[client].isStatusUnsure = bots[client].hasAskedStatus
        noteStatus(bots[client].user)
        sendBacklog(client)
    }

    // MARK: Rooms

    /// The room within the share and the seat that a subscription's place in the client's list means.
    private func place(_ client: Int, _ subscription: Int) -> (room: Int, seat: Int)? {
        let joined = scenario.rooms.joined
        if !bots[client].hasShifted {
            guard subscription < joined else { return nil }
            return (roomNumber(client, subscription), client * joined + subscription)
        }
        let followed = fleet.followed(client)
        return subscription < followed.count ? place(client, named: followed[subscription].channel.bytes) : nil
    }

    private func place(_ client: Int, named name: [UInt8]) -> (room: Int, seat: Int)? {
        guard let number = name.withUnsafeBytes({ names.roomNumber($0) }) else { return nil }
        let room = number - share.rooms.lowerBound
        guard let place = (0..<scenario.rooms.joined).first(where: { roomNumber(client, $0) == room }) else { return nil }
        return (room, client * scenario.rooms.joined + place)
    }

    private func position(_ envelope: ServerEnvelope, _ message: UnsafeRawBufferPointer) -> Position? {
        envelope.position.isPresent ? Position(text: envelope.position.bytes(in: message)) : nil
    }

    private func noteEpoch(_ position: Position?, _ room: Int) {
        guard let epoch = position?.epoch, epoch != .none, rooms[room].epoch != epoch else { return }
        if rooms[room].epoch != nil {
            tally.restarts += 1
            rooms[room].journal.restart()
        }
        rooms[room].epoch = epoch
        rooms[room].acknowledged = 0
    }

    // MARK: Publications

    private func published(
        _ envelope: ServerEnvelope, _ message: UnsafeRawBufferPointer, _ client: Int, _ subscription: Int?, _ order: Subscription.Order
    ) {
        guard let subscription, let (room, seat) = place(client, subscription) else { return unasked(envelope, message, client) }
        switch envelope.kind {
        case .typing: return heardTyping(envelope, message, client, room)
        case .read: return heardRead(envelope, message, client, room)
        default: break
        }
        check?.received(rooms[room].name, envelope, message, by: client, seat: seat)
        noteEpoch(position(envelope, message), room)
        guard judge(order, envelope.offset, seat) else { return }
        let said = SwarmPayload(envelope.payload.bytes(in: message))
        guard let said, said.run &- share.run < UInt64(share.count) else {
            tally.foreign += 1
            return
        }
        recorder.delivered(lane: Lane.talk.rawValue, due: said.scheduled, at: Clock.now().nanoseconds)
        guard check == nil, said.run == share.run &+ UInt64(share.index), Int(said.bot) < bots.count, let offset = envelope.offset else {
            return
        }
        let told = RoomJournal.Message(bot: said.bot, sequence: said.sequence)
        judge(rooms[room].journal.deliver(told, at: offset, lastSequence: &bots[Int(said.bot)].lastDelivered))
    }

    private func missed(_ envelope: ServerEnvelope, _ message: UnsafeRawBufferPointer, _ client: Int, _ order: Subscription.Order) {
        guard let (room, seat) = place(client, named: Array(envelope.channel.bytes(in: message))) else {
            return unasked(envelope, message, client)
        }
        check?.missed(rooms[room].name, envelope, message, by: client, seat: seat)
        noteEpoch(position(envelope, message), room)
        if judge(order, envelope.offset, seat) { tally.recoveredMessages += 1 }
    }

    /// A bot is handed what it never asked for, or not yet on this connection. To its user's inbox it's subscribed by the hub itself.
    func unasked(_ envelope: ServerEnvelope, _ message: UnsafeRawBufferPointer, _ client: Int) {
        let channel = envelope.channel.bytes(in: message)
        if names.isInbox(channel, of: share.users.lowerBound + bots[client].user) {
            tally.foreign += 1
            return
        }
        tally.unasked += 1
        check?.unasked(envelope, message, by: client)
    }

    /// Of a room that it wants, but without an answer yet, or before the rest of its pages: the checker knows which.
    private func early(_ envelope: ServerEnvelope, _ message: UnsafeRawBufferPointer, _ client: Int, _ subscription: Int) {
        guard check != nil, let (room, seat) = place(client, subscription) else { return unasked(envelope, message, client) }
        check?.received(rooms[room].name, envelope, message, isEarly: true, by: client, seat: seat)
    }

    /// By the offsets alone. False: it came before.
    private func judge(_ order: Subscription.Order, _ offset: UInt64?, _ seat: Int) -> Bool {
        switch order {
        case .again:
            guard let offset, holes.fill(offset, seat: seat) else {
                tally.duplicated += 1
                return false
            }
            tally.lost -= 1
            tally.outOfOrder += 1
        case .gap(let count):
            tally.lost += count
            if let offset { holes.pass(count, before: offset, seat: seat) }
        case .otherEpoch: holes.close(seat)
        case .next, .unknown: break
        }
        tally.delivered += 1
        return true
    }

    private func judge(_ verdict: RoomJournal.Verdict) {
        switch verdict {
        case .consistent: break
        case .storedTwice: tally.duplicated += 1
        case .contradicts: tally.contradictions += 1
        case .reordered: tally.outOfOrder += 1
        }
    }

    // MARK: Answers

    private func acknowledged(_ request: PendingRequest, _ envelope: ServerEnvelope, _ message: UnsafeRawBufferPointer, _ client: Int) {
        switch request.kind {
        case .publish: saidAndAcknowledged(request, envelope, message, client)
        case .subscribe, .history:
            guard let (room, seat) = place(client, named: Array(envelope.channel.bytes(in: message))),
                let position = position(envelope, message)
            else { return }
            check?.compare(rooms[room].name, envelope.offset, position, by: client)
            joined(
                client, room, seat, at: position, recovered: envelope.recovered, hasMore: envelope.more,
                isPage: request.kind == .history)
        case .watch:
            presence?.watching(client, since: Clock.now())
            told(envelope.users, message, client, isAnswer: true)
        case .presence:
            bots[client].isStatusUnsure = false
            noteStatus(bots[client].user)
        default: break
        }
    }

    private func saidAndAcknowledged(
        _ request: PendingRequest, _ envelope: ServerEnvelope, _ message: UnsafeRawBufferPointer, _ client: Int
    ) {
        outstanding -= 1
        recorder.acknowledged(due: request.context)
        recorder.took(lane: Lane.ack.rawValue, from: request.context, to: Clock.now().nanoseconds)
        guard let position = position(envelope, message) else { return recorder.failed("ackWithoutPosition") }
        check?.acknowledged(names.message(client, of: share.index, due: request.context), envelope, message, at: position, by: client)
        guard let number = names.roomNumber(envelope.channel.bytes(in: message)), rooms.indices.contains(number - share.rooms.lowerBound)
        else {
            tally.contradictions += 1
            return
        }
        let room = number - share.rooms.lowerBound
        noteEpoch(position, room)
        rooms[room].acknowledged = max(rooms[room].acknowledged, position.offset)
    }

    private func subscribed(_ client: Int, _ outcome: ClientMachine.SubscribeOutcome) {
        if let error = outcome.error {
            recorder.failed(error.code.rawValue)
            check?.refusedSubscription(outcome.channel, by: client)
            if !error.code.mayRetry { bots[client].hasShifted = true }
            return
        }
        // The machine has taken in the answer: where it stands now is what the answer said.
        guard let followed = fleet.followed(client).first(where: { $0.channel == outcome.channel }), let position = followed.position,
            let (room, seat) = place(client, named: outcome.channel.bytes)
        else { return }
        let hasMore = if case .behind = followed.state { true } else { false }
        check?.compare(rooms[room].name, outcome.offset, position, by: client)
        joined(client, room, seat, at: position, recovered: outcome.recovered, hasMore: hasMore, isPage: false)
    }

    private func joined(
        _ client: Int, _ room: Int, _ seat: Int, at position: Position, recovered: Bool?, hasMore: Bool, isPage: Bool
    ) {
        check?.joined(
            rooms[room].name, at: position, recovered: recovered, hasMore: hasMore, isPage: isPage, by: client, seat: seat)
        noteEpoch(position, room)
        guard !isPage else { return }
        holes.close(seat)
        if recovered == true {
            tally.recovered += 1
            recorder.took(lane: Lane.recover.rawValue, from: bots[client].attempted.nanoseconds, to: Clock.now().nanoseconds)
        } else if recovered == false {
            tally.notRecovered += 1
        }
    }

    // MARK: Ends

    func unanswered(_ request: PendingRequest, isTimeout: Bool, client: Int) {
        guard client < bots.count else { return }
        if request.kind == .publish { outstanding -= 1 }
        guard !isOwnDoing, !bots[client].isLeaving, !isFinished else { return }
        recorder.failed(isTimeout ? "timeout" : "disconnected")
    }

    func ended(_ end: TransportEnd, _ after: ClientMachine.AfterEnd, wasOpen: Bool, client: Int) {
        guard !isFinished else { return }
        guard client < bots.count else { return hostileEnded(end, wasOpen: wasOpen) }
        let now = Clock.now()
        if wasOpen { connected -= 1 }
        wentAway(client, now)
        // The hub may have had the one that was being made.
        if !wasOpen { presence?.failed(bots[client].user, at: now) }
        presence?.ended(client)
        bots[client].isStatusUnsure = false
        noteStatus(bots[client].user)
        ended.insert(client)
        bots[client].signsSince = now
        ephemeral.cut(client, after: bots[client].typing)
        for seat in client * scenario.rooms.joined..<(client + 1) * scenario.rooms.joined { holes.close(seat) }
        // Whoever leaves in the end has been judged by then.
        if case .leaving = phase { return }
        let joined = scenario.rooms.joined
        check?.ended(client, end, isOwnDoing: isOwnDoing, seats: client * joined..<(client + 1) * joined)
        if !isOwnDoing, !bots[client].isLeaving {
            var text = EndText.text(end)
            if case .unwelcomed = end, settings.tokens == nil {
                text += "; outside development mode a hub wants tokens (--token-key-env, --token-key-file)"
            }
            recorder.ended(text)
        }
        if case .finished = after {
            bots[client].isLeaving = false
            if bots[client].wantsBack {
                bots[client].wantsBack = false
                _ = fleet.restart(client)
            }
        }
    }
}
