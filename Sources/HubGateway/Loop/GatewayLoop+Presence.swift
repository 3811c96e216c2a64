import HubBase
import HubCore
import HubNet
import HubWire

/// One's own status, and whose presence one watches.
extension GatewayLoop {
    // MARK: One's own

    func setStatus(_ request: Request, _ bytes: UnsafeRawBufferPointer, on id: ConnectionID) {
        let payload = request.payload.bytes(in: bytes)
        guard request.payload.isPresent, let status = Payload.status(payload, format: request.format.payload) else {
            refuse(
                WireError(.malformed, "payload of presence must be {\"status\": \"online\"}, \"away\" or \"invisible\""), request.id,
                in: bytes, on: id)
            return
        }
        let session = sessions[Int(id.index)]
        guard !session.isService else {
            refuse(WireError(.forbidden, "an API key's connection has no presence"), request.id, in: bytes, on: id)
            return
        }
        let key = pending.insert(Pending(kind: .status(status), connection: id, id: RequestID(request.id.bytes(in: bytes))))
        outbox.append(.status(status, connection: node.connection(session.serial), tag: tag(key)))
    }

    func statusSet(_ result: Result<UInt64, WireError>, tag: UInt64) {
        guard let waiting = pending.remove(tag), case .status(let status) = waiting.kind else { return }
        switch result {
        case .failure(let error): refuse(error, waiting.id, on: waiting.connection)
        case .success(let version):
            memberShows(status, of: waiting.connection)
            guard waiting.id.isPresent else { return }
            waiting.id.withBytes { raw in
                send(to: waiting.connection, as: .reply) {
                    EnvelopeEncoder.ackPresence(id: raw, version: version, format: $0, into: &$1)
                }
            }
        }
    }

    /// The store lost sight of a connection: its peer must prove itself before it's registered again.
    func probe(_ id: ConnectionID, connection: Name) {
        guard isCurrent(id) else { return }
        // Bytes since the last ping interval began are proof enough; else the ping's answer will be, and silence closes the connection.
        if net.now.since(net.lastInbound(id)) <= configuration.ping {
            outbox.append(.proved(connection: connection))
        } else {
            net.ping(id)
        }
    }

    // MARK: Watching

    func watch(_ request: Request, _ bytes: UnsafeRawBufferPointer, on id: ConnectionID) {
        do throws(WireError) {
            let users = try readUsers(request, bytes)
            try judgeWatching(users, on: id)
            let added = users.count { watched.slot(of: $0).map { !watched.contains(id.index, on: $0) } ?? true }
            guard watched.count(of: id.index) + added <= configuration.limits.watch else {
                throw WireError(.tooMany, "more than \(configuration.limits.watch) watched users on one connection (limits.watch)")
            }
            // Watching begins before the snapshot is read, so that no change falls between; versions sort out what overlaps.
            for user in users {
                let slot = watched.insert(user).slot
                watched.add(id.index, to: slot, sessions[Int(id.index)].format)
            }
            let key = pending.insert(Pending(kind: .watch, connection: id, id: RequestID(request.id.bytes(in: bytes))))
            outbox.append(.watch(users, loop: number, tag: tag(key)))
        } catch {
            refuse(error, request.id, in: bytes, on: id)
        }
    }

    func watchAnswered(_ changes: [PresenceChange], isStale: Bool, tag: UInt64) {
        guard let waiting = pending.remove(tag), case .watch = waiting.kind, waiting.id.isPresent, isCurrent(waiting.connection) else {
            return
        }
        // Whom it doesn't watch any more (its right is gone, or an `unwatch` came) it isn't told of, nor is that known any more.
        let index = waiting.connection.index
        let watchedStill = changes.filter { watched.slot(of: $0.user).map { watched.contains(index, on: $0) } ?? false }
        waiting.id.withBytes { raw in
            send(to: waiting.connection, as: .reply) {
                EnvelopeEncoder.ackWatch(id: raw, users: toldToClients(watchedStill), isStale: isStale, format: $0, into: &$1)
            }
        }
    }

    func unwatch(_ request: Request, _ bytes: UnsafeRawBufferPointer, on id: ConnectionID) {
        do throws(WireError) {
            for user in try readUsers(request, bytes) {
                if let slot = watched.slot(of: user), watched.remove(id.index, from: slot) { unwatchIfEmpty(slot) }
            }
            acknowledge(request.id, in: bytes, channel: nil, on: id)
        } catch {
            refuse(error, request.id, in: bytes, on: id)
        }
    }

    func unwatchAll(_ index: UInt32) {
        for slot in watched.removeAll(index) { unwatchIfEmpty(slot) }
        changePaces[index] = nil
        changesHeld[index] = nil
    }

    func unwatchIfEmpty(_ slot: Int) {
        let user = watched.name(at: slot)
        if watched.removeIfEmpty(slot) { outbox.append(.unwatch([user], loop: number)) }
    }

    private func readUsers(_ request: Request, _ bytes: UnsafeRawBufferPointer) throws(WireError) -> [Name] {
        guard request.users.isPresent else { throw WireError(.malformed, "users is missing") }
        let limit = configuration.limits.watchRequest
        var users: [Name] = []
        var elements = WireElements(bytes, range: request.users, format: request.format, depthMax: configuration.limits.depth)
        while let element = try elements.next() {
            guard users.count < limit else { throw WireError(.tooMany, "more than \(limit) users in one request") }
            guard element.kind == .string else { throw WireError(.malformed, "users[\(users.count)] must be a string") }
            guard let name = element.name(in: bytes) else {
                throw WireError(.badName, "users[\(users.count)] must be 1 to 255 bytes of text without control characters")
            }
            users.append(name)
        }
        return users
    }
}
