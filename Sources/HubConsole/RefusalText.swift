import HubBase
import HubWire

/// A refusal for people: what the hub said, and what to do.
package enum RefusalText {
    /// `{"error":{"code","message","retryAfter"}}` of the HTTP API; anything else, such as a proxy's page, by its status.
    package static func http(status: Int, _ body: [UInt8]) -> String {
        guard let outer = JSONObject(body), let error = outer["error"], error.kind == .object, let inner = JSONObject(error.raw),
            let code = inner.text("code")
        else {
            return "HTTP \(status) without an explanation" + advice(status: status)
        }
        return text(code: code, message: inner.text("message") ?? "", retryAfter: inner.number("retryAfter"))
    }

    /// For a status that came without a code: begins on a line of its own; empty when there's nothing to say.
    package static func advice(status: Int) -> String {
        switch status {
        case 401: "\n" + (advice("unauthenticated") ?? "")
        case 403: "\n" + (advice("forbidden") ?? "")
        case 404: "\nIs the URL that of a hub?"
        case 500...: "\nIs a proxy in front whose hub is down?"
        default: ""
        }
    }

    package static func text(code: String, message: String, retryAfter: UInt64?) -> String {
        var line = Terminal.safe(code)
        if !message.isEmpty { line += ": " + Terminal.safe(message) }
        if let advice = advice(code) { line += "\n" + advice }
        if let retryAfter { line += "\nTry again in \(SpokenTime.text(milliseconds: retryAfter + 999))." }
        return line
    }

    private static func advice(_ code: String) -> String? {
        switch ErrorCode(rawValue: code) {
        case .unauthenticated, .tokenInvalid: "Set HUB_API_KEY, or give --api-key-file, with a key from the hub's api.keys."
        case .tokenExpired: "The token has expired; get a new one."
        case .forbidden: "The key is known but may not do this; see its scopes in the hub's api.keys."
        case .unavailable: "The hub can't reach its store just now."
        default: nil
        }
    }
}
