import HubBase
import HubCore
import HubNet
import HubToken
import HubWire

/// A question that waits for a backend, and what is done with the answer.
struct Asking {
    enum Purpose {
        /// `isIssuer`: the answer says who it is.
        case opening(isIssuer: Bool)
        /// The token that was checked here; nil: the answer says what the new one was worth.
        case refresh(TokenClaims?, RequestID)
        case subscription(batch: UInt64, place: Int, channel: Name, position: Position?)
        case publication(Publication, channel: Name, PublishAttempt?, RequestID)
    }

    var connection: ConnectionID
    var purpose: Purpose
    var kind: AskKind
    var since: Instant
    /// Its place in the connection's line, of a publication.
    var number: UInt64 = 0
    /// By the wall clock.
    var asked: UInt64
}

/// Asking a backend whether a client may (docs/ask.md). The rights come first; then its connection is held until the answer is there, so that nothing of it
/// overtakes what waits; every other connection goes on.
extension GatewayLoop {
    // MARK: Whether

    /// Whether the backend is asked about this channel. No question allocates.
    func asks(_ permission: Permissions, _ channel: Name, on id: ConnectionID) -> Bool {
        guard asksOfChannels.contains(permission), !sessions[Int(id.index)].isService else { return false }
        return askRules.allow(permission, in: channel)
    }

    func adoptAsks() {
        askRules = Grants(namespaces: configuration.namespaces.mapValues(\.asks))
        asksOfChannels = configuration.namespaces.values.reduce(into: []) { $0.formUnion($1.asks) }
        if configuration.ask.subscribe.url == nil { asksOfChannels.remove(.subscribe) }
        if configuration.ask.publish.url == nil { asksOfChannels.remove(.publish) }
    }

    /// Whether clients' tokens are the backend's to check.
    var isBackendIssuer: Bool { configuration.ask.isIssuer && configuration.ask.connect.url != nil }

    // MARK: Asking

    private func ask(_ question: AskQuestion, for purpose: Asking.Purpose, on id: ConnectionID) {
        let asking = Asking(connection: id, purpose: purpose, kind: question.kind, since: net.now, asked: wallMilliseconds())
        let key = asks.insert(asking)
        guard let reply = asker?.ask(question, loop: number, tag: key) else {
            if case .opening = purpose { return }
            return beginAsking(id)
        }
        // Known: as if nobody had been asked.
        _ = asks.remove(key)
        carryOut(asking, reply)
    }

    func beginAsking(_ id: ConnectionID) {
        sessions[Int(id.index)].waiting += 1
        askingCounts[id.index, default: 0] += 1
        if sessions[Int(id.index)].phase == .open { sessions[Int(id.index)].phase = .held }
    }

    func asked(_ reply: AskShell.Reply, tag: UInt64) {
        guard let asking = asks.remove(tag) else { return }
        let id = asking.connection
        guard isCurrent(id) else { return forget(asking) }
        switch asking.purpose {
        case .opening: carryOut(asking, reply)
        case .publication:
            askLines[id.index]?.answer(asking.number, asking, reply)
            advance(id)
        case .refresh, .subscription:
            carryOut(asking, reply)
            endAsking(id)
            release(id)
        }
    }

    func endAsking(_ id: ConnectionID) {
        guard isCurrent(id) else { return }
        sessions[Int(id.index)].waiting -= 1
        let left = (askingCounts[id.index] ?? 1) - 1
        askingCounts[id.index] = left > 0 ? left : nil
    }

    /// Too much has come from one that waits for an answer: the rest waits in the kernel.
    func holdBackReading(_ id: ConnectionID, holding bytes: Int) {
        let limits = configuration.limits
        guard askingCounts[id.index] != nil,
            bytes + (askLines[id.index]?.bytes ?? 0)
                > min(Self.heldBytes, limits.outboundBytes - limits.messageBytes - EarlyMessages.overhead)
        else { return }
        net.holdReading(id)
    }

    static let heldBytes = 64 * 1024

    /// The connection that asked has gone, or goes.
    func forget(_ asking: Asking) {
        if case .subscription(let batch, _, _, _) = asking.purpose { _ = batches.remove(batch) }
    }

    func forgetAsking(of index: UInt32) {
        askingCounts[index] = nil
        askLines[index] = nil
        tokensShown[index] = nil
    }

    // MARK: Answers

