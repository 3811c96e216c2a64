import HubBase
import HubCore
import HubNet
import HubWire

/// Server-sent events, for networks that let no WebSocket through: the same sessions, heard as events.
extension GatewayLoop {
    /// After how long a browser comes back by itself when nobody told it a time: spread, so that those of a node that went away don't return at once.
    private static let retry = Span.milliseconds(1000)..<Span.milliseconds(4000)

    func openStream(_ request: borrowing HTTPRequest, on id: ConnectionID) -> RequestOutcome {
        if request.method == .head { return .stream(retry: .zero) }
        // Its last stream was closed for good: this is how a browser is told not to come back (WHATWG HTML §9.2.3).
        if let last = request.header("last-event-id"), EventEncoder.endsFor(last) { return .respond(HTTPResponse(status: 204)) }
        if let refusal = judgePresence(ofOrigin: request, on: id) { return .respond(.error(refusal)) }
        if let refusal = judgeReadiness() { return turnAway(refusal, request) }
        let admission = judgeAdmission(of: id)
        if admission != .comesIn { return turnAway(refusal(admission), request) }
        if let refusal = judgeFailures(id) { return turnAway(noted(refusal, on: id), request) }
        do throws(WireError) {
            let credential = try credential(request)
            if case .named = credential, request.header("origin") == nil, let refusal = judgeHost(request) {
                // Development mode believes the URL. Pages send no Origin with a GET to their own host, and a name may have been pointed at this machine.
                throw refusal
            }
            let channel = try parameter("channel", of: request, limit: Name.lengthMax) ?? .empty
            let device = try parameter("device", of: request, limit: configuration.limits.deviceBytes) ?? .empty
            let position = try position(request)
            let status = try firstStatus(request)
            prepare(id, kind: .session, format: .json, credential: credential, device: device, defaultChannel: channel)
            sessions[Int(id.index)].isStream = true
            sessions[Int(id.index)].firstStatus = status
            resumePositions[id.index] = channel.isEmpty ? nil : position
            return .stream(retry: chance.span(in: Self.retry))
        } catch {
            if error.code == .tokenInvalid || error.code == .tokenExpired { authenticationFailed(error.code, on: id) }
            return .respond(.error(error))
        }
    }

    /// To come back later is said as an event to those who read events: a browser gives up for good after any other answer.
    private func turnAway(_ refusal: WireError, _ request: borrowing HTTPRequest) -> RequestOutcome {
        guard request.listContains("text/event-stream", in: "accept") else { return .respond(.error(refusal)) }
        var body = ByteBuffer(capacity: 256)
        let reason = Array("\(refusal.retryAfter ?? 1000) \(refusal.message)".utf8)
        reason.withUnsafeBytes { EventEncoder.appendClose(code: CloseCode.overloaded.rawValue, reason: $0, into: &body) }
        var response = HTTPResponse(status: 200, headers: [("Content-Type", "text/event-stream")], body: body.copyBytes())
        response.closes = true
        return .respond(response)
    }

    /// Where the client stands in its default channel: as its browser says when it comes back, else as the URL says.
    private func position(_ request: borrowing HTTPRequest) throws(WireError) -> Position? {
        if let last = request.header("last-event-id"), !last.isEmpty {
            guard let position = Position(text: last) else {
                throw WireError(.badPosition, "Last-Event-ID must be a position that this hub gave out")
            }
            return position
        }
        guard let value = request.queryValue("position") else { return nil }
        guard let position = value.withUnsafeBytes({ Position(text: $0) }) else {
            throw WireError(.badPosition, "position in the URL must be one that this hub gave out")
        }
        return position
    }

    /// The stream is open: its client learns how to speak.
    func tellKey(of id: ConnectionID) {
        numbers.streams += 1
        let key = streamKeys.key(of: node.connection(sessions[Int(id.index)].serial))
        send(to: id, as: .system) { EnvelopeEncoder.system(.stream(key: key), format: $0, into: &$1) }
    }

    // MARK: Ids of events

    /// Events that move a stream on in its default channel carry the position as their id. What they move in is named by the channel's slot.
    static func topic(_ slot: Int) -> UInt32 { UInt32(truncatingIfNeeded: slot + 1) }

    func followDefault(_ id: ConnectionID, _ slot: Int) {
        if channels.name(at: slot) == sessions[Int(id.index)].defaultChannel { net.follow(Self.topic(slot), on: id) }
    }

    /// A message to one stream, with the position in its default channel as its id, where that is among `results`.
    func sendLabelled(to id: ConnectionID, at results: [SubscribeResult], _ encode: (inout ByteBuffer) -> Void) {
        let channel = sessions[Int(id.index)].defaultChannel
        let frame = net.makeFrame(.text, encode)
        if let slot = channels.slot(of: channel), let result = results.first(where: { $0.channel == channel }),
            case .success(let position) = result.result
        {
            net.label(frame, topic: Self.topic(slot)) { position.append(to: &$0) }
        }
        net.send(frame, to: id, as: .system)
    }
}
