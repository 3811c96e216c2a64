import HubBase
import HubCore
import HubNet
import HubToken
import HubWire

extension GatewayLoop: ServerHandler {
    func request(_ request: borrowing HTTPRequest, on id: ConnectionID) -> RequestOutcome {
        route(request, on: id)
    }

    // MARK: Opening

    /// Who wants to come in, found out before the upgrade.
    enum Credential {
        case token(TokenClaims)
        /// Development mode believes the URL.
        case named(Name)
        case service(Name, Rights)
        /// The backend says what it's worth.
        case shown(Secret)
        /// Must send `connect` within the deadline.
        case later
    }

    /// Fills the connection's place; `opened` follows when the handshake was in order.
    func prepare(
        _ id: ConnectionID, kind: ConnectionKind, format: WireFormat, credential: Credential, device: Name, defaultChannel: Name
    ) {
        let index = Int(id.index)
        while sessions.count <= index {
            sessions.append(Session(generation: 0, serial: 0, since: 0, at: net.now))
            kinds.append(.none)
        }
        var session = Session(
            generation: id.generation, serial: ConnectionSerial(loop: number, id).value, since: wallMilliseconds(), at: net.now)
        session.format = format
        session.device = device
        session.defaultChannel = defaultChannel
        switch credential {
        case .token(let claims):
            session.phase = .opening
            adopt(claims, in: &session)
            claimedChannels[id.index] = claims.channels.isEmpty ? nil : claims.channels
        case .named(let user):
            session.phase = .opening
            session.user = user
            session.rights = .everything
        case .service(let key, let rights):
            session.phase = .opening
            session.user = key
            session.rights = rights
            session.isService = true
        case .shown(let token):
            session.phase = .opening
            tokensShown[id.index] = token
        case .later:
            session.phase = .anonymous
        }
        sessions[index] = session
        kinds[index] = kind
    }

    func opened(_ id: ConnectionID) {
        let index = Int(id.index)
        guard index < sessions.count, sessions[index].generation == id.generation else { return }
        if kinds[index] == .echo { net.allow(id, messageBytes: configuration.diagnostics.echoBytes) }
        if kinds[index] == .turnedAway {
            let hint = state.admission.hint(perSecond: configuration.limits.acceptsPerSecond, at: net.now)
            net.close(id, code: CloseCode.overloaded.rawValue, reason: "\(hint.milliseconds) too many clients come at once")
        }
        guard kinds[index] == .session else { return }
        numbers.sessions += 1
        if sessions[index].isStream { tellKey(of: id) }
        if sessions[index].phase == .anonymous {
            net.hold(id, for: configuration.deadlines.authentication, code: CloseCode.authenticationDeadline.rawValue)
        } else {
            // The welcome is a round trip away, and the client can do nothing before it.
            net.withhold(id)
            comeIn(id)
        }
    }

    /// What its device is called, where the client didn't say. Cost: some allocations.
    private func deviceName(of session: Session) -> Name {
        session.device.isEmpty ? DeviceName.standard(of: node.connection(session.serial)) : session.device
    }

    /// The same for one that says something, and will say more: it's kept.
    func deviceName(of id: ConnectionID) -> Name {
        let index = Int(id.index)
        if sessions[index].device.isEmpty { sessions[index].device = deviceName(of: sessions[index]) }
        return sessions[index].device
    }

