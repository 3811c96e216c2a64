import HubBase
import HubCore
import HubNet
import HubWire

/// The way in and the way out of publications.
extension GatewayLoop {
    // MARK: In

    func publish(_ request: Request, _ bytes: UnsafeRawBufferPointer, on id: ConnectionID) {
        do throws(WireError) {
            let channel = try channel(of: request, bytes, on: id, allowsDefault: true)
            // Field by field: a copy of the session would count half a dozen references up and down.
            let index = Int(id.index)
            guard sessions[index].mayPublish(to: channel) else { throw sessions[index].rights.refusal(.publish, in: channel) }
            guard request.payload.isPresent else { throw WireError(.malformed, "payload is missing") }
            let attempt = request.age.isPresent ? try self.attempt(of: request, bytes) : nil
            let messageClass: MessageClass = request.type == .chat ? .chat : .event
            let publication = Publication(
                messageClass: messageClass, user: sessions[index].user, device: deviceName(of: id),
                messageId: try messageId(of: request, bytes), time: wallMilliseconds(),
                payload: [UInt8](request.payload.bytes(in: bytes)), payloadFormat: request.format.payload)
            let requestId = RequestID(request.id.bytes(in: bytes))
            if asks(.publish, channel, on: id) || askLines[id.index] != nil {
                return askPublication(publication, channel, attempt?.value, requestId, on: id)
            }
            pass(publication, channel, attempt, requestId, on: id)
        } catch {
            if refuseInTurn(error, request.id.bytes(in: bytes), on: id) { return }
            refuse(error, request.id, in: bytes, on: id)
        }
    }

    /// Nothing stands against it.
    func pass(_ publication: Publication, _ channel: Name, _ attempt: Boxed<PublishAttempt>?, _ requestId: RequestID, on id: ConnectionID) {
        let kind = Pending.Kind.publish(channel: channel, messageId: publication.messageId, publication.messageClass)
        let key = note(kind, requestId, on: id)
        outbox.append(.publish(publication, channel: channel, attempt: attempt, tag: tag(key)))
    }

    /// A request about a channel, which the backplane will answer: under which number it waits.
    func note(_ kind: Pending.Kind, _ request: Request, _ bytes: UnsafeRawBufferPointer, on id: ConnectionID) -> UInt64 {
        note(kind, RequestID(request.id.bytes(in: bytes)), on: id)
    }

    private func note(_ kind: Pending.Kind, _ requestId: RequestID, on id: ConnectionID) -> UInt64 {
        sessions[Int(id.index)].unanswered += 1
        return pending.insert(Pending(kind: kind, connection: id, id: requestId))
    }

    /// What makes it a retry. Without `age` it's new, and `since` says nothing.
    private func attempt(of request: Request, _ bytes: UnsafeRawBufferPointer) throws(WireError) -> Boxed<PublishAttempt> {
        let age = request.value(request.age, in: bytes)?.unsigned(in: bytes) ?? 0
        var position: Position?
        if let since = request.value(request.since, in: bytes) {
            position = since.kind == .string ? Position(text: since.range.bytes(in: bytes)) : nil
            guard position != nil else { throw WireError(.badPosition, "since must be a position that this hub gave out") }
        }
        let waited = replayed.map { net.now.since($0) } ?? .zero
        return Boxed(PublishAttempt(age: .milliseconds(age) + waited, since: position))
    }

    func published(_ result: Result<PublishResult, WireError>, tag: UInt64) {
        guard let waiting = pending.remove(tag) else { return }
        if case .success(let published) = result, !published.isDuplicate { countPublication(waiting.kind) }
        switch waiting.kind {
        case .publish(let channel, let messageId, _):
            defer { answered(waiting.connection) }
            switch result {
            case .failure(let error): refuse(error, waiting.id, on: waiting.connection)
            case .success(let published):
                guard waiting.id.isPresent else { return }
                waiting.id.withBytes { raw in
                    send(to: waiting.connection, as: .reply) {
                        EnvelopeEncoder.ackPublish(
                            id: raw, channel: channel, messageId: messageId, position: published.position,
                            isDuplicate: published.isDuplicate, format: $0, into: &$1)
                    }
                }
            }
        case .httpPublish(let channel, let messageId, _):
            answerPublish(result, channel: channel, messageId: messageId, to: waiting.connection)
        case .httpRevoke(let revocation): revocationPublished(result, revocation, to: waiting.connection)
        case .httpPublishPart(let batch, let place, _): answerPublish(result, batch: batch, place: place)
        default: break
        }
    }

    /// Repeats and refusals aren't publications.
    private func countPublication(_ kind: Pending.Kind) {
        switch kind {
        case .publish(_, _, let messageClass), .httpPublish(_, _, let messageClass), .httpPublishPart(_, _, let messageClass):
            numbers.publications[Int(messageClass.rawValue)] += 1
        default: break
        }
    }

