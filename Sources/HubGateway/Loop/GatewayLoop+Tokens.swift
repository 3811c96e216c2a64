import HubBase
import HubCore
import HubNet
import HubToken
import HubWire

/// A connection's token: taken at the door or by `connect`, refreshed in place, ended on time.
extension GatewayLoop {
    /// What a token that came from outside says; throws what to answer.
    func claims(of token: UnsafeRawBufferPointer) throws(WireError) -> TokenClaims { try judge(token).get() }

    func judge(_ token: UnsafeRawBufferPointer) -> Result<TokenClaims, WireError> {
        let verdict = tokens.verify(token, nowMilliseconds: wallMilliseconds())
        switch verdict {
        case .success(let claims):
            guard revocations.refuses(claims.user, issued: claims.issued, tokenId: claims.tokenId) else { return verdict }
            return .failure(WireError(.tokenInvalid, "the token was revoked: get a new one"))
        case .failure(let error):
            // A newer key set may hold the key: who comes back then may be let in, so the token isn't called invalid.
            guard error.code == .tokenInvalid, let keySetReader, let id = tokens.missingKey(of: token),
                let wait = keySetReader.lacksKey(id)
            else { return verdict }
            return .failure(
                WireError(
                    .unavailable, "the token's key isn't known yet, the keys are being read: come back",
                    retryAfter: wait.milliseconds + Self.readingTime))
        }
    }

    /// What reading a key set takes, or nearly so.
    private static let readingTime: UInt64 = 1000

    func adopt(_ claims: TokenClaims, in session: inout Session) {
        session.user = claims.user
        session.rights = .token(claims.user, grants(of: claims))
        session.tokenExpires = claims.expires
        session.tokenIssued = claims.issued ?? 0
        session.tokenMark = TokenMark.of(claims.tokenId)
    }

    // MARK: connect

    func connect(_ request: Request, _ bytes: UnsafeRawBufferPointer, on id: ConnectionID) {
        let index = Int(id.index)
        do throws(WireError) {
            guard request.token.isPresent else { throw WireError(.malformed, "token is missing") }
            guard !sessions[index].isService else { throw WireError(.forbidden, "an API key's connection takes no token") }
            if let refusal = judgeFailures(id) {
                refuse(refusal, request.id, in: bytes, on: id)
                if sessions[index].phase == .anonymous { closeForRate(id, refusal.error) }
                return
            }
            // What it may hear is judged when its subscriptions stand.
            if sessions[index].waiting > 0, sessions[index].phase == .open { return hold(bytes, on: id) }
            if isBackendIssuer { return try show(request, bytes, on: id) }
            let claims = try claims(of: request, bytes)
            if sessions[index].phase == .anonymous {
                adopt(claims, in: &sessions[index])
                claimedChannels[id.index] = claims.channels.isEmpty ? nil : claims.channels
                try authenticate(request, bytes, on: id)
            } else {
                try refresh(claims, request, bytes, on: id)
            }
        } catch {
            if error.code == .tokenInvalid || error.code == .tokenExpired { authenticationFailed(error.code, on: id) }
            refuse(error, request.id, in: bytes, on: id)
            if sessions[index].phase == .anonymous { closeUnauthenticated(id, error) }
        }
    }

    private func claims(of request: Request, _ bytes: UnsafeRawBufferPointer) throws(WireError) -> TokenClaims {
        scratch.removeAll()
        guard request.text(request.token, in: bytes, into: &scratch) else { throw WireError(.tokenInvalid, "the token isn't valid") }
        return try claims(of: scratch.bytes)
    }

    /// The backend checks it.
    private func show(_ request: Request, _ bytes: UnsafeRawBufferPointer, on id: ConnectionID) throws(WireError) {
        scratch.removeAll()
        guard request.text(request.token, in: bytes, into: &scratch) else { throw WireError(.tokenInvalid, "the token isn't valid") }
        let token = try shownToken(scratch.bytes)
        if sessions[Int(id.index)].phase == .anonymous {
            tokensShown[id.index] = token
            try authenticate(request, bytes, on: id)
        } else {
            askRefresh(nil, token: token, RequestID(request.id.bytes(in: bytes)), on: id)
        }
    }

    private func authenticate(_ request: Request, _ bytes: UnsafeRawBufferPointer, on id: ConnectionID) throws(WireError) {
        let index = Int(id.index)
        if request.device.isPresent {
            let limit = configuration.limits.deviceBytes
            guard let device = request.name(request.device, in: bytes, limit: limit) else {
                throw WireError(.badName, "device must be 1 to \(limit) bytes without control characters")
            }
            sessions[index].device = device
        }
        // The client has done its part. Asking a backend has a deadline of its own.
        net.admit(id)
        // The welcome comes first, so the ack of this request waits for it like every other answer.
        connectRequests[id.index] = RequestID(request.id.bytes(in: bytes))
        comeIn(id)
    }

