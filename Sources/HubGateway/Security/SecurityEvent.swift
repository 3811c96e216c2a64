import HubBase
import HubCore
import HubNet
import HubWire

/// What the security log tells: one event for each kind of refusal. A closed list that only grows: the names stand in docs/security.md, in the log
/// (`security.badToken`) and as a label of metrics.
enum SecurityEvent: Int, CaseIterable {
    case badToken, expiredToken, badKey, forbidden, originRefused, rateLimited, flood, tooManyConnections
    case badArrival, badRequest, badHandshake, badFrame
    case askDenied, askFailed, revoked

    var name: String { "\(self)" }

    var level: Configuration.LogLevel { self == .flood ? .warning : .info }

    /// Lines of one kind that a loop writes in a second at most; the next one tells how many were left out.
    static let perSecond = 5
}

extension GatewayLoop {
    /// Counts a refusal, and tells it. Cheap when many come at once: what isn't written isn't put together either. `detail` is ours, never the peer's
    /// own words beyond names.
    func note(_ event: SecurityEvent, on id: ConnectionID, _ detail: @autoclosure () -> String = "") {
        numbers.security[event.rawValue] += 1
        guard log.isEnabled(event.level),
            case .log(let suppressed) = securityLimiters[event.rawValue].judge(at: net.now, perSecond: SecurityEvent.perSecond)
        else { return }
        let index = Int(id.index)
        let isKnown = index < sessions.count && sessions[index].generation == id.generation
        let user = isKnown && !sessions[index].user.isEmpty ? "\(sessions[index].user)" : ""
        let fields: [(key: String, value: LogForm)] = [
            ("client", .text(personal(net.clientAddress(id)?.ipText ?? ""))), ("user", .text(personal(user))), ("detail", .text(detail())),
        ]
        log.write(event.level, "security.\(event.name)", fields.filter { $0.value != .text("") }, suppressed: suppressed)
    }

    /// Addresses and user ids as they are, or as something that's the same for the same one while the process runs, and leads back to nobody.
    func personal(_ text: String) -> String { configuration.logPersonal || text.isEmpty ? text : Pseudonym.of(text) }

    /// What a refusal says, without the names that it tells its asker of others.
    func impersonal(_ error: WireError) -> String {
        guard !configuration.logPersonal, let start = Self.naming.first(where: { error.message.hasPrefix($0) }) else {
            return error.message
        }
        return start + Pseudonym.of(String(error.message.dropFirst(start.count)))
    }

    /// How refusals that name users or channels begin.
    static let mayNotWatch = "this connection may not watch "
    static let membersOf = "the right \"presence\" is gone, so the members aren't told any more of "
    static let watchOf = "the right \"watch\" is gone (presence.watch, or the token's rights), so these aren't watched any more: "
    private static let naming = [mayNotWatch, membersOf, watchOf]

    func authenticationFailed(_ code: ErrorCode, on id: ConnectionID) {
        numbers.authenticationFailures += 1
        chargeFailure(id)
        switch code {
        case .tokenExpired: note(.expiredToken, on: id)
        case .unauthenticated: note(.badKey, on: id)
        default: note(.badToken, on: id)
        }
    }

    func arrivalFailed(_ id: ConnectionID, _ reason: String) { note(.badArrival, on: id, reason) }

    func refused(_ id: ConnectionID, _ refusal: NetRefusal) {
        switch refusal {
        case .request(let status, let message): note(.badRequest, on: id, "\(status) \(message)")
        case .handshake(let status): note(.badHandshake, on: id, "\(status)")
        case .frame(let code, let reason): note(.badFrame, on: id, "\(code) \(reason)")
        }
    }
}
