import HubBase

/// Readers that are slower than what they're sent: what the socket doesn't take waits, within a limit for each connection and a budget for
/// the node. Past half of the limit a queue is thinned by class, at the limit its connection is closed with a code that lets it resume.
extension NetLoop {
    /// The socket took `sent` of `bytes`: the rest waits for it.
    func block(
        _ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ bytes: UnsafeRawBufferPointer, sent: Int, _ queued: QueuedRanges
    ) {
        let rest = UnsafeRawBufferPointer(rebasing: bytes[sent...])
        // Where the queue may be cut later; what begins with HTTP is kept whole.
        let isFrames = speaksFrames(connection) && !connection.pointee.flags.contains(.carriesHTTP)
        let partOfFrame = isFrames ? connection.pointee.form.walk.restOfFrame(bytes, from: 0, at: sent) : rest.count
        connection.pointee.flags.insert(.isBlocked)
        let marks = isFrames ? marks(queued, skipping: sent) : []
        guard enqueue(index, connection, rest, marks, partOfFrame: partOfFrame) else { return }
        if connection.pointee.phase == .finishing {
            // A long answer over a slow line: the closing handshake's deadline begins once it has left.
            state.pointee.deadlines.arm(index, at: state.pointee.now + options.limits.keepAlive)
        }
        updateInterest(index, connection)
    }

    func addToBacklog(
        _ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ bytes: UnsafeRawBufferPointer, _ queued: QueuedRanges
    ) {
        _ = enqueue(index, connection, bytes, marks(queued, skipping: 0), partOfFrame: 0)
    }

    /// The droppable frames of what a connection has queued in this turn, those of which nothing has left.
    private func marks(_ queued: QueuedRanges, skipping sent: Int) -> [FrameMark] {
        guard !state.pointee.notes.isEmpty else { return [] }
        var marks: [FrameMark] = []
        var offset = -sent
        func take(_ start: UInt32, _ end: UInt32) {
            state.pointee.notes.each(from: start, to: end) { note in
                let place = offset + Int(note.start - start)
                if place >= 0 { marks.append(FrameMark(offset: place, sendClass: note.sendClass, key: note.key)) }
            }
            offset += Int(end - start)
        }
        var segment = queued.head
        while segment != SegmentPool.none {
            let range = state.pointee.segments[segment]
            take(range.start, range.end)
            segment = range.next
        }
        take(queued.start, queued.end)
        return marks
    }

    /// Who may send larger messages than others is answered with as large ones (diagnostics): one of them may wait on top.
    private func outboundLimit(_ connection: UnsafeMutablePointer<Connection>) -> Int {
        options.limits.outboundBytes + Int(connection.pointee.messageLimit)
    }

    /// A frame queue has a limit of its own. HTTP answers are made one at a time, and bounded by what makes them.
    private func speaksFrames(_ connection: UnsafeMutablePointer<Connection>) -> Bool {
        connection.pointee.phase == .open || connection.pointee.phase == .closing
    }

    /// False when the connection was cut off instead.
    private func enqueue(
        _ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ bytes: UnsafeRawBufferPointer, _ marks: [FrameMark],
        partOfFrame: Int
    ) -> Bool {
        var incoming = Backlog.Incoming(bytes: bytes, marks: marks, walk: connection.pointee.form.walk)
        var dropped = DroppedFrames()
        if speaksFrames(connection) {
            let limit = outboundLimit(connection)
            let encrypted = ciphertextBytes(connection)
            func cost() -> Int {
                encrypted + Backlog.cost(connection.pointee.backlog, adding: incoming.bytes.count, marks: incoming.marks.count)
            }
            if cost() > limit / 2 {
                dropped += thin(connection.pointee.backlog, &incoming, conflating: false)
                // Looking for what is out of date costs a pass over the marks: only when enough came since the last one, or as the last resort.
                let unconflated = incoming.keyedBytes + (connection.pointee.backlog?.pointee.unconflated ?? 0)
                if cost() > limit || (cost() > limit / 2 && unconflated > limit / 8) {
                    dropped += thin(connection.pointee.backlog, &incoming, conflating: true)
                }
            }
            if cost() > limit {
                count(dropped)
                cutOff(index, connection, incoming, partOfFrame: partOfFrame, reason: "too slow: the outbound queue is full")
                return false
            }
        }
        count(dropped)
        guard takeMemory(index, connection, incoming.bytes.count) else {
            let reason: StaticString = "too slow: the node's memory for outbound queues is used up"
            cutOff(index, connection, incoming, partOfFrame: partOfFrame, reason: reason)
            return false
        }
        Backlog.append(
            &connection.pointee.backlog, incoming.bytes, partOfFrame: partOfFrame, marks: incoming.marks, walk: incoming.walk)
        if let backlog = connection.pointee.backlog {
            backlog.pointee.dropped += dropped
            backlog.pointee.unconflated += incoming.keyedBytes
        }
        settleMemory(connection)
        return true
    }