    /// A newer token of the same user, in place: the connection lives on, with the rights that the new one grants.
    private func refresh(_ claims: TokenClaims, _ request: Request, _ bytes: UnsafeRawBufferPointer, on id: ConnectionID) throws(WireError)
    {
        guard claims.user == sessions[Int(id.index)].user else {
            throw WireError(.forbidden, "the token is another user's: a connection keeps its user")
        }
        let requestId = RequestID(request.id.bytes(in: bytes))
        if configuration.ask.connect.url != nil { return askRefresh(claims, token: nil, requestId, on: id) }
        try take(claims, requestId, on: id)
    }

    func take(_ claims: TokenClaims, _ requestId: RequestID, on id: ConnectionID) throws(WireError) {
        let index = Int(id.index)
        guard claims.user == sessions[index].user else {
            throw WireError(.forbidden, "the token is another user's: a connection keeps its user")
        }
        // Development mode's own users may do everything, and need no token.
        if sessions[index].rights != .everything {
            adopt(claims, in: &sessions[index])
            scheduleExpiry(of: id)
        }
        acknowledgeConnect(requestId, on: id)
        endLostRights(id)
        subscribeClaimed(claims.channels, on: id)
    }

    /// What the newer token names and the connection doesn't hear yet. What it may not have, it's told.
    private func subscribeClaimed(_ claimed: [Name], on id: ConnectionID) {
        let missing = claimed.filter { channel in
            guard let slot = channels.slot(of: channel) else { return true }
            return !channels.contains(id.index, on: slot) && catchingUp[id.index]?.contains(slot) != true && !isJoining(id, channel)
        }
        guard !missing.isEmpty else { return }
        let left = configuration.limits.channels - channels.count(of: id.index) - waitingToJoin(id) - (catchingUp[id.index]?.count ?? 0)
        let rights = sessions[Int(id.index)].rights
        let batch = makeBatch(.request(.none, isList: true), count: missing.count, on: id)
        for (place, channel) in missing.enumerated() {
            let refusal: WireError? =
                if place >= left {
                    WireError(.tooMany, "more than \(configuration.limits.channels) channels on one connection (limits.channels)")
                } else {
                    rights.maySubscribe(to: channel) ? nil : rights.refusal(.subscribe, in: channel)
                }
            subscribe(id, to: channel, position: nil, refusal: refusal, batch: batch, asks: false)
        }
        settle(batch)
    }

    func acknowledgeConnect(_ requestId: RequestID, on id: ConnectionID) {
        guard requestId.isPresent else { return }
        let user = sessions[Int(id.index)].user
        requestId.withBytes { raw in
            send(to: id, as: .reply) { EnvelopeEncoder.ackConnect(id: raw, user: user, format: $0, into: &$1) }
        }
    }

    func closeUnauthenticated(_ id: ConnectionID, _ error: WireError) {
        switch error.code {
        case .tokenExpired: net.close(id, code: CloseCode.tokenExpired.rawValue, reason: error.code.rawValue)
        case .unavailable, .rateLimited:
            net.close(id, code: CloseCode.overloaded.rawValue, reason: "\(error.retryAfter ?? 1000) \(error.code.rawValue)")
        // Another token wouldn't help: a backend said no.
        case .forbidden, .tooMany: net.close(id, code: CloseCode.disconnected.rawValue, reason: error.message)
        default: net.close(id, code: CloseCode.tokenInvalid.rawValue, reason: error.code.rawValue)
        }
    }

    // MARK: Rights

    /// What a token grants, shared with all that grant the same.
    private func grants(of claims: TokenClaims) -> Grants {
        if let granted = claims.grants { return shared(granted) }
        guard !claims.channels.isEmpty, let granted = Grants(patterns: [], channels: claims.channels, base: rules) else { return rules }
        return shared(granted)
    }

    private func shared(_ grants: Grants) -> Grants {
        if grantsKnown.count >= grantsLimit {
            // Those that nobody has any more go, and then there's room for as many again.
            grantsKnown = Set(sessions.lazy.compactMap { if case .token(_, let used) = $0.rights { used } else { nil } })
            grantsLimit = max(1024, grantsKnown.count * 2)
        }
        return grantsKnown.insert(grants).memberAfterInsert
    }

    /// The namespaces' rules have changed: they hold for everybody who lives by them, from now on.
    func changeRules(to new: Grants) {
        guard new != rules else { return }
        let old = rules
        rules = new
        for index in sessions.indices where kinds[index] == .session {
            guard case .token(let user, let grants) = sessions[index].rights else { continue }
            if grants === old {
                sessions[index].rights = .token(user, new)
            } else if grants.base === old {
                sessions[index].rights = .token(user, shared(grants.rebased(on: new)))
            } else {
                continue
            }
            if sessions[index].isWelcomed { endLostRights(ConnectionID(index: UInt32(index), generation: sessions[index].generation)) }
        }
    }

