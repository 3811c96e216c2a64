import HubBase

/// The end of a turn: each connection that got something is written to once. What its socket doesn't take waits in a backlog.
extension NetLoop {
    /// Leaves one call for each connection and stream that has something to say, and an empty arena.
    func flush() {
        precondition(!state.pointee.isEncoding, "a turn ends while a frame is being made")
        var place = 0
        while place < state.pointee.dirtyCount {
            let index = state.pointee.dirty[place]
            place += 1
            let connection = state.pointee.table[index]
            connection.pointee.flags.remove(.isDirty)
            guard connection.pointee.phase != .dead else { continue }
            connection.pointee.pongs = 0
            if connection.pointee.pongStart != 0 { queuePong(index, connection) }
            if connection.pointee.pendingEnd != 0 { writePending(index, connection) }
            if connection.pointee.phase == .finishing { endOutput(index, connection) }
        }
        state.pointee.dirtyCount = 0
        state.pointee.clearArena()
        flushStreams()
    }

    private func queuePong(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        let start = Int(connection.pointee.pongStart)
        connection.pointee.pongStart = 0
        guard connection.pointee.phase == .open else { return }
        let length = FrameWalk.length(state.pointee.arena.bytes, at: start)
        queue(index, connection, from: UInt32(start), to: UInt32(start + length))
    }

    /// Writes what is queued for this turn, or appends it to the backlog.
    func writePending(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        let bytes: UnsafeRawBufferPointer
        if connection.pointee.segmentHead == SegmentPool.none {
            bytes = state.pointee.bytes(from: connection.pointee.pendingStart, to: connection.pointee.pendingEnd)
        } else {
            bytes = gather(connection)
        }
        connection.pointee.pendingEnd = 0
        if connection.pointee.backlog != nil {
            addToBacklog(index, connection, bytes)
            return
        }
        guard let base = bytes.baseAddress else { return }
        state.pointee.counters.writes += 1
        switch transmit(index, connection, base, bytes.count) {
        case .bytes(let sent):
            state.pointee.counters.bytesOut += UInt64(sent)
            if sent == bytes.count {
                connection.pointee.flags.remove(.carriesHTTP)
            } else {
                block(index, connection, bytes, sent: sent)
            }
        case .wouldBlock: block(index, connection, bytes, sent: 0)
        case .failed(let number): lose(index, connection, System.message(number))
        }
    }

    /// Several pieces become one: one write is worth the copy (a `writev` of small pieces costs more than it saves).
    private func gather(_ connection: UnsafeMutablePointer<Connection>) -> UnsafeRawBufferPointer {
        state.pointee.gathered.removeAll()
        state.pointee.gathered.trim(above: LoopState.arenaSplit)
        var segment = connection.pointee.segmentHead
        while segment != SegmentPool.none {
            let range = state.pointee.segments[segment]
            appendGathered(range.start, range.end)
            segment = range.next
        }
        appendGathered(connection.pointee.pendingStart, connection.pointee.pendingEnd)
        connection.pointee.segmentHead = SegmentPool.none
        connection.pointee.segmentTail = SegmentPool.none
        return state.pointee.gathered.bytes
    }

    private func appendGathered(_ start: UInt32, _ end: UInt32) {
        state.pointee.gathered.append(state.pointee.bytes(from: start, to: end))
    }

    // MARK: Backlog

    /// The socket took `sent` of `bytes`: the rest waits for it, within the limit.
    private func block(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ bytes: UnsafeRawBufferPointer, sent: Int) {
        let rest = UnsafeRawBufferPointer(rebasing: bytes[sent...])
        // Where the queue may be cut later; what begins with HTTP is kept whole.
        let isFrames = speaksFrames(connection) && !connection.pointee.flags.contains(.carriesHTTP)
        let partOfFrame = isFrames ? FrameWalk.restOfFrame(bytes, from: 0, at: sent) : rest.count
        if speaksFrames(connection) && Backlog.cost(rest.count) > outboundLimit(connection) {
            let kept = min(partOfFrame, rest.count)
            let dropped = FrameWalk.count(UnsafeRawBufferPointer(rebasing: rest[kept...]))
            if Backlog.cost(kept) <= outboundLimit(connection) {
                Backlog.append(&connection.pointee.backlog, UnsafeRawBufferPointer(rebasing: rest[..<kept]), partOfFrame: kept)
            }
            cutOff(index, connection, dropped: dropped, isWireWhole: Backlog.cost(kept) <= outboundLimit(connection))
            return
        }
        Backlog.append(&connection.pointee.backlog, rest, partOfFrame: partOfFrame)
        connection.pointee.flags.insert(.isBlocked)
        if connection.pointee.phase == .finishing {
            // A long answer over a slow line: the closing handshake's deadline begins once it has left.
            state.pointee.deadlines.arm(index, at: state.pointee.now + options.limits.keepAlive)
        }
        updateInterest(index, connection)
    }

