import HubBase
import HubCore
import HubNet
import HubWire

/// The API's requests that the backplane answers: each waits in `pending` for it.
extension GatewayLoop {
    // MARK: Presence

    func inspect(_ segment: [UInt8], on id: ConnectionID) -> RequestOutcome {
        guard let user = Name(validating: segment) else {
            return .respond(.error(WireError(.badName, "a user must be 1 to 255 bytes of UTF-8 without control characters")))
        }
        let key = pending.insert(Pending(kind: .httpPresence, connection: id, id: .none))
        outbox.append(.inspect(user, tag: tag(key)))
        return .pending
    }

    func inspected(_ result: Result<PresenceRecord, WireError>, isStale: Bool, tag: UInt64) {
        guard let waiting = pending.remove(tag) else { return }
        if case .userConnections = waiting.kind { return connectionsCounted(result, isStale: isStale, of: waiting.connection) }
        guard case .httpPresence = waiting.kind else { return }
        switch result {
        case .failure(let error): net.respond(.error(error), to: waiting.connection)
        case .success(let record):
            net.respond(
                .json(200) { body in
                    body.presence(record.change)
                    body.key("connections")
                    body.array { list in
                        // Who is invisible shows to operators alone, who may ask to have it explained.
                        for connection in record.connections where connection.state != .invisible {
                            list.object { $0.connection(connection) }
                        }
                    }
                    if let graceLeft = record.graceLeft {
                        body.key("graceLeft")
                        body.number(graceLeft)
                    }
                    body.stale(isStale)
                }, to: waiting.connection)
        }
    }

    func readPresence(_ request: borrowing HTTPRequest, on id: ConnectionID) -> RequestOutcome {
        do throws(WireError) {
            let users = try UsersBody.users(request.body, limits: configuration.limits)
            let key = pending.insert(Pending(kind: .httpPresenceMany, connection: id, id: .none))
            outbox.append(.readPresence(users, tag: tag(key)))
            return .pending
        } catch {
            return .respond(.error(error))
        }
    }

    func presenceRead(_ result: Result<PresenceSnapshot, WireError>, isStale: Bool, tag: UInt64) {
        guard let waiting = pending.remove(tag), case .httpPresenceMany = waiting.kind else { return }
        switch result {
        case .failure(let error): net.respond(.error(error), to: waiting.connection)
        case .success(let snapshot):
            net.respond(
                .json(200) { body in
                    body.key("users")
                    body.array { list in
                        for change in snapshot.changes { list.object { $0.presence(change) } }
                    }
                    body.stale(isStale || !snapshot.unreadable.isEmpty)
                }, to: waiting.connection)
        }
    }

    // MARK: Nodes

    func listNodes(on id: ConnectionID) -> RequestOutcome {
        let key = pending.insert(Pending(kind: .httpNodes, connection: id, id: .none))
        outbox.append(.nodes(tag: tag(key)))
        return .pending
    }

    func nodesListed(_ result: Result<[NodeEntry], WireError>, tag: UInt64) {
        guard let waiting = pending.remove(tag), case .httpNodes = waiting.kind else { return }
        switch result {
        case .failure(let error): net.respond(.error(error), to: waiting.connection)
        case .success(let nodes):
            net.respond(
                .json(200) { body in
                    body.key("nodes")
                    body.array { list in
                        for node in nodes {
                            list.object { entry in
                                entry.key("node")
                                entry.string(node.name)
                                entry.key("incarnation")
                                entry.string(node.incarnation)
                                entry.key("connections")
                                entry.number(node.facts.connections)
                                entry.key("leaseLeft")
                                entry.number(node.left)
                                entry.notAsked(node.facts.notAsked)
                            }
                        }
                    }
                }, to: waiting.connection)
        }
    }
}

extension JSONBody {
    /// Whose backends aren't asked now; nothing where all are.
    mutating func notAsked(_ kinds: [AskKind]) {
        guard !kinds.isEmpty else { return }
        key("notAsked")
        array { list in for kind in kinds { list.string(kind.name) } }
    }

    mutating func presence(_ change: PresenceChange) {
        key("user")
        string(change.user)
        field("status", change.status.name)
        key("version")
        number(change.version)
        key("lastSeen")
        number(change.lastSeen)
    }

    mutating func connection(_ connection: PresenceRecord.Connection) {
        key("connection")
        string(connection.connection)
        key("node")
        string(connection.node)
        key("device")
        string(connection.device)
        switch connection.state {
        case .online: field("state", "online")
        case .away: field("state", "away")
        case .invisible: field("state", "invisible")
        }
        key("since")
        number(connection.since)
        key("leaseLeft")
        number(connection.leaseLeft)
    }

    /// Said only when it holds: the store can't be asked, this is what was known last.
    mutating func stale(_ isStale: Bool) {
        guard isStale else { return }
        key("stale")
        bool(true)
    }
}