    func carryOut(_ asking: Asking, _ reply: AskShell.Reply) {
        let id = asking.connection
        guard net.isOpen(id), sessions[Int(id.index)].phase != .leaving else { return forget(asking) }
        // What ended meanwhile is over, whatever the backend says.
        if let expires = sessions[Int(id.index)].tokenExpires, expires <= wallMilliseconds() {
            forget(asking)
            return endExpired(id)
        }
        let ruling = ruling(reply, asking.kind, on: id)
        switch asking.purpose {
        case .opening(let isIssuer): opened(ruling, asking, isIssuer: isIssuer, on: id)
        case .refresh(let claims, let requestId): refreshed(ruling, asking, claims, requestId, on: id)
        case .subscription(let batch, let place, let channel, let position):
            subscribed(ruling, batch: batch, place, channel, position, on: id)
        case .publication:
            if let error = publish(asking, ruling), case .publication(_, _, _, let requestId) = asking.purpose {
                refuse(error, requestId, on: id)
            }
        }
    }

    /// What counts: the answer, or what the configuration says for when there's none.
    func ruling(_ reply: AskShell.Reply, _ kind: AskKind, on id: ConnectionID) -> Result<AskAllowance, WireError> {
        switch reply {
        case .answer(let answer):
            switch answer.verdict {
            case .allow(let allowance): return .success(allowance)
            case .deny(let error):
                note(.askDenied, on: id, "\(kind.name)")
                return .failure(error)
            }
        case .failed(let label, let retryAfter):
            note(.askFailed, on: id, "\(kind.name): \(label)")
            if configuration.ask[kind].onFailure == .allow { return .success(AskAllowance()) }
            return .failure(
                WireError(.unavailable, "who decides this can't be asked now (ask.\(kind.name))", retryAfter: retryAfter.milliseconds))
        case .wrong:
            note(.askFailed, on: id, "\(kind.name): malformed")
            return .failure(
                WireError(
                    .unavailable, "what decides this gave an answer that can't be read (ask.\(kind.name))",
                    retryAfter: AskShell.retryAfter.milliseconds))
        }
    }

    // MARK: connect

    /// What a backend that checks tokens says, as the claims of a token that was issued when it was asked.
    private func claims(_ allowance: AskAllowance, _ asking: Asking, on id: ConnectionID) throws(WireError) -> TokenClaims {
        // Without a name it answered another question: the mode was changed meanwhile.
        guard !allowance.user.isEmpty, let expires = allowance.expires else {
            throw WireError(.unavailable, "the backend didn't say who this is: come back", retryAfter: 1000)
        }
        guard expires > wallMilliseconds() else { throw WireError(.tokenExpired, "the token has expired: get a new one") }
        guard expires - asking.asked <= configuration.tokens.lifeMax.milliseconds else {
            note(.askFailed, on: id, "connect: expires is beyond auth.tokenLifeMax")
            throw WireError(.unavailable, "the backend allows more than this hub takes (auth.tokenLifeMax)", retryAfter: 1000)
        }
        if let problem = TokenClaims.problem(ofUser: allowance.user) {
            note(.askFailed, on: id, "connect: user must be \(problem)")
            throw WireError(.unavailable, "the backend names a user that this hub doesn't take", retryAfter: 1000)
        }
        guard !revocations.refuses(allowance.user, issued: asking.asked, tokenId: nil) else {
            throw WireError(.tokenInvalid, "the token was revoked: get a new one")
        }
        return TokenClaims(
            user: allowance.user, expires: expires, issued: asking.asked, grants: allowance.grants, channels: allowance.channels)
    }

    /// Who comes in is known, or a token was shown that the backend knows.
    func comeIn(_ id: ConnectionID) {
        let index = Int(id.index)
        guard configuration.ask.connect.url != nil, !sessions[index].isService else { return open(id) }
        let token = tokensShown.removeValue(forKey: id.index)
        // The backend is spared those who may not come in anyway.
        if token == nil, let refusal = judgeOpening(id) { return turnAway(id, refusal) }
        sessions[index].phase = .opening
        let question = AskQuestion.connect(
            user: sessions[index].user, token: token, device: deviceName(of: id), address: net.clientAddress(id)?.ipText ?? "",
            isRefresh: false)
        ask(question, for: .opening(isIssuer: token != nil), on: id)
    }