    /// Authenticated: makes the server's own subscriptions; the welcome follows when they're confirmed. `isJudged`: it was looked already whether its user may
    /// have one more.
    func open(_ id: ConnectionID, isJudged: Bool = false) {
        let index = Int(id.index)
        if !isJudged, let refusal = judgeOpening(id) { return turnAway(id, refusal) }
        sessions[index].phase = .opening
        sessions[index].isInvisible = sessions[index].firstStatus == .invisible
        if sessions[index].tokenExpires != nil { scheduleExpiry(of: id) }
        let session = sessions[index]
        let claimed = claimedChannels.removeValue(forKey: id.index) ?? []
        var wanted: [(Name, WireError?)] = []
        if !session.isService {
            outbox.append(
                .connected(
                    user: session.user, device: session.device, connection: node.connection(session.serial),
                    status: session.firstStatus))
            if let inbox = Inbox.channel(of: session.user) { wanted.append((inbox, nil)) }
        }
        for channel in claimed + (session.defaultChannel.isEmpty ? [] : [session.defaultChannel])
        where !wanted.contains(where: { $0.0 == channel }) {
            let allowed = session.rights.maySubscribe(to: channel)
            wanted.append((channel, allowed ? nil : session.rights.refusal(.subscribe, in: channel)))
        }
        for place in wanted.indices where place >= configuration.limits.channels {
            wanted[place].1 = WireError(.tooMany, "more than \(configuration.limits.channels) channels on one connection (limits.channels)")
        }
        let batch = makeBatch(.welcome, count: wanted.count, on: id)
        let resumed = session.isStream ? resumePositions.removeValue(forKey: id.index) : nil
        for (channel, refusal) in wanted {
            let position = channel == session.defaultChannel ? resumed : nil
            // What the hub and the token name is settled; the default channel is the client's own wish.
            let isWish = channel == session.defaultChannel && !claimed.contains(channel) && channel != Inbox.channel(of: session.user)
            subscribe(id, to: channel, position: position, refusal: refusal, batch: batch, asks: isWish)
        }
        settle(batch)
    }

    func welcome(_ id: ConnectionID, channels: [SubscribeResult]) {
        let index = Int(id.index)
        // Without its own subscriptions a connection would be deaf and not know it: better to come back later.
        if let failed = channels.lazy.compactMap(\.failure).first(where: \.mayRetry) {
            net.close(id, code: CloseCode.overloaded.rawValue, reason: "1000 \(failed.code.rawValue)")
            return
        }
        let session = sessions[index]
        let welcome = Welcome(
            connection: node.connection(session.serial), node: node.name, user: session.user, device: deviceName(of: session),
            pingMilliseconds: configuration.ping.milliseconds, messageBytesMax: UInt64(configuration.limits.messageBytes),
            channelsMax: UInt64(configuration.limits.channels), channels: channels, tokenExpires: session.tokenExpires)
        if session.isStream {
            sendLabelled(to: id, at: channels) { EnvelopeEncoder.welcome(welcome, into: &$0) }
        } else {
            send(to: id, as: .system) { EnvelopeEncoder.welcome(welcome, format: $0, into: &$1) }
        }
        sessions[index].phase = .open
        if let reason = health.degradation {
            send(to: id, as: .system) { EnvelopeEncoder.system(.degraded(reason: reason), format: $0, into: &$1) }
        }
        if let requestId = connectRequests.removeValue(forKey: id.index) { acknowledgeConnect(requestId, on: id) }
        replay(id)
    }

    /// Handles what was kept, in order, until one of those must be held itself.
    private func replay(_ id: ConnectionID) {
        net.goOnReading(id)
        guard let waiting = early.removeValue(forKey: id.index) else { return }
        for message in waiting.messages {
            // One of them may have closed it.
            guard isCurrent(id), net.isOpen(id) else { return }
            replay(message) { self.message($0, sessions[Int(id.index)].format.messageKind, on: id) }
        }
    }

    /// Handles what was kept, which came when it came: the age of a retry has grown since.
    func replay(_ message: (bytes: [UInt8], at: Instant), _ handle: (UnsafeRawBufferPointer) -> Void) {
        let outer = replayed
        replayed = message.at
        message.bytes.withUnsafeBytes(handle)
        replayed = outer
    }

    /// A request of a session about a channel has had its answer.
    func answered(_ id: ConnectionID) {
        guard isCurrent(id) else { return }
        sessions[Int(id.index)].unanswered -= 1
        goOn(id)
    }

    func goOn(_ id: ConnectionID) {
        // A refusal may have waited for this.
        if !askLines.isEmpty, askLines[id.index] != nil { advance(id) } else { release(id) }
    }

