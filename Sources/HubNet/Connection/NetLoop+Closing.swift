import HubBase

/// How connections end: the closing handshake both ways (RFC 6455 §7), the drain after it, and the one report of it.
extension NetLoop {
    /// Starts the closing handshake with code and reason (≤ 123 bytes); what was queued before leaves first.
    package func close(_ id: ConnectionID, code: UInt16, reason: StaticString) {
        close(id, code: code, Self.bytes(reason))
    }

    package func close(_ id: ConnectionID, code: UInt16, reason: String) {
        var reason = reason
        reason.withUTF8 { close(id, code: code, UnsafeRawBufferPointer($0)) }
    }

    static func bytes(_ text: StaticString) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
    }

    private func close(_ id: ConnectionID, code: UInt16, _ reason: UnsafeRawBufferPointer) {
        guard let connection = state.pointee.table.find(id) else { return }
        switch connection.pointee.phase {
        case .open:
            queueClose(id.index, connection, code: code, reason)
            beginClosing(id.index, connection, code: code)
        case .connecting, .opening:
            report(id.index, connection, .us(code: code))
            tearDown(id.index)
        case .http: finish(id.index, connection)
        case .preface, .securing: lose(id.index, connection, "closed")
        case .closing, .finishing, .dead: break
        }
    }

    /// As `close`, for a peer that floods: nothing is read from it any more, not even its answer, so that what it goes on sending waits in its own
    /// kernel and costs nobody anything. The socket goes with the closing handshake's deadline, or when the peer hangs up.
    package func shutOut(_ id: ConnectionID, code: UInt16, reason: String) {
        guard let connection = state.pointee.table.find(id), connection.pointee.phase == .open, connection.pointee.form != .events else {
            return close(id, code: code, reason: reason)
        }
        var reason = reason
        reason.withUTF8 { queueClose(id.index, connection, code: code, UnsafeRawBufferPointer($0)) }
        guard connection.pointee.phase == .open else { return }
        report(id.index, connection, .us(code: code))
        finish(id.index, connection)
        if connection.pointee.phase == .finishing { pause(id.index, connection) }
    }

    /// Drops the connection without a word.
    package func abort(_ id: ConnectionID) {
        guard let connection = state.pointee.table.find(id) else { return }
        lose(id.index, connection, "aborted")
    }

    private func queueClose(
        _ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, code: UInt16?, _ reason: UnsafeRawBufferPointer
    ) {
        precondition(!state.pointee.isEncoding, "a connection is closed while a frame is being made")
        let start = state.pointee.arena.count
        appendClose(connection, code: code, reason, into: &state.pointee.arena)
        queue(index, connection, from: start)
    }

    /// The close in the connection's own form.
    func appendClose(
        _ connection: UnsafeMutablePointer<Connection>, code: UInt16?, _ reason: UnsafeRawBufferPointer, into out: inout ByteBuffer
    ) {
        if connection.pointee.form == .events {
            EventEncoder.appendClose(code: code ?? NetCloseCode.none, reason: reason, into: &out)
        } else {
            FrameEncoder.appendClose(code: code, reason: reason, maskingKey: maskingKey(connection), into: &out)
        }
    }

    /// Our close frame is queued: from now on only the peer's counts. A stream of events has no closing handshake: it ends.
    func beginClosing(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, code: UInt16) {
        if connection.pointee.form == .events {
            report(index, connection, .us(code: code))
            finish(index, connection)
            return
        }
        connection.pointee.phase = .closing
        connection.pointee.code = code
        connection.pointee.flags.subtract([.isHeld, .awaitsPong])
        if connection.pointee.flags.contains(.isHeldBack) {
            connection.pointee.flags.remove(.isHeldBack)
            resumeLater(index, connection)
        }
        HeldBytes.free(&connection.pointee.fragments)
        state.pointee.deadlines.arm(index, at: state.pointee.now + options.limits.closeDeadline)
    }

    /// The peer's close frame came.
    func closedByPeer(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, code: UInt16?, reason: String) {
        if connection.pointee.phase == .closing {
            report(index, connection, .us(code: connection.pointee.code))
        } else {
            // The peer's code goes back (RFC 6455 §5.5.1).
            queueClose(index, connection, code: code, UnsafeRawBufferPointer(start: nil, count: 0))
            report(index, connection, .peer(code: code), reason: reason)
        }
        finish(index, connection)
    }

    /// The peer broke the protocol: it's told so, and nothing more is read (RFC 6455 §7.1.7).
    func fail(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, code: UInt16, reason: StaticString) {
        if connection.pointee.phase == .closing {
            report(index, connection, .us(code: connection.pointee.code))
        } else {
            tell(index, connection, .frame(code: code, reason))
            queueClose(index, connection, code: code, Self.bytes(reason))
            report(index, connection, .us(code: code))
        }
        finish(index, connection)
    }

    /// Nothing more will be queued: what is queued drains, then our side ends, then the peer's end is awaited. Closing at once with unread
    /// input would send a reset, which may take our last bytes away from the peer.
    func finish(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        guard connection.pointee.phase != .finishing && connection.pointee.phase != .dead else { return }
        connection.pointee.phase = .finishing
        connection.pointee.flags.subtract([.isHeld, .awaitsPong, .isAnswerPending, .waitsForDrain, .isResuming, .hadItsShare, .isHeldBack])
        freeInput(connection)
        state.pointee.deadlines.arm(index, at: finishDeadline(connection))
        if connection.pointee.flags.contains(.isPaused) {
            connection.pointee.flags.remove(.isPaused)
            updateInterest(index, connection)
            guard connection.pointee.phase != .dead else { return }
        }
        markDirty(index, connection)
    }

    /// Ends our side once everything has left.
    func endOutput(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        guard connection.pointee.pendingEnd == 0, connection.pointee.backlog == nil, !connection.pointee.flags.contains(.hasFinished)
        else { return }
        if connection.pointee.flags.contains(.isSecure), !endSecureOutput(index, connection) { return }
        connection.pointee.flags.insert(.hasFinished)
        if connection.pointee.flags.contains(.inputEnded) {
            tearDown(index)
        } else {
            System.finishSending(connection.pointee.descriptor)
            state.pointee.deadlines.arm(index, at: finishDeadline(connection))
        }
    }

    /// The connection broke, or we drop it: no closing handshake.
    func lose(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ reason: @autoclosure () -> String) {
        lose(index, connection, as: .lost(reason()))
    }

    func lose(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, as end: @autoclosure () -> ConnectionEnd) {
        guard connection.pointee.phase != .dead else { return }
        if connection.pointee.flags.contains(.owesReport) {
            let isOurs = connection.pointee.phase == .closing
            report(index, connection, isOurs ? .us(code: connection.pointee.code) : end())
        }
        tearDown(index)
    }

    // MARK: The report and the slot

    /// Of a connection that we opened, valid in `closed`: the reason in the server's close frame (RFC 6455 §7.1.6), or the body of the
    /// answer that refused the handshake, as much of it as came with the head.
    package var closeReason: String { state.pointee.closeReason }

    /// Notes that `closed` is to be told. It's told by `deliverEnds`: never within a handler's own call.
    func report(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ end: ConnectionEnd, reason: String = "") {
        guard connection.pointee.flags.contains(.owesReport) else { return }
        connection.pointee.flags.remove(.owesReport)
        connection.pointee.flags.insert(.isReporting)
        state.pointee.ends.append(LoopState.End(index: index, end: end, reason: reason))
    }

    func deliverEnds() {
        guard !state.pointee.ends.isEmpty else { return }
        var place = 0
        while place < state.pointee.ends.count {
            let next = state.pointee.ends[place]
            place += 1
            let connection = state.pointee.table[next.index]
            state.pointee.closeReason = next.reason
            if let server { server.closed(ConnectionID(index: next.index, generation: connection.pointee.generation), next.end) }
            connection.pointee.flags.remove(.isReporting)
            if connection.pointee.phase == .dead { state.pointee.table.release(next.index) }
        }
        state.pointee.ends.removeAll(keepingCapacity: true)
    }

    private func freeInput(_ connection: UnsafeMutablePointer<Connection>) {
        HeldBytes.free(&connection.pointee.partial)
        HeldBytes.free(&connection.pointee.fragments)
        HTTPExchange.free(&connection.pointee.exchange)
        ClientDialogue.free(&connection.pointee.dialogue)
    }

    /// Closes the socket and gives everything back; the slot too, unless `closed` is still to be told.
    func tearDown(_ index: UInt32) {
        let connection = state.pointee.table[index]
        guard connection.pointee.phase != .dead else { return }
        connection.pointee.phase = .dead
        if connection.pointee.descriptor >= 0 { System.close(connection.pointee.descriptor) }
        connection.pointee.descriptor = -1
        freeInput(connection)
        freeEdge(connection)
        freeBacklog(connection)
        connection.pointee.pendingEnd = 0
        connection.pointee.pongStart = 0
        connection.pointee.segmentHead = SegmentPool.none
        connection.pointee.segmentTail = SegmentPool.none
        state.pointee.deadlines.disarm(index)
        if !state.pointee.acknowledged.isEmpty { state.pointee.acknowledged[index] = nil }
        if connection.pointee.form.ownsContexts { giveBackContexts(index) }
        if connection.pointee.flags.contains(.isCounted) {
            connection.pointee.flags.remove(.isCounted)
            options.limits.connections.giveBack(connection.pointee.flags.contains(.isReserve) ? .reserve : .ordinary)
        }
        let key = state.pointee.takeAddress(of: index)
        if key != 0 { options.limits.addresses.giveBack(key) }
        state.pointee.counters.closed += 1
        if !connection.pointee.flags.contains(.isReporting) { state.pointee.table.release(index) }
    }

    /// The loop stops.
    func endAll() {
        stopAccepting()
        for index in 0..<state.pointee.table.count { lose(index, state.pointee.table[index], "the loop has stopped") }
        state.pointee.streams.closeAll()
        deliverEnds()
    }
}
