import CHubShims
import HubBase

/// Streams of server-sent events: a connection whose GET is answered without an end. To all that sends, it's an open connection whose frames look
/// different; what differs besides is how it ends (at once, there's no closing handshake) and how its peer is known to live.
extension NetLoop {
    // MARK: Opening

    func beginStream(_ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>, retry: Span) {
        precondition(!state.pointee.isEncoding, "a stream begins while a frame is being made")
        let isHead = connection.pointee.exchange?.pointee.isHead ?? false
        let start = state.pointee.arena.count
        HTTPResponseWriter.writeStreamHead(
            lines: connection.pointee.exchange?.pointee.lines ?? [], date: System.wallSeconds(), into: &state.pointee.arena)
        if !isHead { EventEncoder.appendRetry(retry, into: &state.pointee.arena) }
        queueHTTP(id.index, connection, from: start)
        guard connection.pointee.phase == .http else { return }
        HTTPExchange.free(&connection.pointee.exchange)
        if isHead { return finish(id.index, connection) }
        connection.pointee.phase = .open
        connection.pointee.form = .events
        connection.pointee.topic = 0
        connection.pointee.flags.insert(.owesReport)
        state.pointee.counters.streamsOpened += 1
        if !connection.pointee.flags.contains(.isHeld) { armPing(id.index, connection) }
        if let server { server.opened(id) }
    }

    // MARK: Labels

    /// From now on the stream's events carry the labels of frames that are labelled for `topic`; 0: no labels.
    package func follow(_ topic: UInt32, on id: ConnectionID) {
        guard let connection = state.pointee.table.find(id), connection.pointee.form == .events else { return }
        connection.pointee.topic = topic
    }

    /// Labels a frame that was just made: its event gets what `write` appends as its id on streams that follow `topic`. Without line ends.
    package func label(_ frame: OutFrame, topic: UInt32, _ write: (inout ByteBuffer) -> Void) {
        state.pointee.labels.add(frame.number, topic: topic, write)
    }

    // MARK: Out

    /// A frame as an event: made once a turn, and once more with its label.
    func event(of frame: OutFrame, for connection: UnsafeMutablePointer<Connection>) -> ArenaRange {
        let plain = ArenaRange(start: frame.start, end: frame.start + frame.count)
        let topic = connection.pointee.topic
        if topic != 0, let place = state.pointee.labels.find(frame.number, topic: topic) {
            if let made = state.pointee.labels[event: place] { return made }
            let made = makeEvent(plain, id: state.pointee.labels.text(at: place))
            state.pointee.labels[event: place] = made
            state.pointee.notes.copy(of: plain.start, to: made.start)
            return made
        }
        if let made = state.pointee.compression.twins.find(frame.number, .events) { return made }
        let made = makeEvent(plain, id: EventEncoder.noID)
        state.pointee.compression.twins.note(made, frame.number, .events)
        state.pointee.notes.copy(of: plain.start, to: made.start)
        return made
    }

    /// The same for a frame that nobody else gets: only the event stays in memory.
    func event(ofOnly plain: ArenaRange) -> ArenaRange {
        let made = makeEvent(plain, id: EventEncoder.noID)
        if Int(plain.end) == state.pointee.arena.count { state.pointee.arena.removeLast(Int(plain.end - plain.start)) }
        return made
    }

    private func makeEvent(_ plain: ArenaRange, id: UnsafeRawBufferPointer) -> ArenaRange {
        let frame = state.pointee.bytes(from: plain.start, to: plain.end)
        let payload = UnsafeRawBufferPointer(rebasing: frame[DeflatedFrame.payloadOffset(frame)...])
        let start = state.pointee.compression.arena.count
        EventEncoder.append(payload, id: id, into: &state.pointee.compression.arena)
        let end = state.pointee.compression.arena.count
        precondition(end <= ArenaRange.bytesMax, "more than 2 GiB queued in one turn")
        state.pointee.counters.events += 1
        return ArenaRange(
            start: UInt32(truncatingIfNeeded: start) | ArenaRange.twinBit, end: UInt32(truncatingIfNeeded: end) | ArenaRange.twinBit)
    }

    // MARK: Liveness

    /// When the peer last gave a sign of life: its request, or since then an acknowledgement of the last byte that was sent (TCP_INFO, a system call).
    func lastSign(_ connection: UnsafeMutablePointer<Connection>) -> Instant {
        let request = Instant(nanoseconds: connection.pointee.lastInbound)
        guard takesAll(connection), let ago = acknowledgedAgo(connection) else { return request }
        let now = state.pointee.now
        return max(request, Instant(nanoseconds: now.nanoseconds - min(ago.nanoseconds, now.nanoseconds)))
    }

    /// Everything that was sent has arrived.
    private func takesAll(_ connection: UnsafeMutablePointer<Connection>) -> Bool {
        connection.pointee.backlog == nil && hub_unacked_bytes(connection.pointee.descriptor) == 0
    }

    /// nil when the socket isn't TCP.
    private func acknowledgedAgo(_ connection: UnsafeMutablePointer<Connection>) -> Span? {
        let milliseconds = hub_acked_milliseconds_ago(connection.pointee.descriptor)
        return milliseconds >= 0 ? .milliseconds(UInt64(milliseconds)) : nil
    }

    /// A comment, unless there are bytes on their way already: there are no pongs here, but the peer's kernel answers for it.
    func askForSign(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        noteProgress(index, connection)
        if takesAll(connection) {
            let start = state.pointee.arena.count
            EventEncoder.appendComment(into: &state.pointee.arena)
            queue(index, connection, from: start)
        }
        guard connection.pointee.phase == .open, !connection.pointee.flags.contains(.isHeld) else { return }
        connection.pointee.flags.insert(.awaitsPong)
        state.pointee.deadlines.arm(index, at: state.pointee.now + options.limits.pong)
    }

    /// As with pings, silence is found within `ping` and `pong`: a peer that has gone, or whose window stays closed, acknowledges nothing new.
    func judgeStream(_ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>) {
        guard connection.pointee.flags.contains(.awaitsPong) else {
            let sign = lastSign(connection)
            guard state.pointee.now.since(sign) < options.limits.ping else { return askForSign(id.index, connection) }
            connection.pointee.lastInbound = sign.nanoseconds
            return armPing(id.index, connection)
        }
        guard takesAll(connection) || hasMovedOn(id.index, connection) else { return dropSilent(id.index, connection) }
        // The answer came after the comment left: the next one is due an interval after it, not after the verdict.
        let asked = state.pointee.now.nanoseconds - min(options.limits.pong.nanoseconds, state.pointee.now.nanoseconds)
        connection.pointee.lastInbound = max(lastSign(connection).nanoseconds, asked)
        armPing(id.index, connection)
    }

    private func hasMovedOn(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) -> Bool {
        // With bytes under way then, more of them must have arrived: probes of a closed window are answered too.
        if let before = state.pointee.acknowledged[index] { return hub_acked_bytes(connection.pointee.descriptor) > before }
        // Else any answer since then is one to the comment, or to what came after it.
        guard let ago = acknowledgedAgo(connection) else { return false }
        return ago < options.limits.pong
    }
}
