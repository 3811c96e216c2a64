import HubBase
import HubCore
import HubNet
import HubWire

/// Pages of other sites: who may read the API's answers (CORS, https://fetch.spec.whatwg.org/#http-cors-protocol) and open a WebSocket.
///
/// Credentials of the browser's own (cookies) mean nothing here, so they are never allowed; an API key or a token is the page's to send.
extension GatewayLoop {
    /// A page of another site must not speak for its visitor. No `Origin`: not a browser (but see `judgePresence`).
    func judgeOrigin(_ request: borrowing HTTPRequest) -> WireError? {
        guard let raw = request.header("origin") else { return nil }
        guard request.count(of: "origin") == 1 else { return WireError(.forbidden, "more than one Origin header") }
        if !configuration.origins.isEmpty {
            guard let origin = WebOrigin(raw), origins.contains(origin) else {
                return WireError(.forbidden, "this origin isn't in auth.origins")
            }
        } else if configuration.isDevelopment {
            guard let origin = WebOrigin(raw), origin.isLoopback else {
                return WireError(.forbidden, "development mode takes pages of this machine only; name others in auth.origins")
            }
        }
        return nil
    }

    /// Whether a WebSocket or a stream may be opened by who doesn't say whose page it is (`auth.originRequired`).
    func judgePresence(ofOrigin request: borrowing HTTPRequest, on id: ConnectionID) -> WireError? {
        guard configuration.originRequired, request.header("origin") == nil else { return nil }
        note(.originRefused, on: id, "none")
        return WireError(.forbidden, "an Origin is needed here (auth.originRequired): this hub is for pages in browsers alone")
    }

    /// Marks the answer to a request for `/v1/…` for the page that asks; returns what to answer instead when that page may not.
    func judgePage(_ request: borrowing HTTPRequest, on id: ConnectionID) -> RequestOutcome? {
        // Also without an Origin: a cache must not give a page the answer to somebody else.
        net.addHeaderLine("Vary: Origin\r\n", to: id)
        guard let raw = request.header("origin") else { return nil }
        if let refusal = judgeOrigin(request) {
            note(.originRefused, on: id, WebOrigin(raw).map { "\($0)" } ?? "not an origin")
            return .respond(.error(refusal))
        }
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

extension WebOrigin: CustomStringConvertible {
    /// Without its port where that's the scheme's.
    package var description: String {
        let host: String
        switch self.host {
        case .name(let name): host = name
        case .address(let address): host = SocketAddress(address, port: 0).ipText
        }
        return "\(scheme)://\(host)\(port == Self.defaultPort(of: scheme) ? "" : ":\(port)")"
    }
}
