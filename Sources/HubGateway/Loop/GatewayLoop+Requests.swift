import HubBase
import HubCore
import HubNet
import HubWire

/// One envelope: scanned in place, judged, carried out or refused. A refusal is always sent, with or without an id.
extension GatewayLoop {
    func handle(_ bytes: UnsafeRawBufferPointer, on id: ConnectionID) {
        let index = Int(id.index)
        // The timer that ends the connection may be late; nothing is done for a token that is over.
        if sessions[index].tokenEnd != 0, sessions[index].tokenEnd <= wallMilliseconds() { return endExpired(id) }
        switch EnvelopeScanner.scan(bytes, format: sessions[index].format, depthMax: configuration.limits.depth) {
        case .refused(let error, let range):
            // What can't be read costs its sender as much as what can.
            if let limited = judge(.ping, bytes: bytes.count, on: id) {
                refuse(limited, range, in: bytes, on: id)
            } else {
                refuse(error, range, in: bytes, on: id)
            }
        case .request(let request):
            if request.type.isOrderedByChannel && holds(request.channel, bytes, on: id) { return }
            if request.type.isAnsweredAtOnce && overtakes(request, on: id) { return hold(bytes, on: id) }
            if waitsForRoom(request, on: id) { return hold(bytes, on: id) }
            if let refusal = judge(request.type, bytes: bytes.count, on: id) { return refuse(refusal, request.id, in: bytes, on: id) }
            if request.type.isActivity { tellActivity(of: Int(id.index)) }
            perform(request, bytes, on: id)
        }
    }

    private func perform(_ request: Request, _ bytes: UnsafeRawBufferPointer, on id: ConnectionID) {
        switch request.type {
        case .chat, .event: publish(request, bytes, on: id)
        case .typing: typing(request, bytes, on: id)
        case .read: read(request, bytes, on: id)
        case .subscribe: subscribe(request, bytes, on: id)
        case .unsubscribe: unsubscribe(request, bytes, on: id)
        case .presence: setStatus(request, bytes, on: id)
        case .watch: watch(request, bytes, on: id)
        case .unwatch: unwatch(request, bytes, on: id)
        case .connect: connect(request, bytes, on: id)
        case .ping:
            send(to: id, as: .reply) { EnvelopeEncoder.pong(id: request.id.bytes(in: bytes), format: $0, into: &$1) }
        case .leave: leave(request, bytes, on: id)
        case .history: history(request, bytes, on: id)
        case .members: members(request, bytes, on: id)
        }
    }

    // MARK: Answers

    /// One message in the format that the connection speaks. (When another one has its place by now, nothing is sent.)
    func send(to id: ConnectionID, as sendClass: SendClass, key: UInt64 = 0, _ encode: (WireFormat, inout ByteBuffer) -> Void) {
        let format = sessions[Int(id.index)].format
        net.sendMessage(format.messageKind, to: id, as: sendClass, key: key) { encode(format, &$0) }
    }

    func refuse(_ error: WireError, _ range: ByteRange, in bytes: UnsafeRawBufferPointer, on id: ConnectionID) {
        refuse(error, range.bytes(in: bytes), on: id)
    }

    func refuse(_ error: WireError, _ requestId: UnsafeRawBufferPointer, on id: ConnectionID) {
        if let place = ErrorCode.allCases.firstIndex(of: error.code) { numbers.refusals[place] += 1 }
        if error.code == .forbidden { note(.forbidden, on: id, impersonal(error)) }
        send(to: id, as: .reply) { EnvelopeEncoder.error(id: requestId, error, format: $0, into: &$1) }
    }

    func refuse(_ error: WireError, _ requestId: RequestID, on id: ConnectionID) {
        requestId.withBytes { refuse(error, $0, on: id) }
    }

    /// A plain `ack`, sent only where there's an id to carry back.
    func acknowledge(_ range: ByteRange, in bytes: UnsafeRawBufferPointer, channel: Name?, on id: ConnectionID) {
        guard range.isPresent else { return }
        send(to: id, as: .reply) { EnvelopeEncoder.ack(id: range.bytes(in: bytes), channel: channel, format: $0, into: &$1) }
    }

    // MARK: Fields

    /// The channel that a request names: the session's default where `allowsDefault` and there's none. Throws what to answer.
    func channel(
        of request: Request, _ bytes: UnsafeRawBufferPointer, on id: ConnectionID, allowsDefault: Bool
    ) throws(WireError) -> Name {
        guard request.channel.isPresent else {
            let fallback = sessions[Int(id.index)].defaultChannel
            if allowsDefault && !fallback.isEmpty { return fallback }
            throw WireError(.malformed, "channel is missing")
        }
        let raw = request.channel.bytes(in: bytes)
        // A channel that this loop carries already was validated when it was made: its name is shared, not copied.
        if !request.escapes, let slot = channels.slot(of: raw) { return channels.name(at: slot) }
        guard let name = request.name(request.channel, in: bytes) else {
            throw WireError(.badName, "channel must be 1 to 255 bytes of UTF-8 without control characters")
        }
        return name
    }

    func messageId(of request: Request, _ bytes: UnsafeRawBufferPointer) throws(WireError) -> Name {
        guard request.messageId.isPresent else {
            return makeMessageId()
        }
        let limit = configuration.limits.messageIdBytes
        guard let name = request.name(request.messageId, in: bytes, limit: limit) else {
            throw WireError(.badName, "messageId must be 1 to \(limit) bytes of UTF-8 without control characters")
        }
        return name
    }

    // MARK: Connection

    private func leave(_ request: Request, _ bytes: UnsafeRawBufferPointer, on id: ConnectionID) {
        acknowledge(request.id, in: bytes, channel: nil, on: id)
        // The word counts, not the end of the closing handshake, which the peer may drag out.
        tellClosed(sessions[Int(id.index)], by: .peer(code: CloseCode.normal.rawValue))
        sessions[Int(id.index)].phase = .leaving
        net.close(id, code: CloseCode.normal.rawValue, reason: "")
    }

    // MARK: Activity

    private func tellActivity(of index: Int) {
        // Without a copy of the session.
        let phase = sessions[index].phase
        guard !sessions[index].isService, phase == .open || phase == .held,
            sessions[index].tellsActivity(awayAfter: configuration.presence.awayAfter, at: net.now)
        else { return }
        outbox.append(.activity(connection: node.connection(sessions[index].serial)))
    }
}

extension WireFormat {
    /// The WebSocket message that an envelope travels in.
    var messageKind: MessageKind { self == .json ? .text : .binary }
}