    private func thin(_ backlog: Backlog.Pointer?, _ incoming: inout Backlog.Incoming, conflating: Bool) -> DroppedFrames {
        // A buffer each: the second pass reads what the first one left.
        if conflating { return Backlog.thin(backlog, &incoming, conflating: true, scratch: &state.pointee.conflated) }
        return Backlog.thin(backlog, &incoming, conflating: false, scratch: &state.pointee.thinned)
    }

    private func count(_ dropped: DroppedFrames) {
        if !dropped.isEmpty { state.pointee.counters.dropped += dropped }
    }

    // MARK: Cutting off

    /// Too slow: whole frames that wait are dropped, the one that is half out stays, and a close frame follows it: whoever wakes up in time is
    /// told why, and resumes elsewhere without a hole that it doesn't know of.
    private func cutOff(
        _ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ incoming: Backlog.Incoming, partOfFrame: Int,
        reason: StaticString
    ) {
        state.pointee.counters.closedTooSlow += 1
        // A close frame may be among them already.
        let isClosing = connection.pointee.phase == .closing
        if connection.pointee.phase == .open { connection.pointee.code = NetCloseCode.tooSlow }
        // With a response in front, the frames' borders aren't known; HTTP has no close frame.
        let isWireWhole = !connection.pointee.flags.contains(.carriesHTTP) && speaksFrames(connection)
        var kept = UnsafeRawBufferPointer(rebasing: incoming.bytes[..<0])
        if connection.pointee.backlog == nil {
            kept = UnsafeRawBufferPointer(rebasing: incoming.bytes[..<min(partOfFrame, incoming.bytes.count)])
        }
        if isWireWhole {
            var framesDropped = incoming.walk.count(UnsafeRawBufferPointer(rebasing: incoming.bytes[kept.count...]))
            if connection.pointee.backlog != nil { framesDropped += Backlog.cut(&connection.pointee.backlog) }
            state.pointee.counters.framesDropped += UInt64(framesDropped)
        }
        let rest = ciphertextBytes(connection) + Backlog.cost(connection.pointee.backlog, adding: kept.count, marks: 0)
        guard isWireWhole, rest <= outboundLimit(connection) else {
            report(index, connection, isClosing || connection.pointee.code != 0 ? .us(code: connection.pointee.code) : .lost("too slow"))
            tearDown(index)
            return
        }
        var close = ByteBuffer(capacity: 128)
        appendClose(connection, code: connection.pointee.code, Self.bytes(reason), into: &close)
        Backlog.append(&connection.pointee.backlog, kept, partOfFrame: kept.count, walk: incoming.walk)
        Backlog.append(&connection.pointee.backlog, close.bytes, partOfFrame: 0)
        settleMemory(connection)
        connection.pointee.flags.insert(.isBlocked)
        beginClosing(index, connection, code: connection.pointee.code)
        guard connection.pointee.phase != .dead else { return }
        updateInterest(index, connection)
    }

    /// Cuts off another connection than the one that is being written to: what it was to get in this turn goes too.
    private func cutOffOther(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        let queued = takeQueued(connection)
        connection.pointee.pongStart = 0
        if queued.end != 0 { state.pointee.counters.framesDropped += UInt64(frameCount(queued, connection.pointee.form.walk)) }
        let reason: StaticString = "too slow: the node's memory for outbound queues is used up"
        cutOff(index, connection, Backlog.Incoming(walk: connection.pointee.form.walk), partOfFrame: 0, reason: reason)
    }

    private func frameCount(_ queued: QueuedRanges, _ walk: FrameWalk) -> Int {
        var frames = walk.count(state.pointee.bytes(from: queued.start, to: queued.end))
        var segment = queued.head
        while segment != SegmentPool.none {
            let range = state.pointee.segments[segment]
            frames += walk.count(state.pointee.bytes(from: range.start, to: range.end))
            segment = range.next
        }
        return frames
    }

    // MARK: The node's memory

    /// Takes what the queue needs to grow by `bytes` from the node's budget. When it's short the largest queues of this loop are thinned,
    /// then closed; the asking one is, when no other is larger.
    private func takeMemory(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ bytes: Int) -> Bool {
        let growth = Backlog.growth(connection.pointee.backlog, adding: bytes)
        guard growth > 0 else { return true }
        let held = connection.pointee.backlog.map { $0.pointee.charged } ?? 0
        let total = held + growth
        if options.limits.sendMemory.take(growth, of: total) { return charge(connection, growth) }
        shed(growth, for: index, holding: total)
        guard options.limits.sendMemory.take(growth, of: total) else { return false }
        return charge(connection, growth)
    }

    private func charge(_ connection: UnsafeMutablePointer<Connection>, _ growth: Int) -> Bool {
        if let backlog = connection.pointee.backlog {
            backlog.pointee.charged += growth
        } else {
            // The queue is made right after this; `settleMemory` puts the charge into it.
            state.pointee.chargedAhead = growth
        }
        return true
    }

