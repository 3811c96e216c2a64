import HubBase
import HubCore
import HubNet
import HubWire

/// Subscribing and unsubscribing: what a request asks for. How a subscriber is joined: `GatewayLoop+Joining`.
extension GatewayLoop {
    func subscribe(_ request: Request, _ bytes: UnsafeRawBufferPointer, on id: ConnectionID) {
        var wanted: [(channel: Name, position: Position?, refusal: WireError?)] = []
        do throws(WireError) {
            if request.channels.isPresent {
                guard !request.channel.isPresent && !request.position.isPresent else {
                    let other = request.channel.isPresent ? "channel" : "position"
                    throw WireError(
                        .malformed,
                        "subscribe takes either \"channels\" or \"\(other)\": with \"channels\", each entry has its own \(other)")
                }
                try readChannels(request, bytes, into: &wanted)
            } else {
                let channel = try channel(of: request, bytes, on: id, allowsDefault: false)
                wanted.append((channel, try position(request.position, in: bytes, escapes: request.escapes), nil))
            }
            for index in wanted.indices where !sessions[Int(id.index)].rights.maySubscribe(to: wanted[index].channel) {
                wanted[index].refusal = sessions[Int(id.index)].rights.refusal(.subscribe, in: wanted[index].channel)
            }
            // One subscription of a channel after the other, or a page of the second could repeat what the first has brought live.
            if sessions[Int(id.index)].waiting > 0, wanted.contains(where: { isJoining(id, $0.channel) }) { return hold(bytes, on: id) }
            if let refusal = judgeSubscribes(wanted.count, on: id) { return refuse(refusal, request.id, in: bytes, on: id) }
            let held = channels.count(of: id.index) + waitingToJoin(id) + (catchingUp[id.index]?.count ?? 0)
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
        let batch = makeBatch(purpose, count: wanted.count, on: id)
        if request.members { _ = batches.update(batch) { $0.wantsMembers = true } }
        for entry in wanted {
            subscribe(id, to: entry.channel, position: entry.position, refusal: entry.refusal, batch: batch, asks: true)
        }
        settle(batch)
    }

    private func readChannels(
        _ request: Request, _ bytes: UnsafeRawBufferPointer, into wanted: inout [(channel: Name, position: Position?, refusal: WireError?)]
    ) throws(WireError) {
        var elements = WireElements(bytes, range: request.channels, format: request.format, depthMax: configuration.limits.depth)
        var named: Set<Name> = []
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
            let isRepeated = !named.insert(name).inserted && place != nil
            wanted.append((name, place, isRepeated ? WireError(.malformed, "\(entry) repeats a channel") : nil))
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
            if channel == nil, key.isField(.channel, in: bytes) { channel = value }
            if place == nil, key.isField(.position, in: bytes) { place = value }
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

    // MARK: Leaving

    func unsubscribe(_ request: Request, _ bytes: UnsafeRawBufferPointer, on id: ConnectionID) {
        do throws(WireError) {
            let channel = try channel(of: request, bytes, on: id, allowsDefault: false)
            guard let slot = channels.slot(of: channel), leave(id, slot) else {
                throw WireError(.notSubscribed, "not subscribed to \(channel)")
            }
            if sessions[Int(id.index)].isStream && channel == sessions[Int(id.index)].defaultChannel { net.follow(0, on: id) }
            unfollow(id, channel)
            dropIfEmpty(slot)
            acknowledge(request.id, in: bytes, channel: channel, on: id)
        } catch {
            refuse(error, request.id, in: bytes, on: id)
        }
    }

    /// False when it was neither a member nor about to become one.
    func leave(_ id: ConnectionID, _ slot: Int) -> Bool {
        if channels.remove(id.index, from: slot) {
            numbers.subscriptions -= 1
            memberLeft(id, channels.name(at: slot))
            return true
        }
        return stopCatchingUp(id, slot)
    }

    /// The last one has gone: the backplane needn't bring this channel here any more.
    func dropIfEmpty(_ slot: Int) {
        guard channels.isUsed(slot), channels.memberCount(of: slot) == 0, channelStates[slot].interest == 0 else { return }
        outbox.append(.drop(channels.name(at: slot), loop: number))
        channelStates[slot] = ChannelState()
        channels.removeIfEmpty(slot)
    }
}
