import CHubShims
import HubBase

/// Deadlines of connections: one each, and the phase says what it means.
extension NetLoop {
    /// The client's address as text; empty when the connection has gone.
    package func peer(_ id: ConnectionID) -> String {
        clientAddress(id)?.description ?? ""
    }

    /// Who the client is: as a trusted proxy says, else the peer's address (a system call). nil when the connection has gone.
    package func clientAddress(_ id: ConnectionID) -> SocketAddress? {
        guard let connection = state.pointee.table.find(id) else { return nil }
        if let edge = connection.pointee.edge, let told = edge.pointee.forwarded ?? edge.pointee.client { return told }
        return System.peerAddress(connection.pointee.descriptor)
    }

    /// Whom it counts for (`SocketAddress.clientKey`); 0: nobody, since it's a trusted proxy that speaks for many, or a path, or it has gone.
    package func clientKey(_ id: ConnectionID) -> UInt64 {
        guard let address = clientAddress(id) else { return 0 }
        if let proxies = options.proxies, let ip = address.ip, proxies.trusts(ip) { return 0 }
        return address.clientKey
    }

    /// Whether messages can be sent: open, and not closing.
    package func isOpen(_ id: ConnectionID) -> Bool { state.pointee.table.find(id)?.pointee.phase == .open }

    /// When the last bytes came in, or acknowledged bytes proved the peer alive; of a stream of events, when the peer last acknowledged some.
    package func lastInbound(_ id: ConnectionID) -> Instant {
        guard let connection = state.pointee.table.find(id) else { return Instant(nanoseconds: 0) }
        if connection.pointee.form == .events { return lastSign(connection) }
        return Instant(nanoseconds: connection.pointee.lastInbound)
    }

    // MARK: Authentication

    /// A connection that is upgraded while on hold is closed with `code` when `admit` hasn't been called by then; what it sends doesn't
    /// prolong that.
    package func hold(_ id: ConnectionID, for span: Span, code: UInt16) {
        guard let connection = state.pointee.table.find(id), connection.pointee.phase == .open || connection.pointee.phase == .http
        else { return }
        connection.pointee.flags.insert(.isHeld)
        connection.pointee.flags.remove(.awaitsPong)
        connection.pointee.code = code
        state.pointee.deadlines.arm(id.index, at: state.pointee.now + span)
    }

    package func admit(_ id: ConnectionID) {
        guard let connection = state.pointee.table.find(id), connection.pointee.flags.contains(.isHeld) else { return }
        connection.pointee.flags.remove(.isHeld)
        if connection.pointee.phase == .open { armPing(id.index, connection) }
    }

    // MARK: Liveness

    /// Inbound bytes don't touch the wheel: when the deadline fires, it's compared with the last of them, and armed anew.
    func armPing(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        connection.pointee.flags.remove(.awaitsPong)
        state.pointee.deadlines.arm(index, at: Instant(nanoseconds: connection.pointee.lastInbound) + options.limits.ping)
    }

    /// Sends a ping now: a pong, or any inbound bytes, prove the peer alive.
    package func ping(_ id: ConnectionID) {
        guard let connection = state.pointee.table.find(id), connection.pointee.phase == .open else { return }
        if connection.pointee.form == .events { return askForSign(id.index, connection) }
        let start = state.pointee.arena.count
        FrameEncoder.appendControl(
            .ping, UnsafeRawBufferPointer(start: nil, count: 0), maskingKey: maskingKey(connection), into: &state.pointee.arena)
        queue(id.index, connection, from: start)
        noteProgress(id.index, connection)
        guard !connection.pointee.flags.contains(.isHeld) else { return }
        connection.pointee.flags.insert(.awaitsPong)
        state.pointee.deadlines.arm(id.index, at: state.pointee.now + options.limits.pong)
    }

    /// A ping is behind what is under way: on a slow line it may take longer to arrive than its answer may take to come. So bytes that the peer
    /// acknowledges meanwhile prove it alive; a peer that doesn't read acknowledges none.
    func noteProgress(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        let descriptor = connection.pointee.descriptor
        if hub_unacked_bytes(descriptor) > 0 {
            state.pointee.acknowledged[index] = hub_acked_bytes(descriptor)
        } else if !state.pointee.acknowledged.isEmpty {
            state.pointee.acknowledged[index] = nil
        }
    }

