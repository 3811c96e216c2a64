import HubCore
import HubNet
import HubWire

/// Pages of other sites: who may read the API's answers (CORS, https://fetch.spec.whatwg.org/#http-cors-protocol) and open a WebSocket.
///
/// Credentials of the browser's own (cookies) mean nothing here, so they are never allowed; an API key or a token is the page's to send.
extension GatewayLoop {
    /// A page of another site must not speak for its visitor. No `Origin`: not a browser.
    func judgeOrigin(_ request: borrowing HTTPRequest) -> WireError? {
        guard let raw = request.header("origin") else { return nil }
        let origin = String(decoding: raw, as: UTF8.self)
        if !configuration.origins.isEmpty {
            return configuration.origins.contains(origin) ? nil : WireError(.forbidden, "this origin isn't in auth.origins")
        }
        if configuration.isDevelopment && !Origin.isLoopback(origin) {
            return WireError(.forbidden, "development mode takes pages of this machine only; name others in auth.origins")
        }
        return nil
    }

    /// Marks the answer to a request for `/v1/…` for the page that asks; returns what to answer instead when that page may not.
    func judgePage(_ request: borrowing HTTPRequest, on id: ConnectionID) -> RequestOutcome? {
        // Also without an Origin: a cache must not give a page the answer to somebody else.
        net.addHeader("Vary", "Origin", to: id)
        guard let raw = request.header("origin") else { return nil }
        if let refusal = judgeOrigin(request) { return .respond(.error(refusal)) }
        let isAnyone = configuration.origins.isEmpty && !configuration.isDevelopment
        net.addHeader("Access-Control-Allow-Origin", isAnyone ? "*" : String(decoding: raw, as: UTF8.self), to: id)
        net.addHeader("Access-Control-Expose-Headers", "Retry-After, ETag", to: id)
        return nil
    }

    /// OPTIONS: what a route takes, and a preflight's answer.
    func answerOptions(_ request: borrowing HTTPRequest, _ route: Route, on id: ConnectionID) -> RequestOutcome {
        if request.header("access-control-request-method") != nil {
            net.addHeader("Access-Control-Allow-Methods", route.allowed, to: id)
            net.addHeader(
                "Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID", to: id)
            net.addHeader("Access-Control-Max-Age", "600", to: id)
        }
        return .respond(HTTPResponse(status: 204, headers: [("Allow", route.allowed)]))
    }
}

/// What a browser says of the page that connects (RFC 6454 §6.1).
enum Origin {
    static func isLoopback(_ origin: String) -> Bool {
        guard let scheme = ["http://", "https://"].first(where: { origin.hasPrefix($0) }) else { return false }
        var host = origin.dropFirst(scheme.count)
        if host.hasPrefix("[") {
            guard let end = host.firstIndex(of: "]") else { return false }
            host = host[host.index(after: host.startIndex)..<end]
        } else if let colon = host.firstIndex(of: ":") {
            host = host[..<colon]
        }
        return host == "localhost" || host == "127.0.0.1" || host == "::1"
    }
}
