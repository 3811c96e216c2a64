import HubBase
import HubCore
import HubNet
import HubWire

/// Joining a channel: whoever subscribes waits for the backplane's answer, which says where the channel stands and brings what was missed.
///
/// Deliveries and answers come in one mailbox, in order: who is joined when the answer is handled hears everything behind it, and nothing
/// that stands in it. One who missed more than a page isn't joined yet: it asks on with `history`, and the page that reaches the end joins.
extension GatewayLoop {
    /// The caller adds `count` subscriptions and then settles the batch once.
    func makeBatch(_ purpose: SubscribeBatch.Purpose, count: Int, on id: ConnectionID) -> UInt64 {
        batches.insert(SubscribeBatch(purpose: purpose, connection: id, results: [], remaining: count + 1))
    }

    /// Adds one subscription to a batch; it's asked for when the batch is settled by its maker.
    /// `asks`: the backend has a say in it, where the namespace wants that.
    func subscribe(_ id: ConnectionID, to channel: Name, position: Position?, refusal: WireError?, batch: UInt64, asks isWish: Bool) {
        let place = batches.update(batch) { waiting in
            waiting.results.append(SubscribeResult(channel: channel, result: refusal.map { .failure($0) } ?? .success(.start)))
            if refusal != nil { waiting.remaining -= 1 }
            return waiting.results.count - 1
        }
        guard let place, refusal == nil else { return }
        if isWish, asks(.subscribe, channel, on: id) { return askSubscription(channel, position, batch: batch, place: place, on: id) }
        join(id, channel, position, batch: batch, place: place, isMaking: true)
    }

    /// `isMaking`: the batch's maker asks for it with the others.
    func join(_ id: ConnectionID, _ channel: Name, _ position: Position?, batch: UInt64, place: Int, isMaking: Bool = false) {
        guard batches.update(batch, { _ in true }) == true else { return }
        let slot = slot(for: channel)
        // A member who says where it stands gets what lies between from the answer, not live as well.
        if position != nil, channels.remove(id.index, from: slot) { numbers.subscriptions -= 1 }
        _ = stopCatchingUp(id, slot)
        let item = wait(id, channel, slot, .subscription(batch: batch, place: place), position)
        _ = batches.update(batch) { $0.items.append(item) }
        if !isMaking { joinItems(of: batch) }
    }

    /// A later page for one who is catching up: `history` from a position.
    func catchUp(_ id: ConnectionID, _ channel: Name, from position: Position, limit: Int, _ requestId: RequestID) {
        let slot = slot(for: channel)
        let bytes = pageBytes(for: id)
        let item = wait(id, channel, slot, .page(requestId, bytes: bytes), position)
        promised[id.index, default: 0] += bytes
        let session = sessions[Int(id.index)]
        outbox.append(
            .join(
                JoinBatch(
                    loop: number, items: [item], user: session.user, wantsMarks: false, limit: limit, bytes: bytes, format: session.format))
        )
    }

    func isCatchingUp(_ id: ConnectionID, _ channel: Name) -> Bool {
        guard let slots = catchingUp[id.index], let slot = channels.slot(of: channel) else { return false }
        return slots.contains(slot)
    }

    /// Subscriptions that aren't made yet.
    func waitingToJoin(_ id: ConnectionID) -> Int {
        joiningOf[id.index]?.unmade ?? 0
    }

    private func slot(for channel: Name) -> Int {
        let (slot, isNew) = channels.insert(channel)
        if isNew {
            while channelStates.count <= slot { channelStates.append(ChannelState()) }
            channelStates[slot] = ChannelState()
        }
        return slot
    }

    private func wait(
        _ id: ConnectionID, _ channel: Name, _ slot: Int, _ purpose: Joining.Purpose, _ position: Position?
    ) -> JoinBatch.Item {
        sessions[Int(id.index)].waiting += 1
        channelStates[slot].interest += 1
        let key = joinings.insert(Joining(connection: id, slot: slot, purpose: purpose))
        joiningOf[id.index, default: ConnectionJoinings()].insert(key, slot: slot, isMade: false)
        return JoinBatch.Item(channel: channel, position: position, tag: key)
    }

    /// What a connection's next pages may weigh: a quarter of its queue, and never so much that what waits already and they fill half of it.
    func pageBytes(for id: ConnectionID) -> Int {
        let limit = configuration.limits.outboundBytes
        return max(min(limit / 4, limit / 2 - net.queuedBytes(id) - (promised[id.index] ?? 0)), 0)
    }

    // MARK: The backplane's answer

    func joined(_ result: Result<JoinAnswer, WireError>, tag: UInt64) {
        guard let joining = joinings.remove(tag) else { return }
        let id = joining.connection
        joiningOf[id.index]?.remove(tag)
        if joiningOf[id.index]?.isEmpty == true { joiningOf[id.index] = nil }
        sessions[Int(id.index)].waiting -= 1
        channelStates[joining.slot].interest -= 1
        // Who has lost the right gets nothing of the channel.
        let refusal = refusalSince(id, joining.slot)
        let result = refusal.map { .failure($0) } ?? result
        if case .success(let answer) = result {
            take(answer, joining)
        } else if channels.isUsed(joining.slot), !channels.contains(id.index, on: joining.slot) {
            // One who came back with a position may have been there before.
            memberLeft(id, channels.name(at: joining.slot))
            unfollow(id, channels.name(at: joining.slot))
        }
        dropIfEmpty(joining.slot)
        defer { if refusal != nil, isCurrent(id), sessions[Int(id.index)].isWelcomed { endLostRights(id) } }
        switch joining.purpose {
        case .subscription(let batch, let place): settle(batch, place, result)
        case .following: break
        case .page(let requestId, let bytes):
            pageWritten(bytes, to: id)
            answerPage(result, channels.isUsed(joining.slot) ? channels.name(at: joining.slot) : .empty, requestId, on: id)
        }
        release(id)
    }