    /// Brings the charge in line with what the queue holds.
    func settleMemory(_ connection: UnsafeMutablePointer<Connection>) {
        guard let backlog = connection.pointee.backlog else { return }
        backlog.pointee.charged += state.pointee.chargedAhead
        state.pointee.chargedAhead = 0
        let memory = Backlog.memory(backlog)
        if memory != backlog.pointee.charged {
            options.limits.sendMemory.adjust(by: memory - backlog.pointee.charged)
            backlog.pointee.charged = memory
        }
    }

    func freeBacklog(_ connection: UnsafeMutablePointer<Connection>) {
        guard let backlog = connection.pointee.backlog else { return }
        options.limits.sendMemory.adjust(by: -backlog.pointee.charged)
        Backlog.free(&connection.pointee.backlog)
    }

    /// Frees at least `needed` bytes, as far as queues larger than `holding` have them. More than that is freed at once, so that a node that
    /// stays short doesn't look through its connections for each queue that grows.
    private func shed(_ needed: Int, for asking: UInt32, holding total: Int) {
        var victims: [(index: UInt32, memory: Int)] = []
        for index in 0..<state.pointee.table.count where index != asking {
            let connection = state.pointee.table[index]
            guard let backlog = connection.pointee.backlog, backlog.pointee.charged > total, connection.pointee.phase != .dead else {
                continue
            }
            victims.append((index, backlog.pointee.charged))
        }
        victims.sort { $0.memory > $1.memory }
        let enough = max(needed, options.limits.sendMemory.limit / 16)
        var freed = 0
        for victim in victims where freed < enough { freed += thinOther(state.pointee.table[victim.index]) }
        for victim in victims where freed < enough {
            let connection = state.pointee.table[victim.index]
            let before = connection.pointee.backlog?.pointee.charged ?? 0
            if connection.pointee.phase == .open {
                cutOffOther(victim.index, connection)
            } else {
                lose(victim.index, connection, "too slow: the node's memory for outbound queues is used up")
            }
            freed += before - (connection.pointee.backlog?.pointee.charged ?? 0)
        }
    }

    /// Thins a queue and gives back what it no longer needs; returns how much that was.
    private func thinOther(_ connection: UnsafeMutablePointer<Connection>) -> Int {
        guard connection.pointee.phase == .open, let backlog = connection.pointee.backlog, !backlog.pointee.marks.isEmpty else { return 0 }
        var nothing = Backlog.Incoming()
        let dropped = thin(backlog, &nothing, conflating: true)
        count(dropped)
        backlog.pointee.dropped += dropped
        let before = backlog.pointee.charged
        guard Backlog.shrink(&connection.pointee.backlog) else { return 0 }
        settleMemory(connection)
        return before - (connection.pointee.backlog?.pointee.charged ?? 0)
    }

    // MARK: Draining

    /// The socket takes bytes again.
    func drainBacklog(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        if connection.pointee.flags.contains(.isSecure), !sendWaiting(index, connection) { return }
        while let backlog = connection.pointee.backlog, Backlog.count(backlog) > 0 {
            let waiting = Backlog.waiting(backlog)
            guard let base = waiting.baseAddress else { break }
            state.pointee.counters.writes += 1
            switch transmit(index, connection, base, waiting.count) {
            case .bytes(let sent):
                state.pointee.counters.bytesOut += UInt64(sent)
                Backlog.removeFirst(backlog, sent)
                if sent < waiting.count { return tellDropped(index, connection, whenBelow: outboundLimit(connection) / 4) }
            case .wouldBlock: return
            case .failed(let number):
                lose(index, connection, System.message(number))
                return
            }
        }
        if holdsCiphertext(connection) { return }
        let dropped = connection.pointee.backlog?.pointee.dropped ?? DroppedFrames()
        freeBacklog(connection)
        connection.pointee.flags.subtract([.isBlocked, .carriesHTTP])
        updateInterest(index, connection)
        guard connection.pointee.phase != .dead else { return }
        if connection.pointee.flags.contains(.waitsForDrain) { resumeLater(index, connection) }
        if connection.pointee.phase == .finishing { endOutput(index, connection) }
        tell(dropped, index, connection)
    }

    /// A queue that stays long for ever would never tell otherwise.
    private func tellDropped(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, whenBelow bytes: Int) {
        guard let backlog = connection.pointee.backlog, !backlog.pointee.dropped.isEmpty, Backlog.count(backlog) < bytes else { return }
        let dropped = backlog.pointee.dropped
        backlog.pointee.dropped = DroppedFrames()
        tell(dropped, index, connection)
    }

    private func tell(_ dropped: DroppedFrames, _ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        guard !dropped.isEmpty, connection.pointee.phase == .open, let server else { return }
        server.drained(ConnectionID(index: index, generation: connection.pointee.generation), dropped)
    }

    /// Bytes that wait to leave on a connection, without those of this turn.
    package func queuedBytes(_ id: ConnectionID) -> Int {
        guard let connection = state.pointee.table.find(id) else { return 0 }
        return Backlog.count(connection.pointee.backlog) + ciphertextBytes(connection)
    }
}
