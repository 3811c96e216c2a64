import HubBase
import HubCore
import HubNet
import HubToken
import HubWire

/// The HTTP API's routes, and who may ask.
extension GatewayLoop {
    func route(_ request: borrowing HTTPRequest, on id: ConnectionID) -> RequestOutcome {
        guard request.count(of: "authorization") <= 1 else {
            return .respond(.error(WireError(.malformed, "more than one Authorization header")))
        }
        guard let path = request.pathSegments() else {
            return .respond(.error(WireError(.malformed, "the path is wrongly percent-encoded")))
        }
        if let name = request.wrongQueryParameter() {
            let named = String(decoding: name.prefix(Name.lengthMax), as: UTF8.self)
            return .respond(.error(WireError(.malformed, "\(named) in the URL is wrongly percent-encoded")))
        }
        if path.first?.elementsEqual("v1".utf8) == true, let refusal = judgePage(request, on: id) { return refusal }
        guard let route = Route(path, configuration) else {
            return .respond(.error(WireError(.malformed, "no such route: see docs/protocol.md, HTTP"), status: 404))
        }
        if !route.isProbe, let refusal = judgeRequest(bytes: request.body.count, on: id) { return .respond(.error(noted(refusal, on: id))) }
        if request.method == .options { return answerOptions(request, route, on: id) }
        guard route.takes(request.method) else { return methodNotAllowed(route) }
        switch route {
        case .server: return methodNotAllowed(route)
        case .alive: return .respond(health(isAlive: true))
        case .ready: return .respond(health(isAlive: false))
        case .metrics:
            return authorized(request, .read, on: id) {
                .respond(Metrics.response(state, limits: net.limits, configuration, asks: asker?.numbers ?? []))
            }
        case .page: return .respond(Page.response())
        case .socket: return openSocket(request, on: id)
        case .stream: return openStream(request, on: id)
        case .streamPost(let key): return post(request, key: key, on: id)
        case .echo:
            prepare(id, kind: .echo, format: .json, credential: .later, device: .empty, defaultChannel: .empty)
            return .upgrade(subprotocol: nil)
        case .user(let user):
            // Addresses, and who is invisible, are the operator's business alone.
            if let value = request.queryValue("explain") {
                guard value.elementsEqual("1".utf8) else {
                    return .respond(.error(WireError(.malformed, "explain in the URL must be 1")))
                }
                return authorized(request, .admin, on: id) { explain(user, on: id) }
            }
            return authorized(request, .read, on: id) { inspect(user, on: id) }
        case .presence: return authorized(request, .read, on: id) { readPresence(request, on: id) }
        case .publish: return authorized(request, .publish, on: id) { publish(request, on: id) }
        case .history(let channel): return authorized(request, .read, on: id) { history(request, of: channel, on: id) }
        case .nodes: return authorized(request, .read, on: id) { listNodes(on: id) }
        case .disconnect(let user): return authorized(request, .admin, on: id) { disconnect(user, request, on: id) }
        case .revocations: return authorized(request, .admin, on: id) { revoke(request, on: id) }
        case .members(let channel): return authorized(request, .read, on: id) { members(request, of: channel, on: id) }
        }
    }

    private func methodNotAllowed(_ route: Route) -> RequestOutcome {
        var response = HTTPResponse.error(WireError(.malformed, "this route takes \(route.allowed)"), status: 405)
        response.headers.append(("Allow", route.allowed))
        return .respond(response)
    }

    // MARK: Who

    enum Scope: String { case read, publish, admin }

    /// API keys guard the API; in development mode (which listens on loopback only) it's open as long as no key is configured.
    private func authorized(
        _ request: borrowing HTTPRequest, _ scope: Scope, on id: ConnectionID, _ body: () -> RequestOutcome
    ) -> RequestOutcome {
        if configuration.isDevelopment && configuration.apiKeys.isEmpty {
            // Open to this machine's programs, not to what any page in its browser likes to send here (nor through a name that was
            // pointed at this machine).
            if let refusal = judgeOrigin(request) ?? judgeHost(request) {
                note(.originRefused, on: id, "a page of another host, or another host's name")
                return .respond(.error(refusal))
            }
            return body()
        }
        if let refusal = judgeFailures(id) { return .respond(.error(noted(refusal, on: id))) }
        guard let credential = bearer(request) else {
            return .respond(.error(foreignCredential(request, "an API key (api.keys)")))
        }
        guard let key = apiKeys.verify(credential) else {
            authenticationFailed(.unauthenticated, on: id)
            return .respond(.error(WireError(.unauthenticated, "the API key isn't one of this hub's (api.keys)")))
        }
        guard key.scopes.contains(scope.rawValue) || key.scopes.contains(Scope.admin.rawValue) else {
            note(.forbidden, on: id, "API key \(key.id), scope \(scope.rawValue)")
            return .respond(.error(WireError(.forbidden, "the API key \(key.id) lacks the scope \(scope.rawValue)")))
        }
        callingKey = state.keyPaces.pace(of: key.id)
        defer { callingKey = nil }
        if let refusal = judgeKeyRequest() { return .respond(.error(noted(refusal, on: id))) }
        return body()
    }