    /// Lets a held connection go on once all that it waits for has been answered.
    func release(_ id: ConnectionID) {
        guard isCurrent(id), sessions[Int(id.index)].phase == .held, sessions[Int(id.index)].waiting == 0,
            sessions[Int(id.index)].unanswered == 0
        else { return }
        sessions[Int(id.index)].phase = .open
        replay(id)
    }

    /// True when the request must wait because its channel's subscription is still being made for this connection.
    func holds(_ channel: ByteRange, _ bytes: UnsafeRawBufferPointer, on id: ConnectionID) -> Bool {
        guard sessions[Int(id.index)].waiting > 0, sessions[Int(id.index)].phase == .open else { return false }
        if channel.isPresent, let slot = channels.slot(of: channel.bytes(in: bytes)), !isJoining(id, slot) { return false }
        hold(bytes, on: id)
        return true
    }

    /// True when the request's ack could pass those of earlier requests of its channel. It isn't looked whether they are of the same channel:
    /// they seldom take more than a round trip, and another order across channels is as good.
    func overtakes(_ request: Request, on id: ConnectionID) -> Bool {
        guard sessions[Int(id.index)].unanswered > 0, sessions[Int(id.index)].phase == .open else { return false }
        return request.type != .typing || request.id.isPresent
    }

    /// Keeps a request, and all behind it, until those that are under way have been answered.
    func hold(_ bytes: UnsafeRawBufferPointer, on id: ConnectionID) {
        sessions[Int(id.index)].phase = .held
        keepEarly(bytes, of: id)
    }

    func isJoining(_ id: ConnectionID, _ channel: Name) -> Bool { channels.slot(of: channel).map { isJoining(id, $0) } ?? false }

    private func isJoining(_ id: ConnectionID, _ slot: Int) -> Bool {
        joiningOf[id.index]?.contains(slot) ?? false
    }

    // MARK: Messages

    func message(_ bytes: UnsafeRawBufferPointer, _ kind: MessageKind, on id: ConnectionID) {
        switch kinds[Int(id.index)] {
        case .none, .turnedAway: return
        case .echo:
            net.sendMessage(kind, to: id, as: .reply) { $0.append(bytes) }
        case .session:
            let format = sessions[Int(id.index)].format
            guard kind == format.messageKind else {
                let reason = "\(format.subprotocol) takes \(format == .json ? "text" : "binary") messages"
                net.close(id, code: CloseCode.unsupportedData.rawValue, reason: reason)
                return
            }
            switch sessions[Int(id.index)].phase {
            case .held where passesHeld(bytes, format, on: id): handle(bytes, on: id)
            case .opening, .held: keepEarly(bytes, of: id)
            case .anonymous, .open: handle(bytes, on: id)
            case .leaving: return
            }
        }
    }

    /// What comes before the welcome, or while a subscription is being made, waits, in order and within a bound.
    ///
    /// Before the welcome nobody needs to send much. Later the wait is the backend's, not the client's fault: so as much may wait to come
    /// in as may wait to go out, and beyond that the client comes back rather than being told that it did wrong.
    func keepEarly(_ bytes: UnsafeRawBufferPointer, of id: ConnectionID) {
        let isHeld = sessions[Int(id.index)].phase == .held
        let limit = isHeld ? configuration.limits.outboundBytes : configuration.limits.messageBytes * 2
        guard early[id.index, default: EarlyMessages()].add(bytes, at: replayed ?? net.now, limit: limit) else {
            early[id.index] = nil
            if isHeld {
                net.close(id, code: CloseCode.overloaded.rawValue, reason: "1000 too much waits for an answer")
            } else {
                net.close(id, code: CloseCode.policyViolation.rawValue, reason: "too much was sent before the welcome")
            }
            return
        }
        if isHeld { holdBackReading(id, holding: early[id.index]?.bytes ?? 0) }
    }

    func isCurrent(_ id: ConnectionID) -> Bool {
        let index = Int(id.index)
        return index < sessions.count && sessions[index].generation == id.generation && kinds[index] == .session
    }

    // MARK: Slow readers