    private func opened(_ ruling: Result<AskAllowance, WireError>, _ asking: Asking, isIssuer: Bool, on id: ConnectionID) {
        let index = Int(id.index)
        do throws(WireError) {
            let allowance = try ruling.get()
            if isIssuer {
                let claims = try self.claims(allowance, asking, on: id)
                // Nobody knew until now that it was one of those.
                if let mayReturn = revocations.ended(claims.user, since: asking.asked) { return endUnknown(id, mayReturn: mayReturn) }
                adopt(claims, in: &sessions[index])
                claimedChannels[id.index] = claims.channels.isEmpty ? nil : claims.channels
            } else if let expires = allowance.expires {
                guard expires > wallMilliseconds() else { throw WireError(.tokenExpired, "the token has expired: get a new one") }
                sessions[index].tokenExpires = min(expires, sessions[index].tokenExpires ?? expires)
            }
            net.admit(id)
            open(id, isJudged: !isIssuer)
        } catch {
            if isIssuer, [.tokenInvalid, .tokenExpired, .forbidden].contains(error.code) {
                authenticationFailed(error.code == .tokenExpired ? .tokenExpired : .tokenInvalid, on: id)
            }
            if let request = connectRequests.removeValue(forKey: id.index) { refuse(error, request, on: id) }
            // Presence never heard of it.
            sessions[index].phase = .leaving
            closeUnauthenticated(id, error)
        }
    }

    /// Its user was disconnected while a backend was asked who it is.
    private func endUnknown(_ id: ConnectionID, mayReturn: Bool) {
        // Presence never heard of it.
        sessions[Int(id.index)].phase = .leaving
        endByOperator(id, mayReturn ? .disconnectedMayReturn : .disconnected)
    }

    /// A token that the hub can't read: it's the backend's.
    func shownToken(_ token: UnsafeRawBufferPointer) throws(WireError) -> Secret {
        guard (1...TokenVerifier.byteCountMax).contains(token.count), token.allSatisfy({ $0 > 0x20 && $0 != 0x7F }),
            UTF8Check.isValid(token)
        else { throw WireError(.tokenInvalid, "the token isn't valid") }
        return Secret([UInt8](token))
    }

    /// A newer token, on a connection that lives.
    func askRefresh(_ claims: TokenClaims?, token: Secret?, _ requestId: RequestID, on id: ConnectionID) {
        let session = sessions[Int(id.index)]
        let question = AskQuestion.connect(
            user: session.user, token: token, device: deviceName(of: id), address: net.clientAddress(id)?.ipText ?? "", isRefresh: true)
        ask(question, for: .refresh(claims, requestId), on: id)
    }

    private func refreshed(
        _ ruling: Result<AskAllowance, WireError>, _ asking: Asking, _ checked: TokenClaims?, _ requestId: RequestID, on id: ConnectionID
    ) {
        do throws(WireError) {
            // It was good when the question was sent: what has happened to it since counts before any answer. Only `take` makes the connection one of
            // this token's, which revocations find.
            if let checked { try stillHolds(checked) }
            let allowance = try ruling.get()
            var claims: TokenClaims
            if let checked { claims = checked } else { claims = try self.claims(allowance, asking, on: id) }
            if let expires = allowance.expires { claims.expires = min(claims.expires, expires) }
            try stillHolds(claims)
            try take(claims, requestId, on: id)
        } catch {
            refuse(error, requestId, on: id)
        }
    }

    /// Neither revoked nor at its end.
    private func stillHolds(_ claims: TokenClaims) throws(WireError) {
        guard !revocations.refuses(claims.user, issued: claims.issued, tokenId: claims.tokenId) else {
            throw WireError(.tokenInvalid, "the token was revoked: get a new one")
        }
        guard claims.expires > wallMilliseconds() else { throw WireError(.tokenExpired, "the token has expired: get a new one") }
    }

    // MARK: subscribe

    func askSubscription(_ channel: Name, _ position: Position?, batch: UInt64, place: Int, on id: ConnectionID) {
        let session = sessions[Int(id.index)]
        ask(
            .subscribe(user: session.user, device: deviceName(of: id), channel: channel),
            for: .subscription(batch: batch, place: place, channel: channel, position: position), on: id)
    }

    private func subscribed(
        _ ruling: Result<AskAllowance, WireError>, batch: UInt64, _ place: Int, _ channel: Name, _ position: Position?, on id: ConnectionID
    ) {
        switch ruling {
        case .failure(let error): settle(batch, place, .failure(error))
        case .success:
            let rights = sessions[Int(id.index)].rights
            guard rights.maySubscribe(to: channel) else { return settle(batch, place, .failure(rights.refusal(.subscribe, in: channel))) }
            join(id, channel, position, batch: batch, place: place)
        }
    }
}
