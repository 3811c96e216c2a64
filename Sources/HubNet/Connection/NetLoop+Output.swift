import HubBase

/// Frames out: encoded once into the turn's arena, queued as ranges of it.
extension NetLoop {
    /// Most frames are below 64 KiB: their header has 4 bytes, or 2, and then the payload moves down by two.
    private static let gap = 4
    private static let maskBytes = 4

    /// Encodes one unmasked message into this turn's arena: the header is put in front of what `body` appends. Valid in this turn only;
    /// may be sent to any number of connections.
    package func makeFrame(_ kind: MessageKind, _ body: (inout ByteBuffer) -> Void) -> OutFrame {
        encode(kind == .text ? .text : .binary, maskingKey: nil, body)
    }

    private func encode(_ opcode: Opcode, maskingKey: UInt32?, _ body: (inout ByteBuffer) -> Void) -> OutFrame {
        precondition(!state.pointee.isEncoding, "a frame is made while another one is being made")
        state.pointee.isEncoding = true
        defer { state.pointee.isEncoding = false }
        let start = state.pointee.arena.count
        let gap = Self.gap + (maskingKey == nil ? 0 : Self.maskBytes)
        _ = state.pointee.arena.reserve(gap)
        state.pointee.arena.advance(by: gap)
        body(&state.pointee.arena)
        let count = state.pointee.arena.count - start - gap
        precondition(count >= 0, "a frame's encoder took away what it didn't append")

        // Frames lie one right after the other, so that a connection which gets several gets one range.
        let headerBytes = (count < 126 ? 2 : count < 65536 ? 4 : 10) + (maskingKey == nil ? 0 : Self.maskBytes)
        if headerBytes > gap {
            _ = state.pointee.arena.reserve(headerBytes - gap)
            state.pointee.arena.advance(by: headerBytes - gap)
        }
        let payload = state.pointee.arena.base + start + headerBytes
        if headerBytes != gap { memmoveBytes(payload, state.pointee.arena.base + start + gap, count) }
        if headerBytes < gap { state.pointee.arena.removeLast(gap - headerBytes) }
        if let maskingKey { Masking.apply(maskingKey, to: UnsafeMutableRawBufferPointer(start: payload, count: count)) }
        let written = FrameEncoder.writeHeader(before: payload, opcode, payloadBytes: count, maskingKey: maskingKey)
        precondition(written == headerBytes, "a frame header of \(written) bytes where \(headerBytes) were left")
        return frame(from: start)
    }

    /// What was appended to the arena since `start`.
    private func frame(from start: Int) -> OutFrame {
        let end = state.pointee.arena.count
        precondition(end <= Int(UInt32.max), "more than 4 GiB queued in one turn")
        return OutFrame(start: UInt32(truncatingIfNeeded: start), count: UInt32(truncatingIfNeeded: end - start))
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
        note(frame, sendClass, key)
        queue(id.index, connection, from: frame.start, to: frame.start + frame.count)
        return true
    }

    /// `send` to many, by connection index; indexes whose connection has gone are skipped. This is the fan-out's inner loop.
    package func broadcast(_ frame: OutFrame, to indexes: UnsafeBufferPointer<UInt32>, as sendClass: SendClass, key: UInt64 = 0) {
        note(frame, sendClass, key)
        let chunks = state.pointee.table.chunks
        let slots = state.pointee.table.count
        let start = frame.start
        let end = frame.start + frame.count
        var queued: UInt64 = 0
        for index in indexes {
            guard index < slots else { continue }
            let connection =
                chunks[Int(index >> ConnectionTable.chunkShift)].unsafelyUnwrapped + Int(index & UInt32(ConnectionTable.chunkCount - 1))
            guard connection.pointee.phase == .open else { continue }
            queued += 1
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
        let frame = encode(kind == .text ? .text : .binary, maskingKey: maskingKey(connection), body)
        // The encoder may have closed it.
        guard connection.pointee.generation == id.generation, connection.pointee.phase == .open else { return }
        state.pointee.counters.framesOut += 1
        note(frame, sendClass, key)
        queue(id.index, connection, from: frame.start, to: frame.start + frame.count)
    }

    func maskingKey(_ connection: UnsafeMutablePointer<Connection>) -> UInt32? {
        guard connection.pointee.flags.contains(.isClient) else { return nil }
        return UInt32(truncatingIfNeeded: state.pointee.chance.next() >> 32)
    }

    // MARK: Queueing

    /// Notes a frame that a full queue may leave out; once a frame, not once a connection.
    @inline(__always)
    private func note(_ frame: OutFrame, _ sendClass: SendClass, _ key: UInt64) {
        if sendClass.isDroppable { state.pointee.notes.add(frame.start, sendClass, key: key) }
    }

    /// Queues what was appended to the arena since `start`, whatever the phase: control frames, responses.
    func queue(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, from start: Int) {
        let frame = frame(from: start)
        queue(index, connection, from: frame.start, to: frame.start + frame.count)
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
