import HubBase

/// Frames out: encoded once into the turn's arena, queued as ranges of it.
extension NetLoop {
    /// Encodes one unmasked message into this turn's arena: the header is put in front of what `body` appends. Valid in this turn only;
    /// may be sent to any number of connections.
    package func makeFrame(_ kind: MessageKind, _ body: (inout ByteBuffer) -> Void) -> OutFrame {
        let range = encode(Opcode(kind), maskingKey: nil, body)
        let number = state.pointee.framesMade
        state.pointee.framesMade &+= 1
        return OutFrame(start: range.start, count: range.end - range.start, number: number)
    }

    private func encode(_ opcode: Opcode, maskingKey: UInt32?, _ body: (inout ByteBuffer) -> Void) -> ArenaRange {
        precondition(!state.pointee.isEncoding, "a frame is made while another one is being made")
        state.pointee.isEncoding = true
        defer { state.pointee.isEncoding = false }
        let start = state.pointee.arena.count
        let gap = FrameEncoder.leaveGap(isMasked: maskingKey != nil, into: &state.pointee.arena)
        body(&state.pointee.arena)
        let count = state.pointee.arena.count - start - gap
        precondition(count >= 0, "a frame's encoder took away what it didn't append")
        FrameEncoder.placeHeader(from: start, opcode, payloadBytes: count, maskingKey: maskingKey, into: &state.pointee.arena)
        return range(from: start)
    }

    /// What was appended to the arena since `start`.
    func range(from start: Int) -> ArenaRange {
        let end = state.pointee.arena.count
        precondition(end <= ArenaRange.bytesMax, "more than 2 GiB queued in one turn")
        return ArenaRange(start: UInt32(truncatingIfNeeded: start), end: UInt32(truncatingIfNeeded: end))
    }

    /// Queues a frame. No allocation, no retain, no system call; the write happens at the end of the turn. False when the connection has
    /// gone or is closing. A connection whose queue passes its limit is closed with 4008 and reported as `closed`.
    ///
    /// `key`: of two presence or read frames with the same key, not 0, that wait in a queue that runs full, the newer makes the older needless.
    @discardableResult
    package func send(_ frame: OutFrame, to id: ConnectionID, as sendClass: SendClass, key: UInt64 = 0) -> Bool {
        guard let connection = state.pointee.table.find(id), connection.pointee.phase == .open else { return false }
        assert(!connection.pointee.flags.contains(.isClient), "a client's frames are masked: sendMessage")
        state.pointee.counters.framesOut += 1
        note(frame.start, sendClass, key)
        if connection.pointee.form.isPlain {
            queue(id.index, connection, from: frame.start, to: frame.start + frame.count)
        } else {
            let range = range(of: frame, for: id.index, connection)
            queue(id.index, connection, from: range.start, to: range.end)
        }
        return true
    }

    /// `send` to many, by connection index; indexes whose connection has gone are skipped. This is the fan-out's inner loop.
    package func broadcast(_ frame: OutFrame, to indexes: UnsafeBufferPointer<UInt32>, as sendClass: SendClass, key: UInt64 = 0) {
        note(frame.start, sendClass, key)
        let chunks = state.pointee.table.chunks
        let slots = state.pointee.table.count
        // Runs of connections of one form are the rule: plain ones here, or those that agreed to one window. Events of a labelled frame differ
        // by connection, and so does what a connection's own context made: the next one is asked again.
        let isLabelled = state.pointee.labels.isLabelled(frame.number)
        var form = WireForm.plain
        var start = frame.start
        var end = frame.start + frame.count
        var queued: UInt64 = 0
        for index in indexes {
            guard index < slots else { continue }
            let connection =
                chunks[Int(index >> ConnectionTable.chunkShift)].unsafelyUnwrapped + Int(index & UInt32(ConnectionTable.chunkCount - 1))
            guard connection.pointee.phase == .open else { continue }
            queued += 1
            if connection.pointee.form != form {
                let range = range(of: frame, for: index, connection)
                start = range.start
                end = range.end
                form = connection.pointee.form
                if form.ownsDeflater || (isLabelled && form == .events) { form = .none }
            }
            if connection.pointee.pendingEnd == start {
                connection.pointee.pendingEnd = end
            } else {
                queueApart(index, connection, start, end)
            }
        }
        state.pointee.counters.framesOut += queued
    }

    /// Encodes and queues one message for one connection, masked if we are its client.
    package func sendMessage(
        _ kind: MessageKind, to id: ConnectionID, as sendClass: SendClass, key: UInt64 = 0, _ body: (inout ByteBuffer) -> Void
    ) {
        guard let connection = state.pointee.table.find(id), connection.pointee.phase == .open else { return }
        let plain = encode(Opcode(kind), maskingKey: maskingKey(connection), body)
        // The encoder may have closed it.
        guard connection.pointee.generation == id.generation, connection.pointee.phase == .open else { return }
        state.pointee.counters.framesOut += 1
        let range = connection.pointee.form.isPlain ? plain : range(ofOnly: plain, for: id.index, connection)
        // What a context of its own made is what the next frame builds on: it can't be left out.
        if range == plain || !connection.pointee.form.ownsDeflater { note(range.start, sendClass, key) }
        queue(id.index, connection, from: range.start, to: range.end)
    }

    func maskingKey(_ connection: UnsafeMutablePointer<Connection>) -> UInt32? {
        guard connection.pointee.flags.contains(.isClient) else { return nil }
        return UInt32(truncatingIfNeeded: state.pointee.chance.next() >> 32)
    }

    // MARK: Queueing

    /// Notes a frame that a full queue may leave out; once a frame, not once a connection.
    @inline(__always)
    private func note(_ start: UInt32, _ sendClass: SendClass, _ key: UInt64) {
        if sendClass.isDroppable { state.pointee.notes.add(start, sendClass, key: key) }
    }

    /// Queues what was appended to the arena since `start`, whatever the phase: control frames, responses.
    func queue(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, from start: Int) {
        let range = range(from: start)
        queue(index, connection, from: range.start, to: range.end)
    }

    @inline(__always)
    func queue(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, from start: UInt32, to end: UInt32) {
        // A frame that begins where the last one ended makes the range longer: it's still one piece. (0 is no frame's start.)
        if connection.pointee.pendingEnd == start {
            connection.pointee.pendingEnd = end
        } else {
            queueApart(index, connection, start, end)
        }
    }

    /// The first range of a turn, or one that doesn't touch the last.
    @inline(never)
    private func queueApart(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ start: UInt32, _ end: UInt32) {
        markDirty(index, connection)
        if connection.pointee.pendingEnd == 0, connection.pointee.flags.contains(.isWithheld) { queueWithheld(connection) }
        if connection.pointee.pendingEnd != 0 {
            if state.pointee.segments.isFull {
                // A turn beyond all measure: this connection gets more than one write.
                writePending(index, connection)
                guard connection.pointee.phase != .dead else { return }
            } else {
                let segment = state.pointee.segments.append(
                    start: connection.pointee.pendingStart, end: connection.pointee.pendingEnd, after: connection.pointee.segmentTail)
                if connection.pointee.segmentHead == SegmentPool.none { connection.pointee.segmentHead = segment }
                connection.pointee.segmentTail = segment
            }
        }
        connection.pointee.pendingStart = start
        connection.pointee.pendingEnd = end
    }

    @inline(__always)
    func markDirty(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        guard !connection.pointee.flags.contains(.isDirty) else { return }
        connection.pointee.flags.insert(.isDirty)
        state.pointee.appendDirty(index)
    }
}