    private func hasProgressed(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) -> Bool {
        guard let before = state.pointee.acknowledged[index] else { return false }
        let now = hub_acked_bytes(connection.pointee.descriptor)
        state.pointee.acknowledged[index] = now
        return now > before
    }

    private func judgeLiveness(_ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>) {
        if connection.pointee.form == .events { return judgeStream(id, connection) }
        // Signs of life lie unread; and a client that isn't to read would see no pong.
        if connection.pointee.flags.contains(.isHeldBack) || connection.pointee.flags.isSuperset(of: [.isPaused, .isClient]) {
            state.pointee.deadlines.arm(id.index, at: state.pointee.now + options.limits.ping)
            return
        }
        if connection.pointee.flags.contains(.awaitsPong) {
            // Nothing came since the ping: whatever comes takes the flag away.
            if hasProgressed(id.index, connection) {
                connection.pointee.lastInbound = state.pointee.now.nanoseconds
                state.pointee.deadlines.arm(id.index, at: state.pointee.now + options.limits.pong)
                return
            }
            dropSilent(id.index, connection)
        } else if state.pointee.now.since(Instant(nanoseconds: connection.pointee.lastInbound)) < options.limits.ping {
            armPing(id.index, connection)
        } else {
            ping(id)
        }
    }

    /// No pong: the peer is told, should it still listen, and the socket is dropped. Nobody waits for a peer that says nothing.
    func dropSilent(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        let lastHeard = connection.pointee.form == .events ? lastSign(connection) : Instant(nanoseconds: connection.pointee.lastInbound)
        state.pointee.counters.pongTimeouts += 1
        if connection.pointee.backlog == nil {
            var close = ByteBuffer(capacity: 128)
            let reason: StaticString = connection.pointee.form == .events ? "no sign of life" : "no pong"
            appendClose(connection, code: NetCloseCode.silent, Self.bytes(reason), into: &close)
            state.pointee.counters.writes += 1
            _ = transmit(index, connection, close.bytes.baseAddress ?? UnsafeRawPointer(state.pointee.scratch), close.bytes.count)
            guard connection.pointee.phase != .dead else { return }
        }
        lose(index, connection, as: .silent(lastHeard: lastHeard, "silent: no sign of life within \(options.limits.pong)"))
    }

    // MARK: Firing

    func deadlinePassed(_ index: UInt32) {
        let connection = state.pointee.table[index]
        let id = ConnectionID(index: index, generation: connection.pointee.generation)
        guard connection.pointee.phase != .dead else { return }
        if isAboutToJudge(connection) {
            // After a stall the answer may lie in the socket: input first, then the verdict.
            read(index, connection)
            guard state.pointee.table.find(id) != nil, !state.pointee.deadlines.isArmed(index) else { return }
        }
        switch connection.pointee.phase {
        case .connecting: lose(index, connection, "no connection within the deadline")
        case .opening: lose(index, connection, "no answer to the opening handshake within the deadline")
        case .preface: failArrival(index, connection, "no PROXY header within the deadline")
        case .securing where connection.pointee.flags.contains(.isPaused):
            state.pointee.counters.tlsTurnedAway += 1
            failArrival(index, connection, "too many clients come at once (limits.acceptsPerSecond)")
        case .securing: failArrival(index, connection, "no TLS handshake within the deadline")
        case .http: httpDeadlinePassed(index, connection)
        case .open where connection.pointee.flags.contains(.isHeld):
            state.pointee.counters.authenticationTimeouts += 1
            close(id, code: connection.pointee.code, reason: "not authenticated in time")
        case .open: judgeLiveness(id, connection)
        case .closing, .finishing:
            state.pointee.counters.closeTimeouts += 1
            lose(index, connection, "the closing handshake took too long")
        case .dead: break
        }
    }

    private func isAboutToJudge(_ connection: UnsafeMutablePointer<Connection>) -> Bool {
        switch connection.pointee.phase {
        case .opening, .preface, .securing, .http, .closing: return true
        case .open: return !connection.pointee.flags.isDisjoint(with: [.isHeld, .awaitsPong])
        case .connecting, .finishing, .dead: return false
        }
    }
}
