import HubBase
import HubCore
import HubNet
import HubWire

/// Subscribing: the first member of a channel on this loop asks the backplane and waits; later ones join what is live at once.
extension GatewayLoop {
    func subscribe(_ request: Request, _ bytes: UnsafeRawBufferPointer, on id: ConnectionID) {
        var wanted: [(channel: Name, position: Position?, refusal: WireError?)] = []
        do throws(WireError) {
            if request.channels.isPresent {
                try readChannels(request, bytes, into: &wanted)
            } else {
                let channel = try channel(of: request, bytes, on: id, allowsDefault: false)
                wanted.append((channel, try position(request.position, in: bytes, escapes: request.escapes), nil))
            }
            for index in wanted.indices where !sessions[Int(id.index)].rights.maySubscribe(to: wanted[index].channel) {
                wanted[index].refusal = Refusal.foreignInbox
            }
            let held = channels.count(of: id.index) + sessions[Int(id.index)].waiting
            let added = wanted.count { channels.slot(of: $0.channel).map { !channels.contains(id.index, on: $0) } ?? true }
            guard held + added <= configuration.limits.channels else {
                throw WireError(.tooMany, "more than \(configuration.limits.channels) channels on one connection (limits.channels)")
            }
        } catch {
            refuse(error, request.id, in: bytes, on: id)
            return
        }
        let purpose = SubscribeBatch.Purpose.request(
            RequestID(request.id.bytes(in: bytes)), isList: request.channels.isPresent)
        let batch = batches.insert(SubscribeBatch(purpose: purpose, connection: id, results: [], remaining: wanted.count + 1))
        for entry in wanted { subscribe(id, to: entry.channel, position: entry.position, refusal: entry.refusal, batch: batch) }
        settle(batch)
    }

    private func readChannels(
        _ request: Request, _ bytes: UnsafeRawBufferPointer, into wanted: inout [(channel: Name, position: Position?, refusal: WireError?)]
    ) throws(WireError) {
        var elements = WireElements(bytes, range: request.channels, format: request.format, depthMax: configuration.limits.depth)
        while let element = try elements.next() {
            guard wanted.count < configuration.limits.channels else {
                throw WireError(.tooMany, "more than \(configuration.limits.channels) channels in one request (limits.channels)")
            }
            let entry = "channels[\(wanted.count)]"
            let (channel, positionValue) = try readChannel(element, request, bytes, entry)
            guard let name = channel.name(in: bytes) else {
                throw WireError(.badName, "\(entry): channel must be 1 to 255 bytes without control characters")
            }
            let place =
                try positionValue.map { (value) throws(WireError) in try position(value.range, in: bytes, escapes: value.hasEscapes) }
                ?? nil
            wanted.append((name, place, nil))
        }
        guard !wanted.isEmpty else { throw WireError(.malformed, "channels is empty") }
    }

    /// The fields of one entry: a string is the channel itself. Of a repeated field the first counts; a wrong kind is `malformed`.
    private func readChannel(
        _ element: WireValue, _ request: Request, _ bytes: UnsafeRawBufferPointer, _ entry: String
    ) throws(WireError) -> (channel: WireValue, position: WireValue?) {
        if element.kind == .string { return (element, nil) }
        guard element.kind == .object else { throw WireError(.malformed, "\(entry) must be a string or {\"channel\": …, \"position\": …}") }
        var channel: WireValue?
        var place: WireValue?
        var fields = WireFields(bytes, range: element.range, format: request.format, depthMax: configuration.limits.depth)
        while let (key, value) = try fields.next() {
            if channel == nil, key.isText("channel", in: bytes) { channel = value }
            if place == nil, key.isText("position", in: bytes) { place = value }
        }
        guard let channel else { throw WireError(.malformed, "\(entry): channel is missing") }
        guard channel.kind == .string else { throw WireError(.malformed, "\(entry): channel must be a string") }
        guard place.map({ $0.kind == .string }) ?? true else { throw WireError(.malformed, "\(entry): position must be a string") }
        return (channel, place)
    }

    private func position(_ range: ByteRange, in bytes: UnsafeRawBufferPointer, escapes: Bool) throws(WireError) -> Position? {
        guard range.isPresent else { return nil }
        guard let position = Position(text: range.bytes(in: bytes)) else {
            throw WireError(.badPosition, "position must be one that this hub gave out")
        }
        return position
    }

