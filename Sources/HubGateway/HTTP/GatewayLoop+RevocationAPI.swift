import HubBase
import HubCore
import HubNet
import HubToken
import HubWire

/// Operators against tokens and connections: `POST /v1/revocations`, `POST /v1/users/{user}/disconnect`, and what becomes of them on this loop.
extension GatewayLoop {
    /// How long a disconnection is kept for nodes that hear of it late.
    private static let disconnectionKept: UInt64 = 60_000

    func disconnect(_ segment: [UInt8], _ request: borrowing HTTPRequest, on id: ConnectionID) -> RequestOutcome {
        do throws(WireError) {
            guard let user = Name(validating: segment) else {
                throw WireError(.badName, "a user must be 1 to 255 bytes of UTF-8 without control characters")
            }
            var mayReturn = false
            let body = request.body
            if !body.isEmpty {
                try BodyFields.each(body, limits: configuration.limits) { (key, value) throws(WireError) in
                    guard key == "mayReturn" else { return }
                    guard value.kind == .bool else { throw WireError(.malformed, "mayReturn must be true or false") }
                    mayReturn = value.range.bytes(in: body).count == 4
                }
            }
            let now = wallMilliseconds()
            return revoke(
                Revocation(.connections(user, mayReturn: mayReturn), before: now, expires: now + Self.disconnectionKept), on: id)
        } catch {
            return .respond(.error(error))
        }
    }

    func revoke(_ request: borrowing HTTPRequest, on id: ConnectionID) -> RequestOutcome {
        do throws(WireError) { return revoke(try revocation(request.body), on: id) } catch { return .respond(.error(error)) }
    }

    private func revocation(_ body: UnsafeRawBufferPointer) throws(WireError) -> Revocation {
        var subjects: [Revocation.Subject] = []
        let now = wallMilliseconds()
        var before: UInt64?
        try BodyFields.each(body, limits: configuration.limits) { (key, value) throws(WireError) in
            switch key {
            case "user": subjects.append(.user(try BodyFields.name(value, body, key, limit: Name.lengthMax)))
            case "token": subjects.append(.token(try BodyFields.name(value, body, key, limit: Name.lengthMax)))
            case "all":
                guard value.kind == .bool, value.range.bytes(in: body).count == 4 else {
                    throw WireError(.malformed, "all can only be true")
                }
                subjects.append(.everyone)
            case "before":
                guard value.kind == .number, let time = JSONText.unsigned(value.range.bytes(in: body)) else {
                    throw WireError(.malformed, "before must be milliseconds since 1970 (an integer from 0 to 2^53 - 1)")
                }
                guard time <= now + configuration.tokens.leeway.milliseconds else {
                    throw WireError(.malformed, "before is later than now: tokens that don't exist yet can't be revoked")
                }
                before = time
            default: break
            }
        }
        guard subjects.count == 1, let subject = subjects.first else {
            throw WireError(.malformed, "give exactly one of user, token (a jti) and all (true)")
        }
        if case .token = subject, before != nil {
            throw WireError(.malformed, "before goes with user or all: a token has one time of issue")
        }
        return Revocation(subject, before: before ?? now, expires: now + configuration.tokens.lifeMax.milliseconds)
    }

    private func revoke(_ revocation: Revocation, on id: ConnectionID) -> RequestOutcome {
        guard revocations.hasRoom(for: revocation) else { return .respond(.error(noRoom)) }
        let key = pending.insert(Pending(kind: .httpRevoke(revocation), connection: id, id: .none))
        let publication = RevocationKeeper.publication(revocation, wall: wallMilliseconds())
        outbox.append(.publish(publication, channel: RevocationKeeper.channel, attempt: nil, tag: tag(key)))
        return .pending
    }

    private var noRoom: WireError {
        let first =
            revocations.firstEnd.map { "; the first of them ends in \(($0 > wallMilliseconds() ? $0 - wallMilliseconds() : 0) / 1000) s" }
            ?? ""
        return WireError(
            .storeFull,
            "\(RevocationList.countMax) revocations are kept already\(first). {\"all\":true} is always possible: it revokes every token issued until now,"
                + " and takes the place of those revocations that it covers", mayRetry: false)
    }