    /// Other API keys: who came with one that's gone goes, and scopes that have changed hold at once.
    func changeKeys(to configuration: Configuration) {
        apiKeys = APIKeyVerifier(keys: configuration.apiKeys)
        for index in sessions.indices where kinds[index] == .session && sessions[index].isService {
            let id = ConnectionID(index: UInt32(index), generation: sessions[index].generation)
            guard let grant = apiKeys.grant(of: sessions[index].user) else {
                net.close(id, code: CloseCode.tokenInvalid.rawValue, reason: "the API key is gone")
                continue
            }
            guard grant.rights != sessions[index].rights else { continue }
            sessions[index].rights = grant.rights
            if sessions[index].isWelcomed { endLostRights(id) }
        }
    }

    /// Of everybody: a rule that isn't a connection's own has changed.
    func endLostRights() {
        for index in sessions.indices where kinds[index] == .session && sessions[index].isWelcomed {
            endLostRights(ConnectionID(index: UInt32(index), generation: sessions[index].generation))
        }
    }

    /// Ends the subscriptions, and the watching, that a connection's rights don't cover any more; it's told of each.
    func endLostRights(_ id: ConnectionID) {
        let rights = sessions[Int(id.index)].rights
        for slot in channels.slots(of: id.index) + (catchingUp[id.index] ?? []).sorted() {
            let channel = channels.name(at: slot)
            guard !rights.maySubscribe(to: channel), leave(id, slot) else { continue }
            numbers.rightsLost += 1
            if sessions[Int(id.index)].isStream && channel == sessions[Int(id.index)].defaultChannel { net.follow(0, on: id) }
            dropIfEmpty(slot)
            send(to: id, as: .system) {
                EnvelopeEncoder.system(.unsubscribed(channel: channel, code: .forbidden), format: $0, into: &$1)
            }
        }
        for slot in followed.slots(of: id.index) where !rights.maySeeMembers(of: followed.name(at: slot)) {
            numbers.rightsLost += 1
            let channel = followed.name(at: slot)
            unfollow(id, channel)
            // Whoever isn't in the channel any more has been told so.
            guard channels.slots(of: id.index).contains(where: { channels.name(at: $0) == channel }) else { continue }
            refuse(WireError(.forbidden, Self.membersOf + "\(channel)"), RequestID.none, on: id)
        }
        var unwatched: [Name] = []
        for slot in watched.slots(of: id.index) where !rights.mayWatch(watched.name(at: slot), by: configuration.watchRule) {
            unwatched.append(watched.name(at: slot))
            watched.remove(id.index, from: slot)
            unwatchIfEmpty(slot)
        }
        guard !unwatched.isEmpty else { return }
        numbers.rightsLost += UInt64(unwatched.count)
        refuse(WireError(.forbidden, Self.watchOf + Self.named(unwatched)), RequestID.none, on: id)
    }

    // MARK: Its end

    /// First the warning, then the end: one timer a connection.
    func scheduleExpiry(of id: ConnectionID) {
        guard let left = tokenLeft(id) else { return }
        let warning = min(configuration.tokens.expiryWarning.milliseconds, left / 2)
        setTokenTimer(.tokenWarning, after: left - warning, id)
    }

    private func setTokenTimer(_ kind: TimerKind, after milliseconds: UInt64, _ id: ConnectionID) {
        stopTokenTimer(id.index)
        while tokenTimers.count <= Int(id.index) { tokenTimers.append(nil) }
        tokenTimers[Int(id.index)] = net.schedule(after: .milliseconds(milliseconds), kind: kind.rawValue, value: id.packed)
    }

    func stopTokenTimer(_ index: UInt32) {
        guard Int(index) < tokenTimers.count, let timer = tokenTimers[Int(index)] else { return }
        net.cancel(timer)
        tokenTimers[Int(index)] = nil
    }

    /// Milliseconds by the wall clock; nil when the connection has no token.
    private func tokenLeft(_ id: ConnectionID) -> UInt64? {
        guard isCurrent(id), let expires = sessions[Int(id.index)].tokenExpires else { return nil }
        let now = wallMilliseconds()
        return expires > now ? expires - now : 0
    }

    func tokenWarning(_ id: ConnectionID) {
        guard let left = tokenLeft(id) else { return }
        // The wall clock was set back meanwhile: there's time again.
        if left > max(configuration.tokens.expiryWarning.milliseconds, 1000) + Self.clockSlack { return scheduleExpiry(of: id) }
        if configuration.tokens.expiryWarning > .zero, sessions[Int(id.index)].isWelcomed, left > 0 {
            send(to: id, as: .system) { EnvelopeEncoder.system(.tokenExpiring(inMilliseconds: left), format: $0, into: &$1) }
        }
        setTokenTimer(.tokenExpiry, after: left, id)
    }

    /// What the two clocks may differ by when a timer fires.
    private static let clockSlack: UInt64 = 1000

    func tokenEnding(_ id: ConnectionID) {
        guard let left = tokenLeft(id) else { return }
        if left <= 5 { return endExpired(id) }
        // The wall clock is what counts, and it isn't there yet.
        setTokenTimer(.tokenExpiry, after: left, id)
    }

    func endExpired(_ id: ConnectionID) {
        net.close(id, code: CloseCode.tokenExpired.rawValue, reason: "the token has expired: connect with a new one")
    }
}