    /// Starts one subscription of a batch; its result is settled now or when the backplane has answered.
    func subscribe(_ id: ConnectionID, to channel: Name, position: Position?, refusal: WireError?, batch: UInt64) {
        let place = batches.update(batch) { waiting in
            waiting.results.append(SubscribeResult(channel: channel, result: .success(.start)))
            return waiting.results.count - 1
        }
        guard let place else { return }
        if let refusal {
            settle(batch, place, .failure(refusal))
            return
        }
        let (slot, isNew) = channels.insert(channel)
        if isNew {
            while channelStates.count <= slot { channelStates.append(ChannelState()) }
            channelStates[slot] = ChannelState()
            channelStates[slot].serial = nextSubscription
            nextSubscription += 1
            outbox.append(.subscribe(channel, loop: number, tag: tag(channelStates[slot].serial)))
        }
        if channelStates[slot].isLive {
            join(id, slot: slot)
            settle(batch, place, .success(channelStates[slot].position), wanted: position)
        } else {
            sessions[Int(id.index)].waiting += 1
            channelStates[slot].waiters.append(
                ChannelState.Waiter(connection: id, batch: batch, place: place, position: position))
        }
    }

    /// The backplane's answer for a channel of this loop. `serial` of a subscription that was given up meanwhile is ignored.
    func subscribed(_ channel: Name, _ result: Result<Position, WireError>, serial: UInt64) {
        guard let slot = channels.slot(of: channel), channelStates[slot].serial == serial, !channelStates[slot].isLive else { return }
        let waiters = channelStates[slot].waiters
        channelStates[slot].waiters = []
        // All join before any is answered: an answer can let held requests go, and those may unsubscribe again.
        for waiter in waiters where isCurrent(waiter.connection) {
            sessions[Int(waiter.connection.index)].waiting -= 1
            if case .success = result { join(waiter.connection, slot: slot) }
        }
        if case .success(let position) = result {
            channelStates[slot].isLive = true
            channelStates[slot].position = position
        }
        dropIfEmpty(slot)
        for waiter in waiters { settle(waiter.batch, waiter.place, result, wanted: waiter.position) }
        for waiter in waiters { release(waiter.connection) }
    }

    private func join(_ id: ConnectionID, slot: Int) {
        if channels.add(id.index, to: slot, sessions[Int(id.index)].format) { numbers.subscriptions += 1 }
        if sessions[Int(id.index)].isStream { followDefault(id, slot) }
    }

    // MARK: Answering

    private func settle(_ batch: UInt64, _ place: Int, _ result: Result<Position, WireError>, wanted: Position? = nil) {
        _ = batches.update(batch) { waiting in
            waiting.results[place].result = result
            if let wanted, case .success(let current) = result {
                // Nothing was missed exactly when the client stands where the channel stands; more can't be proved without history.
                waiting.results[place].recovered = wanted == current
                waiting.results[place].reason = wanted == current ? nil : "historyNotServed"
            }
        }
        settle(batch)
    }

    /// Counts one part of a batch as done; the last one sends the answer.
    func settle(_ batch: UInt64) {
        let remaining = batches.update(batch) { waiting in
            waiting.remaining -= 1
            return waiting.remaining
        }
        guard remaining == 0, let done = batches.remove(batch), isCurrent(done.connection) else { return }
        switch done.purpose {
        case .welcome: welcome(done.connection, channels: done.results)
        case .request(let requestId, let isList):
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

    // MARK: Leaving

    func unsubscribe(_ request: Request, _ bytes: UnsafeRawBufferPointer, on id: ConnectionID) {
        do throws(WireError) {
            let channel = try channel(of: request, bytes, on: id, allowsDefault: false)
            guard let slot = channels.slot(of: channel) else { throw WireError(.notSubscribed, "not subscribed to \(channel)") }
            guard channels.remove(id.index, from: slot) else { throw WireError(.notSubscribed, "not subscribed to \(channel)") }
            numbers.subscriptions -= 1
            if sessions[Int(id.index)].isStream && channel == sessions[Int(id.index)].defaultChannel { net.follow(0, on: id) }
            dropIfEmpty(slot)
            acknowledge(request.id, in: bytes, channel: channel, on: id)
        } catch {
            refuse(error, request.id, in: bytes, on: id)
        }
    }

    /// The last one has gone: the backplane needn't bring this channel here any more.
    func dropIfEmpty(_ slot: Int) {
        guard channels.isUsed(slot), channels.memberCount(of: slot) == 0 else { return }
        channelStates[slot].waiters.removeAll { !isCurrent($0.connection) }
        guard channelStates[slot].waiters.isEmpty else { return }
        outbox.append(.unsubscribe(channels.name(at: slot), loop: number))
        channelStates[slot] = ChannelState()
        channels.removeIfEmpty(slot)
    }
}