    func read(_ request: Request, _ bytes: UnsafeRawBufferPointer, on id: ConnectionID) {
        do throws(WireError) {
            let channel = try channel(of: request, bytes, on: id, allowsDefault: true)
            let session = sessions[Int(id.index)]
            guard session.rights.mayPublish(to: channel) else { throw session.rights.refusal(.publish, in: channel) }
            let payload = request.payload.bytes(in: bytes)
            guard request.payload.isPresent, let offset = Payload.readOffset(payload, format: request.format.payload) else {
                throw WireError(.malformed, "payload of read must be {\"offset\": n}, a whole number from 0")
            }
            // Whether it's there only the broker knows: this node may hear of it after the reader did.
            let key = note(.read(channel: channel), request, bytes, on: id)
            let publication = Publication(
                messageClass: .read, user: session.user, device: deviceName(of: id), messageId: .empty, time: wallMilliseconds(),
                payload: [UInt8](payload), payloadFormat: request.format.payload)
            outbox.append(.markRead(publication, offset: offset, channel: channel, tag: tag(key)))
        } catch {
            refuse(error, request.id, in: bytes, on: id)
        }
    }

    func readMoved(_ result: Result<UInt64, WireError>, tag: UInt64) {
        guard let waiting = pending.remove(tag), case .read(let channel) = waiting.kind else { return }
        defer { answered(waiting.connection) }
        switch result {
        case .failure(let error): refuse(error, waiting.id, on: waiting.connection)
        case .success(let offset):
            numbers.publications[Int(MessageClass.read.rawValue)] += 1
            guard waiting.id.isPresent else { return }
            waiting.id.withBytes { raw in
                send(to: waiting.connection, as: .reply) {
                    EnvelopeEncoder.ackRead(id: raw, channel: channel, offset: offset, format: $0, into: &$1)
                }
            }
        }
    }

    // MARK: Out

    /// Encoded once for each format, handed to every member: no allocation, no retain for each of them.
    func deliver(_ delivery: DurableDelivery) {
        guard let slot = channels.slot(of: delivery.channel), channelStates[slot].isLive else { return }
        channelStates[slot].offset = delivery.publication.position.offset
        fanOut(to: slot, as: .publication, at: delivery.publication.position) {
            EnvelopeEncoder.publication(
                delivery.publication.publication, channel: delivery.channel, position: delivery.publication.position, format: $0, into: &$1)
        }
    }

    func deliver(_ publication: Publication, channel: Name) {
        guard let slot = channels.slot(of: channel), channelStates[slot].isLive else { return }
        if publication.messageClass == .typing {
            noteTyping(publication, channel)
            deliverTyping(publication, channel, slot)
        } else {
            fanOut(to: slot, as: .read, key: Self.key(slot, publication.user)) {
                EnvelopeEncoder.publication(publication, channel: channel, position: nil, format: $0, into: &$1)
            }
        }
    }

    func deliverTyping(_ publication: Publication, _ channel: Name, _ slot: Int) {
        fanOut(to: slot, as: .typing) {
            EnvelopeEncoder.publication(publication, channel: channel, position: nil, format: $0, into: &$1)
        }
    }

    /// Every member learns that publications may be missing before `position`, before anything newer is delivered.
    func resync(_ channel: Name, to position: Position, reason: ResyncReason) {
        guard let slot = channels.slot(of: channel), channelStates[slot].isLive else { return }
        channelStates[slot].offset = position.offset
        numbers.resyncs += 1
        fanOut(to: slot, as: .system, at: position) {
            EnvelopeEncoder.system(.resync(channel: channel, position: position, reason: reason.rawValue), format: $0, into: &$1)
        }
    }

    /// The last read position of each user in each channel counts. The hash is seeded for each process: no client can aim at another's.
    private static func key(_ slot: Int, _ user: Name) -> UInt64 {
        var hasher = Hasher()
        hasher.combine(slot)
        user.bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
        return UInt64(bitPattern: Int64(hasher.finalize())) | 1
    }

    /// `encode` is called once for each format that a member of the channel speaks. `position`: where who has heard it stands in the channel.
    private func fanOut(
        to slot: Int, as sendClass: SendClass, key: UInt64 = 0, at position: Position? = nil,
        _ encode: (WireFormat, inout ByteBuffer) -> Void
    ) {
        fanOut(.json, to: slot, as: sendClass, key, position, encode)
        fanOut(.messagePack, to: slot, as: sendClass, key, nil, encode)
        fanOut(.short, to: slot, as: sendClass, key, nil, encode)
    }

    @inline(__always)
    private func fanOut(
        _ format: WireFormat, to slot: Int, as sendClass: SendClass, _ key: UInt64, _ position: Position?,
        _ encode: (WireFormat, inout ByteBuffer) -> Void
    ) {
        guard channels.memberCount(of: slot, format) > 0 else { return }
        let frame = net.makeFrame(format.messageKind) { encode(format, &$0) }
        if let position, numbers.streams > 0 { net.label(frame, topic: Self.topic(slot)) { position.append(to: &$0) } }
        channels.withMembers(of: slot, format) { members in
            net.broadcast(frame, to: members, as: sendClass, key: key)
            numbers.deliveries += UInt64(members.count)
        }
    }
}