    func bearer(_ request: borrowing HTTPRequest) -> UnsafeRawBufferPointer? {
        guard let value = request.header("authorization"), value.count > 7 else { return nil }
        let scheme = Array("bearer ".utf8)
        for (index, expected) in scheme.enumerated() where value[index] | 0x20 != expected { return nil }
        // One space or more (RFC 9110 §11.4).
        return UnsafeRawBufferPointer(rebasing: value[7...].drop { $0 == UInt8(ascii: " ") })
    }

    /// Why what the header says can't be taken, naming its scheme (never what follows: it's a secret) and what to send.
    private func foreignCredential(_ request: borrowing HTTPRequest, _ wanted: String) -> WireError {
        let ask = "send Authorization: Bearer with \(wanted)"
        guard let value = request.header("authorization"), !value.isEmpty else { return WireError(.unauthenticated, ask) }
        let scheme = value.prefix { $0 != UInt8(ascii: " ") }
        // Without a space behind it, it may be the secret itself; the longest scheme that IANA lists has 16 letters.
        guard scheme.count < value.count, scheme.count <= 16, scheme.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            return WireError(.unauthenticated, "the Authorization header has no scheme and credentials: \(ask)")
        }
        return WireError(.unauthenticated, "the scheme \(String(decoding: scheme, as: UTF8.self)) isn't taken here: \(ask)")
    }

    // MARK: Health

    private func health(isAlive: Bool) -> HTTPResponse {
        let phase = state.phase
        if isAlive { return .json(200) { $0.field("status", "alive") } }
        switch phase {
        case .ready:
            let broken = asker?.broken ?? []
            return .json(200) { body in
                body.field("status", "ready")
                // Other nodes can reach the backend no better.
                body.notAsked(broken)
            }
        // Every node has the same store: another one could do no better, and those who only listen are served.
        case .full(let reason): return readiness(200, "storeFull", reason)
        case .starting(let reason): return readiness(503, "starting", reason)
        case .degraded(let reason): return readiness(503, "degraded", reason)
        case .stopping: return readiness(503, "stopping", "the node was asked to stop")
        }
    }

    private func readiness(_ code: Int, _ status: StaticString, _ reason: String) -> HTTPResponse {
        .json(code) { body in
            body.field("status", status)
            body.key("reason")
            body.string(reason)
        }
    }

    // MARK: The WebSocket's door

    private func openSocket(_ request: borrowing HTTPRequest, on id: ConnectionID) -> RequestOutcome {
        // Who doesn't ask for a WebSocket is told so before anything else: the opening handshake's judge has the right answer.
        guard request.listContains("websocket", in: "upgrade") else { return .upgrade(subprotocol: nil) }
        if let refusal = judgePresence(ofOrigin: request, on: id) { return .respond(.error(refusal)) }
        if let refusal = judgeReadiness() { return .respond(.error(refusal)) }
        if let refusal = turnAway(request, on: id) { return refusal }
        if let refusal = judgeFailures(id) { return .respond(.error(noted(refusal, on: id))) }
        do throws(WireError) {
            let credential = try credential(request)
            let channel = try parameter("channel", of: request, limit: Name.lengthMax) ?? .empty
            let device = try parameter("device", of: request, limit: configuration.limits.deviceBytes) ?? .empty
            let status = try firstStatus(request)
            // None offered, or none that we know: JSON, and no subprotocol is chosen.
            let format = request.preferredFormat()
            prepare(id, kind: .session, format: format ?? .json, credential: credential, device: device, defaultChannel: channel)
            sessions[Int(id.index)].firstStatus = status
            return .upgrade(subprotocol: format?.subprotocol)
        } catch {
            if error.code == .tokenInvalid || error.code == .tokenExpired { authenticationFailed(error.code, on: id) }
            return .respond(.error(error))
        }
    }

    func judgeReadiness() -> WireError? {
        switch state.phase {
        case .ready, .full: nil
        case .starting(let reason), .degraded(let reason):
            WireError(.unavailable, "the hub can't serve now: \(reason)", retryAfter: 2000)
        case .stopping: WireError(.unavailable, "the node stops: another one serves", retryAfter: 1000)
        }
    }

    /// A node that is full, or to which too many come at once, says when to come back before it looks at a token.
    private func turnAway(_ request: borrowing HTTPRequest, on id: ConnectionID) -> RequestOutcome? {
        let admission = judgeAdmission(of: id)
        if admission == .comesIn { return nil }
        // A page's script isn't shown the answer to a handshake: it can read a close frame only.
        if admission == .tooManyAtOnce, request.header("origin") != nil {
            let format = request.preferredFormat()
            prepare(id, kind: .turnedAway, format: format ?? .json, credential: .later, device: .empty, defaultChannel: .empty)
            return .upgrade(subprotocol: format?.subprotocol)
        }
        return .respond(.error(refusal(admission)))
    }

    enum Admission { case comesIn, nodeIsFull, tooManyAtOnce }

    func judgeAdmission(of id: ConnectionID) -> Admission {
        if net.isReserve(id) {
            numbers.turnedAway += 1
            return .nodeIsFull
        }
        // Over TLS the pace was asked before the handshake, which costs more than what follows.
        if net.wasAdmitted(id) || state.admission.admits(perSecond: configuration.limits.acceptsPerSecond, at: net.now) { return .comesIn }
        numbers.turnedAway += 1
        return .tooManyAtOnce
    }

    /// In words, with the time to come back at: for each client a later one.
    func refusal(_ admission: Admission) -> WireError {
        if admission == .nodeIsFull { return WireError(.overloaded, "the node is full (limits.connections)", retryAfter: 5000) }
        let hint = state.admission.hint(perSecond: configuration.limits.acceptsPerSecond, at: net.now)
        return WireError(
            .overloaded, "too many clients come at once (limits.acceptsPerSecond): come back later", retryAfter: hint.milliseconds)
    }

    func credential(_ request: borrowing HTTPRequest) throws(WireError) -> Credential {
        if let credential = bearer(request) {
            if let key = apiKeys.verify(credential) { return .service(key.name, key.rights) }
            if isBackendIssuer { return .shown(try shownToken(credential)) }
            return .token(try claims(of: credential))
        }
        if let token = request.queryValue("token") {
            guard configuration.tokens.areTakenFromQuery else {
                throw WireError(
                    .unauthenticated,
                    "a token in the URL isn't taken here (auth.queryToken): send it in the Authorization header, or by connect")
            }
            if isBackendIssuer {
                return .shown(try token.withUnsafeBytes { raw in Result { () throws(WireError) in try shownToken(raw) } }.get())
            }
            return .token(try token.withUnsafeBytes { judge($0) }.get())
        }
        if request.header("authorization") != nil { throw foreignCredential(request, "a token, or no such header") }
        guard configuration.isDevelopment else { return .later }
        if let user = try parameter("user", of: request, limit: Name.lengthMax) {
            if let problem = TokenClaims.problem(ofUser: user) { throw WireError(.badName, "user in the URL must be \(problem)") }
            return .named(user)
        }
        if !configuration.tokenKeys.isEmpty || isBackendIssuer { return .later }
        throw WireError(.unauthenticated, "add ?user=NAME to the URL: in development mode that's all it takes")
    }

    /// nil when absent; throws when it's there and isn't a name.
    func parameter(_ name: StaticString, of request: borrowing HTTPRequest, limit: Int) throws(WireError) -> Name? {
        guard let value = request.queryValue(name) else { return nil }
        guard let parsed = Name(validating: value, limit: limit) else {
            throw WireError(.badName, "\(name) in the URL must be 1 to \(limit) bytes of UTF-8 without control characters")
        }
        return parsed
    }

    /// Nor must a name that was pointed at this machine.
    func judgeHost(_ request: borrowing HTTPRequest) -> WireError? {
        guard let raw = request.header("host"), WebOrigin("http://" + String(decoding: raw, as: UTF8.self))?.isLoopback == true else {
            return WireError(
                .forbidden, "development mode answers to localhost, 127.0.0.1 and [::1] only; configure api.keys for other names")
        }
        return nil
    }
}

extension JSONBody {
    mutating func field(_ name: StaticString, _ value: StaticString) {
        key(name)
        string(value)
    }
}

extension HTTPRequest {
    /// The first subprotocol of ours in the client's order.
    fileprivate borrowing func preferredFormat() -> WireFormat? {
        preferredSubprotocol(among: WireFormat.allCases.map(\.subprotocol)).flatMap { chosen in
            WireFormat.allCases.first { $0.subprotocol.utf8Start == chosen.utf8Start }
        }
    }
}