    func revocationPublished(_ result: Result<PublishResult, WireError>, _ revocation: Revocation, to connection: ConnectionID) {
        var isKept = true
        if case .failure(let error) = result {
            guard case .connections = revocation.subject, error.code == .storeFull else {
                return net.respond(.error(error), to: connection)
            }
            // Whoever hears it now ends them. It's handed out as what nobody keeps.
            isKept = false
            var publication = RevocationKeeper.publication(revocation, wall: wallMilliseconds())
            publication.messageClass = .typing
            publication.messageId = .empty
            outbox.append(.broadcast(publication, channel: RevocationKeeper.channel))
        }
        // By whom it was asked for; the connections that it closes are counted on every node.
        note(.revoked, on: connection, isKept ? revocation.subject.kind : "\(revocation.subject.kind), not kept: the store is full")
        let wasKept = isKept
        net.respond(
            .json(200) { body in
                switch revocation.subject {
                case .user(let user), .connections(let user, _):
                    body.key("user")
                    body.string(user)
                case .token(let token):
                    body.key("token")
                    body.string(token)
                case .everyone:
                    body.key("all")
                    body.bool(true)
                }
                body.key("before")
                body.number(revocation.before)
                body.key("expires")
                body.number(revocation.expires)
                if !wasKept {
                    body.key("kept")
                    body.bool(false)
                    body.key("message")
                    body.string("the store is full: nodes that can't be reached now won't hear of it later")
                }
            }, to: connection)
    }

    // MARK: Their effect

    /// What the node has heard of: tokens are held against it from now on, and the connections that it speaks of are closed.
    func revoked(_ news: [Revocation], isLive: Bool) {
        let now = wallMilliseconds()
        revocations.expire(at: now)
        asker?.forget()
        for revocation in news {
            revocations.add(isLive ? heard(revocation, at: now) : revocation)
            closeConnections(of: revocation, isLive)
        }
    }

    /// A disconnection that is heard as it's said speaks of all who are here, and of those of whom a backend will say whose they are, whatever the clock
    /// of the node that said it shows.
    private func heard(_ revocation: Revocation, at now: UInt64) -> Revocation {
        guard case .connections = revocation.subject else { return revocation }
        var heard = revocation
        heard.before = max(revocation.before, now)
        heard.expires = max(revocation.expires, now + Self.disconnectionKept)
        return heard
    }

    private func closeConnections(of revocation: Revocation, _ isLive: Bool) {
        var mark: UInt64 = 0
        if case .token(let tokenId) = revocation.subject { mark = TokenMark.of(tokenId) }
        for index in sessions.indices where kinds[index] == .session {
            let session = sessions[index]
            guard session.phase != .anonymous, session.phase != .leaving else { continue }
            let issued = session.tokenIssued == 0 ? nil : session.tokenIssued
            let isMeant: Bool
            var code = CloseCode.disconnected
            switch revocation.subject {
            case .user(let user): isMeant = session.tokenExpires != nil && session.user == user && RevocationList.covers(revocation, issued)
            case .token: isMeant = session.tokenMark == mark
            case .everyone: isMeant = session.tokenExpires != nil && RevocationList.covers(revocation, issued)
            case .connections(let user, let mayReturn):
                // Heard late, it doesn't speak of those who came since.
                isMeant = !session.isService && session.user == user && (isLive || session.since <= revocation.before)
                if mayReturn { code = .disconnectedMayReturn }
            }
            guard isMeant else { continue }
            endByOperator(ConnectionID(index: UInt32(index), generation: session.generation), code)
        }
    }

    func endByOperator(_ id: ConnectionID, _ code: CloseCode) {
        numbers.revokedClosed += 1
        net.close(id, code: code.rawValue, reason: code == .disconnected ? "ended by an operator" : "ended by an operator: come back")
    }
}

extension Revocation.Subject {
    /// For logs.
    fileprivate var kind: String {
        switch self {
        case .user: "user"
        case .token: "token"
        case .everyone: "all"
        case .connections: "connections"
        }
    }
}