    private func addToBacklog(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ bytes: UnsafeRawBufferPointer) {
        guard let backlog = connection.pointee.backlog else { return }
        if speaksFrames(connection) && Backlog.cost(Backlog.count(backlog) + bytes.count) > outboundLimit(connection) {
            // With a response in front the frames' borders aren't known.
            let isWireWhole = !connection.pointee.flags.contains(.carriesHTTP)
            let dropped = (isWireWhole ? Backlog.cut(backlog) : 0) + FrameWalk.count(bytes)
            cutOff(index, connection, dropped: dropped, isWireWhole: isWireWhole)
            return
        }
        Backlog.append(&connection.pointee.backlog, bytes, partOfFrame: 0)
    }

    /// Who may send larger messages than others is answered with as large ones (diagnostics): one of them may wait on top.
    private func outboundLimit(_ connection: UnsafeMutablePointer<Connection>) -> Int {
        options.limits.outboundBytes + Int(connection.pointee.messageLimit)
    }

    /// A frame queue has a limit. HTTP answers are made one at a time, and bounded by what makes them.
    private func speaksFrames(_ connection: UnsafeMutablePointer<Connection>) -> Bool {
        connection.pointee.phase == .open || connection.pointee.phase == .closing
    }

    /// Too slow: whole frames that wait are dropped, the one that is half out stays, and a close frame follows it.
    private func cutOff(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, dropped: Int, isWireWhole: Bool) {
        state.pointee.counters.framesDropped += UInt64(dropped)
        state.pointee.counters.closedTooSlow += 1
        if connection.pointee.phase == .open { connection.pointee.code = NetCloseCode.tooSlow }
        guard isWireWhole else {
            report(index, connection, .us(code: connection.pointee.code))
            tearDown(index)
            return
        }
        var close = ByteBuffer(capacity: 64)
        let reason: StaticString = "too slow: the outbound queue is full"
        FrameEncoder.appendClose(
            code: connection.pointee.code, reason: Self.bytes(reason), maskingKey: maskingKey(connection), into: &close)
        Backlog.append(&connection.pointee.backlog, close.bytes, partOfFrame: 0)
        connection.pointee.flags.insert(.isBlocked)
        beginClosing(index, connection, code: connection.pointee.code)
        updateInterest(index, connection)
    }

    /// The socket takes bytes again.
    func drainBacklog(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        if connection.pointee.flags.contains(.isSecure), !sendWaiting(index, connection) { return }
        while let backlog = connection.pointee.backlog {
            let waiting = Backlog.waiting(backlog)
            guard let base = waiting.baseAddress else { break }
            state.pointee.counters.writes += 1
            switch transmit(index, connection, base, waiting.count) {
            case .bytes(let sent):
                state.pointee.counters.bytesOut += UInt64(sent)
                Backlog.removeFirst(&connection.pointee.backlog, sent)
                if sent < waiting.count { return }
            case .wouldBlock: return
            case .failed(let number):
                lose(index, connection, System.message(number))
                return
            }
        }
        if holdsCiphertext(connection) { return }
        connection.pointee.flags.subtract([.isBlocked, .carriesHTTP])
        updateInterest(index, connection)
        guard connection.pointee.phase != .dead else { return }
        if connection.pointee.flags.contains(.waitsForDrain) { resumeLater(index, connection) }
        if connection.pointee.phase == .finishing { endOutput(index, connection) }
    }

    /// Hands bytes to the socket, or to TLS before it.
    @inline(__always)
    func transmit(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ base: UnsafeRawPointer, _ count: Int)
        -> System.Transfer
    {
        if connection.pointee.flags.contains(.isSecure) { return transmitSecure(index, connection, base, count) }
        return System.send(connection.pointee.descriptor, base, count)
    }

    /// Bytes that wait to leave on a connection, without those of this turn.
    package func queuedBytes(_ id: ConnectionID) -> Int {
        guard let connection = state.pointee.table.find(id) else { return 0 }
        return Backlog.count(connection.pointee.backlog)
    }
}
