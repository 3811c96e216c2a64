import HubBase
import HubCore
import HubNet
import HubWire

/// One's own status, and the presence of those one watches.
extension GatewayLoop {
    /// Changes of a user within this time reach a watcher as one, the last.
    static let conflation = Span.milliseconds(100)

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
        guard let waiting = pending.remove(tag), case .watch = waiting.kind, waiting.id.isPresent else { return }
        waiting.id.withBytes { raw in
            send(to: waiting.connection, as: .reply) {
                EnvelopeEncoder.ackWatch(id: raw, users: toldToClients(changes), isStale: isStale, format: $0, into: &$1)
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

    // MARK: Changes

    func presenceChanged(_ changes: [PresenceChange]) {
        if changesWaiting.isEmpty && !changes.isEmpty {
            _ = net.schedule(after: GatewayLoop.conflation, kind: TimerKind.presenceFlush.rawValue, value: 0)
        }
        noteCauses(of: changes)
        changesWaiting.append(contentsOf: toldToClients(changes))
    }

    /// Sends what was collected: for each user the newest version, for each watcher one message.
    func flushPresence() {
        var newest: [(slot: Int, change: PresenceChange)] = []
        var places: [Int: Int] = [:]
        for change in changesWaiting {
            guard let slot = watched.slot(of: change.user) else { continue }
            if let place = places[slot] {
                if newest[place].change.version < change.version { newest[place].change = change }
            } else {
                places[slot] = newest.count
                newest.append((slot, change))
            }
        }
        changesWaiting.removeAll(keepingCapacity: true)
        noteWritten()
        if newest.count == 1 && changesHeld.isEmpty {
            // The usual case: one frame for all watchers of a format.
            let (slot, change) = newest[0]
            for format in WireFormat.allCases where watched.memberCount(of: slot, format) > 0 {
                let frame = net.makeFrame(format.messageKind) { EnvelopeEncoder.presence([change], format: format, into: &$0) }
                watched.withMembers(of: slot, format) { net.broadcast(frame, to: $0, as: .presence, key: Self.key(slot)) }
            }
            return
        }
        var perWatcher: [UInt32: [Int]] = [:]
        for (place, entry) in newest.enumerated() {
            for format in WireFormat.allCases {
                watched.withMembers(of: entry.slot, format) { members in
                    for member in members { perWatcher[member, default: []].append(place) }
                }
            }
        }
        for (index, places) in perWatcher {
            guard changePaces[index, default: ChangePace(at: net.now)].admits(places.count, at: net.now) else {
                hold(places.map { newest[$0] }, for: index)
                continue
            }
            if net.queuedBytes(id(of: index)) == 0 {
                send(to: id(of: index), as: .presence) {
                    EnvelopeEncoder.presence(places.map { newest[$0].change }, format: $0, into: &$1)
                }
                continue
            }
            // Where messages wait already, each change is one of its own, so that the next one of this user can take its place.
            let format = sessions[Int(index)].format
            for place in places {
                let frame = net.makeFrame(format.messageKind) {
                    EnvelopeEncoder.presence([newest[place].change], format: format, into: &$0)
                }
                [index].withUnsafeBufferPointer { net.broadcast(frame, to: $0, as: .presence, key: Self.key(newest[place].slot)) }
            }
        }
    }

    /// More than one can look at: the newest of each user waits for the second's message.
    private func hold(_ changes: [(slot: Int, change: PresenceChange)], for index: UInt32) {
        if changesHeld.isEmpty { _ = net.schedule(after: ChangePace.second, kind: TimerKind.presencePace.rawValue, value: 0) }
        for (slot, change) in changes { changesHeld[index, default: [:]][slot] = change }
    }

    func flushHeldPresence() {
        let held = changesHeld
        changesHeld = [:]
        for (index, changes) in held {
            // Whom it doesn't watch any more it needn't hear of.
            let wanted = changes.filter {
                watched.isUsed($0.key) && watched.name(at: $0.key) == $0.value.user && watched.contains(index, on: $0.key)
            }
            changePaces[index]?.told(wanted.count, at: net.now)
            guard !wanted.isEmpty else { continue }
            send(to: id(of: index), as: .presence) { EnvelopeEncoder.presence(Array(wanted.values), format: $0, into: &$1) }
        }
    }

    /// What makes a newer change stand for an older one that waits in a queue: the user. A slot gets another user only when nobody watches the
    /// first any more, and then nobody misses the older change either.
    private static func key(_ slot: Int) -> UInt64 { UInt64(slot) + 1 }

    private func id(of index: UInt32) -> ConnectionID { ConnectionID(index: index, generation: sessions[Int(index)].generation) }
}