    func drained(_ id: ConnectionID, _ dropped: DroppedFrames) {
        guard isCurrent(id), sessions[Int(id.index)].isWelcomed else { return }
        for (name, count) in [("typing", dropped.typing), ("presence", dropped.presence), ("read", dropped.read)] where count > 0 {
            send(to: id, as: .system) { EnvelopeEncoder.system(.dropped(class: name, count: count), format: $0, into: &$1) }
        }
    }

    // MARK: Closing

    func closed(_ id: ConnectionID, _ end: ConnectionEnd) {
        let index = Int(id.index)
        guard index < sessions.count, sessions[index].generation == id.generation else { return }
        let kind = kinds[index]
        kinds[index] = .none
        guard kind == .session else { return }
        numbers.sessions -= 1
        if sessions[index].isStream {
            numbers.streams -= 1
            resumePositions[id.index] = nil
        }
        early[id.index] = nil
        connectRequests[id.index] = nil
        roomDelays[id.index] = nil
        forgetPaces(of: index)
        claimedChannels[id.index] = nil
        forgetAsking(of: id.index)
        stopTokenTimer(id.index)
        let session = sessions[index]
        stopTyping(of: session, id.index)
        if session.phase != .leaving { tellClosed(session, by: end) }
        stopJoining(id)
        for slot in channels.removeAll(id.index) {
            numbers.subscriptions -= 1
            dropIfEmpty(slot)
        }
        unwatchAll(id.index)
        unfollowAll(id.index)
        sessions[index] = Session(generation: 0, serial: 0, since: 0, at: net.now)
    }

    /// Presence hears of a connection's end once.
    func tellClosed(_ session: Session, by end: ConnectionEnd) {
        guard session.phase != .anonymous, !session.isService, !session.user.isEmpty else { return }
        let clean = end == .peer(code: CloseCode.normal.rawValue)
        let lastHeard: Instant? = if case .silent(let lastHeard, _) = end { lastHeard } else { nil }
        outbox.append(.closed(connection: node.connection(session.serial), clean: clean, lastHeard: lastHeard))
    }

    // MARK: Node

    func healthChanged(_ health: NodeHealth) {
        guard health != self.health else { return }
        self.health = health
        userPaces.change(isAway: health != .up)
        let event: SystemEvent = health.degradation.map { .degraded(reason: $0) } ?? .restored
        let frames = WireFormat.allCases.map { format in
            net.makeFrame(format.messageKind) { EnvelopeEncoder.system(event, format: format, into: &$0) }
        }
        for index in kinds.indices where kinds[index] == .session && sessions[index].isWelcomed {
            let id = ConnectionID(index: UInt32(index), generation: sessions[index].generation)
            net.send(frames[Int(sessions[index].format.rawValue)], to: id, as: .system)
        }
    }

    func reconfigure(_ configuration: Configuration) {
        let watchRule = self.configuration.watchRule
        self.configuration = configuration
        origins = OriginList(configuration.origins)
        paces = Paces(configuration.limits)
        countConnections()
        userPaces.change(configuration.limits)
        net.change(Node.limits(configuration, over: net.limits))
        typingThrottle.throttle = configuration.typing.throttle
        typingThrottle.expire = configuration.typing.believed
        typingBoard.expire = configuration.typing.believed
        tokens = TokenVerifier(configuration, and: keySet)
        adoptAsks()
        changeKeys(to: configuration)
        changeRules(to: Grants.rules(configuration))
        if configuration.watchRule != watchRule { endLostRights() }
    }

    func shutDown() {
        isStopping = true
        net.stopAccepting()
        for index in kinds.indices where kinds[index] != .none {
            net.close(
                ConnectionID(index: UInt32(index), generation: sessions[index].generation), code: CloseCode.goingAway.rawValue,
                reason: "the node stops: come back")
        }
        numbers.isStopping = true
        tellNumbers()
    }
}

extension SubscribeResult {
    var failure: WireError? {
        if case .failure(let error) = result { return error }
        return nil
    }
}

extension NodeHealth {
    /// What clients are told of it; nil: all is well.
    var degradation: String? {
        switch self {
        case .up: nil
        case .full(let reason), .down(let reason): reason
        }
    }
}