    /// The right may have gone while it waited.
    private func refusalSince(_ id: ConnectionID, _ slot: Int) -> WireError? {
        guard isCurrent(id), channels.isUsed(slot) else { return nil }
        let channel = channels.name(at: slot)
        let rights = sessions[Int(id.index)].rights
        return rights.maySubscribe(to: channel) ? nil : rights.refusal(.subscribe, in: channel)
    }

    private func take(_ answer: JoinAnswer, _ joining: Joining) {
        let id = joining.connection
        if answer.hasMore {
            guard catchingUp[id.index]?.contains(joining.slot) != true else { return }
            catchingUp[id.index, default: []].insert(joining.slot)
            channelStates[joining.slot].interest += 1
            return
        }
        _ = stopCatchingUp(id, joining.slot)
        channelStates[joining.slot].isLive = true
        channelStates[joining.slot].offset = answer.position.offset
        if channels.add(id.index, to: joining.slot, sessions[Int(id.index)].format) {
            numbers.subscriptions += 1
            memberJoined(id, channels.name(at: joining.slot))
        }
        if sessions[Int(id.index)].isStream { followDefault(id, joining.slot) }
    }

    /// False when it wasn't. The channel may be of no interest to anybody then.
    func stopCatchingUp(_ id: ConnectionID, _ slot: Int) -> Bool {
        guard catchingUp[id.index]?.remove(slot) != nil else { return false }
        if catchingUp[id.index]?.isEmpty == true { catchingUp[id.index] = nil }
        channelStates[slot].interest -= 1
        return true
    }

    /// A connection has gone: nobody waits for its answers.
    func stopJoining(_ id: ConnectionID) {
        for key in joiningOf.removeValue(forKey: id.index)?.keys ?? [] {
            guard let joining = joinings.remove(key) else { continue }
            channelStates[joining.slot].interest -= 1
            switch joining.purpose {
            case .subscription(let batch, _), .following(let batch): _ = batches.remove(batch)
            case .page: break
            }
            dropIfEmpty(joining.slot)
        }
        for slot in (catchingUp.removeValue(forKey: id.index) ?? []).sorted() {
            channelStates[slot].interest -= 1
            dropIfEmpty(slot)
        }
        promised[id.index] = nil
    }

    func keepPromise(_ bytes: Int, to id: ConnectionID) {
        guard isCurrent(id), let left = promised[id.index].map({ $0 - bytes }) else { return }
        promised[id.index] = left > 0 ? left : nil
    }

    // MARK: Answering

    func settle(_ batch: UInt64, _ place: Int, _ result: Result<JoinAnswer, WireError>) {
        _ = batches.update(batch) { waiting in
            switch result {
            case .failure(let error): waiting.results[place].result = .failure(error)
            case .success(let answer):
                waiting.results[place].result = .success(answer.position)
                waiting.results[place].recovered = answer.recovered
                waiting.results[place].reason = answer.reason?.rawValue
                waiting.results[place].publications = answer.recovered == true ? answer.publications : nil
                waiting.results[place].hasMore = answer.hasMore
                waiting.results[place].reads = answer.marks
                waiting.results[place].occupancy = answer.occupancy
            }
        }
        settle(batch)
    }

    /// Counts one part of a batch as done; the last one sends the answer. The batch's maker counts as a part: it asks for the rest.
    func settle(_ batch: UInt64) {
        joinItems(of: batch)
        let remaining = batches.update(batch) { waiting in
            waiting.remaining -= 1
            return waiting.remaining
        }
        guard remaining == 0, !follow(batch), let done = batches.remove(batch), isCurrent(done.connection) else { return }
        keepPromise(done.bytes, to: done.connection)
        switch done.purpose {
        case .welcome: welcome(done.connection, channels: done.results)
        case .request(let requestId, let isList): answer(done, requestId, isList)
        }
    }

    private func joinItems(of batch: UInt64) {
        guard
            let (items, id) = batches.update(
                batch,
                { (waiting) -> ([JoinBatch.Item], ConnectionID) in
                    let items = waiting.items
                    waiting.items = []
                    return (items, waiting.connection)
                }), !items.isEmpty
        else { return }
        // Only who says where it stands can have missed something.
        let bytes = items.contains { $0.position != nil } ? pageBytes(for: id) : configuration.limits.outboundBytes / 16
        promised[id.index, default: 0] += bytes
        _ = batches.update(batch) { $0.bytes += bytes }
        outbox.append(
            .join(
                JoinBatch(
                    loop: number, items: items, user: sessions[Int(id.index)].user, limit: configuration.limits.historyPage, bytes: bytes,
                    format: sessions[Int(id.index)].format)))
    }

    private func answer(_ done: SubscribeBatch, _ requestId: RequestID, _ isList: Bool) {
        if !isList, case .failure(let error) = done.results[0].result {
            refuse(error, requestId, on: done.connection)
            return
        }
        guard requestId.isPresent else {
            for result in done.results {
                if case .failure(let error) = result.result { refuse(error, RequestID.none, on: done.connection) }
            }
            return
        }
        requestId.withBytes { raw in
            send(to: done.connection, as: .reply) {
                EnvelopeEncoder.ackSubscribe(id: raw, results: done.results, isList: isList, format: $0, into: &$1)
            }
        }
    }
}
