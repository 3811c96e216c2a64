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
            if connection.pointee.pendingEnd != 0, !connection.pointee.flags.contains(.isWithheld) || !putAside(index, connection) {
                writePending(index, connection)
            }
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
        let length = FrameWalk.frames.length(state.pointee.arena.bytes, at: start)
        queue(index, connection, from: UInt32(start), to: UInt32(start + length))
    }

    /// Writes what is queued for this turn, or appends it to the backlog.
    func writePending(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        let queued = takeQueued(connection)
        let bytes: UnsafeRawBufferPointer
        if queued.head == SegmentPool.none {
            bytes = state.pointee.bytes(from: queued.start, to: queued.end)
        } else {
            bytes = copyQueued(queued, into: &state.pointee.gathered)
        }
        if connection.pointee.backlog != nil {
            addToBacklog(index, connection, bytes, queued)
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
                block(index, connection, bytes, sent: sent, queued)
            }
        case .wouldBlock: block(index, connection, bytes, sent: 0, queued)
        case .failed(let number): lose(index, connection, System.message(number))
        }
    }

    /// What a connection has queued in this turn: ranges of the arena.
    struct QueuedRanges {
        /// Of the segments before the last range; `SegmentPool.none`: there are none.
        var head: UInt32
        var start: UInt32
        /// 0: nothing is queued.
        var end: UInt32
    }

    func takeQueued(_ connection: UnsafeMutablePointer<Connection>) -> QueuedRanges {
        let queued = QueuedRanges(
            head: connection.pointee.segmentHead, start: connection.pointee.pendingStart, end: connection.pointee.pendingEnd)
        connection.pointee.pendingEnd = 0
        connection.pointee.segmentHead = SegmentPool.none
        connection.pointee.segmentTail = SegmentPool.none
        return queued
    }

    /// Several pieces become one: one write is worth the copy (a `writev` of small pieces costs more than it saves).
    func copyQueued(_ queued: QueuedRanges, into buffer: inout ByteBuffer) -> UnsafeRawBufferPointer {
        buffer.removeAll()
        buffer.trim(above: LoopState.arenaSplit)
        var segment = queued.head
        while segment != SegmentPool.none {
            let range = state.pointee.segments[segment]
            buffer.append(state.pointee.bytes(from: range.start, to: range.end))
            segment = range.next
        }
        buffer.append(state.pointee.bytes(from: queued.start, to: queued.end))
        return buffer.bytes
    }

    /// Hands bytes to the socket, or to TLS before it.
    @inline(__always)
    func transmit(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ base: UnsafeRawPointer, _ count: Int)
        -> System.Transfer
    {
        if connection.pointee.flags.contains(.isSecure) { return transmitSecure(index, connection, base, count) }
        return System.send(connection.pointee.descriptor, base, count)
    }
}
