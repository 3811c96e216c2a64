import HubBase
import HubCore
import HubNet
import HubWire

/// Who may watch whom, and how exactly clients are told of others.
extension GatewayLoop {
    /// Refuses the whole request and names those who may not be watched, up to a few.
    func judgeWatching(_ users: [Name], on id: ConnectionID) throws(WireError) {
        let rights = sessions[Int(id.index)].rights
        let refused = users.filter { !rights.mayWatch($0, by: configuration.watchRule) }
        guard !refused.isEmpty else { return }
        // A key's scope is for all users or for none.
        if case .key = rights { throw rights.refusal(.watch) }
        throw WireError(.forbidden, Self.mayNotWatch + "\(Self.named(refused)) (presence.watch, or the token's rights)")
    }

    /// The first few, and how many more.
    static func named(_ users: [Name]) -> String {
        let more = users.count > namedMax ? " and \(users.count - namedMax) more" : ""
        return users.prefix(namedMax).map { "\($0)" }.joined(separator: ", ") + more
    }

    /// `?status=` of an opening: who is to be invisible must be so from the first instant.
    func firstStatus(_ request: borrowing HTTPRequest) throws(WireError) -> Payload.Status {
        guard let value = request.queryValue("status") else { return .online }
        guard let status = Payload.Status.allCases.first(where: { value.elementsEqual("\($0)".utf8) }) else {
            throw WireError(.malformed, "status in the URL must be online, away or invisible")
        }
        return status
    }

    private static let namedMax = 5

    func toldToClients(_ changes: [PresenceChange]) -> [PresenceChange] {
        guard configuration.presence.lastSeenStep > .zero else { return changes }
        return changes.map { change in
            var told = change
            told.lastSeen = configuration.presence.told(change.lastSeen)
            return told
        }
    }
}
