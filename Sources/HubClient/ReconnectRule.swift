import HubBase
import HubWire

/// How a connection ended, as its transport saw it.
package enum TransportEnd: Sendable, Equatable {
    /// The server's close frame: its code (nil: none was given, RFC 6455 §7.1.5) and reason.
    case closed(code: UInt16?, reason: String)
    /// The opening handshake was answered with an HTTP status instead of 101.
    case refused(status: Int, retryAfter: Span?)
    /// The WebSocket opened, but no welcome followed in time: mostly a hub that waits for a token.
    case unwelcomed(after: Span)
    /// No closing handshake, or no connection at all: what happened, for people.
    case failed(String)
}

/// Why a client never comes back by itself.
package enum ClosedReason: Sendable, Equatable {
    /// Its own application asked for it.
    case asked
    /// 4001, or HTTP 401 with a fresh token.
    case tokenInvalid
    /// 4003: an operator's doing.
    case disconnected
    /// HTTP 403 or 404: this server isn't for us, or isn't a hub.
    case refused(status: Int)
    /// Nobody could give a new token.
    case noToken
}

/// What a client does after an end: the table of close codes in docs/protocol.md, as a value.
package enum ReconnectRule: Sendable, Equatable {
    case never(ClosedReason)
    /// With a new token, at once.
    case renewToken
    /// The short first window of the backoff: the hub is well, only this connection ended.
    case soon
    case backoff
    /// The hub named the time; a little jitter on top.
    case after(Span)
    /// The hub named the earliest time; backoff on top of it.
    case backoffNotBefore(Span)

    /// Hints above this are cut: a wrong number must not put a client to sleep for a week.
    package static let hintMax: Span = .seconds(3600)

    /// `drainHint` is what a `drain` event promised earlier, for a 1012 that says nothing itself.
    package static func after(_ end: TransportEnd, drainHint: Span? = nil) -> ReconnectRule {
        switch end {
        case .failed, .unwelcomed: .backoff
        case .refused(let status, let retryAfter): refused(status, retryAfter)
        case .closed(let code, let reason): closed(code.map(CloseCode.init(rawValue:)), hint(reason), drainHint)
        }
    }

    private static func closed(_ code: CloseCode?, _ hint: Span?, _ drainHint: Span?) -> ReconnectRule {
        switch code {
        case .tokenInvalid: .never(.tokenInvalid)
        case .disconnected: .never(.disconnected)
        case .tokenExpired: .renewToken
        case .goingAway, .tooSlow, .silent, .disconnectedMayReturn: .soon
        case .drained: (hint ?? drainHint).map { .after($0) } ?? .backoff
        case .overloaded, .rateAbuse: hint.map { .backoffNotBefore($0) } ?? .backoff
        // 1002, 1003, 1007, 1008 and 1009 blame what was sent: requests in flight are reported as lost and never sent again by
        // the machine, so coming back doesn't repeat what caused it. Codes of tomorrow: carefully.
        default: .backoff
        }
    }

    private static func refused(_ status: Int, _ retryAfter: Span?) -> ReconnectRule {
        switch status {
        case 401: .renewToken
        case 403, 404: .never(.refused(status: status))
        default: retryAfter.map { .backoffNotBefore(min($0, hintMax)) } ?? .backoff
        }
    }

    /// The number of milliseconds that a close reason begins with.
    static func hint(_ reason: String) -> Span? {
        var value: UInt64 = 0
        var digits = 0
        for byte in reason.utf8 {
            guard byte >= 48, byte <= 57 else { break }
            digits += 1
            value = min(value * 10 + UInt64(byte - 48), hintMax.milliseconds)
        }
        return digits > 0 ? .milliseconds(value) : nil
    }
}
