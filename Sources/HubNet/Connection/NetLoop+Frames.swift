import HubBase

/// Frames in: messages go to the handler one by one, control frames are answered here.
extension NetLoop {
    func workOffFrames(
        _ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ bytes: UnsafeMutableRawBufferPointer
    ) -> Progress {
        let id = ConnectionID(index: index, generation: connection.pointee.generation)
        let special = Int(connection.pointee.messageLimit)
        let limits = special == 0 ? state.pointee.frameLimits : FrameLimits(options.limits, messageBytes: special)
        let phase = connection.pointee.phase
        // A server that we chose ourselves may be as fast as it likes; what comes after our close frame is only dropped.
        let isShared = phase == .open && !connection.pointee.flags.contains(.isClient)
        var offset = 0
        while offset < bytes.count {
            if isShared, state.pointee.share.isUsedUp {
                connection.pointee.flags.insert(.hadItsShare)
                pause(index, connection)
                resumeLater(index, connection)
                break
            }
            let start = offset
            let rest = UnsafeMutableRawBufferPointer(rebasing: bytes[offset...])
            switch connection.pointee.decoder.next(rest, limits: limits) {
            case .needMore(let wanted): return Progress(consumed: offset, wanted: wanted)
            case .message(let kind, let payload, let isCompressed, let consumed):
                offset += consumed
                guard phase == .open else { continue }
                let bytes = payload.bytes(in: UnsafeRawBufferPointer(rest))
                if isCompressed {
                    state.pointee.share.bytes += deliverInflated(bytes, kind, limits, id, connection)
                } else {
                    deliver(bytes, kind, id)
                }
            case .fragment(let first, let payload, let isFinal, let isCompressed, let consumed):
                offset += consumed
                guard phase == .open else { continue }
                // The decoder holds the sum within the limits.
                let limit = isCompressed ? limits.compressedBytes : limits.messageBytes
                HeldBytes.append(&connection.pointee.fragments, payload.bytes(in: UnsafeRawBufferPointer(rest)), limit: Int(limit))
                if let first { connection.pointee.fragmentKind = first }
                if isFinal { state.pointee.share.bytes += deliverFragments(isCompressed, limits, id, connection) }
            case .ping(let payload, let consumed):
                offset += consumed
                guard allowControlFrame(index, connection) else { return Progress(consumed: bytes.count, wanted: 0) }
                if phase == .open { answerPing(index, connection, payload.bytes(in: UnsafeRawBufferPointer(rest))) }
            case .pong(_, let consumed):
                offset += consumed
                guard allowControlFrame(index, connection) else { return Progress(consumed: bytes.count, wanted: 0) }
            case .close(let code, let reason, _):
                // Servers don't ask clients why; what isn't wanted isn't copied.
                let isClient = connection.pointee.flags.contains(.isClient)
                let text = isClient ? String(decoding: reason.bytes(in: UnsafeRawBufferPointer(rest)), as: UTF8.self) : ""
                closedByPeer(index, connection, code: code, reason: text)
                return Progress(consumed: bytes.count, wanted: 0)
            case .failed(let code, let reason):
                fail(index, connection, code: code, reason: reason)
                return Progress(consumed: bytes.count, wanted: 0)
            }
            state.pointee.share.take(bytes: offset - start)
            // The handler may have closed it, or its slot may even have a new owner.
            guard connection.pointee.generation == id.generation, connection.pointee.phase == phase,
                !connection.pointee.flags.contains(.isHeldBack)
            else { break }
        }
        return Progress(consumed: offset, wanted: 0)
    }

    func deliver(_ bytes: UnsafeRawBufferPointer, _ kind: MessageKind, _ id: ConnectionID) {
        state.pointee.counters.messagesIn += 1
        if let server { server.message(bytes, kind, on: id) }
    }

    /// Returns how many bytes were inflated.
    private func deliverFragments(
        _ isCompressed: Bool, _ limits: FrameLimits, _ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>
    ) -> Int {
        // Taken from the connection first: the handler may end it while it reads.
        var fragments = connection.pointee.fragments
        connection.pointee.fragments = nil
        defer { HeldBytes.free(&fragments) }
        let bytes = fragments.map { UnsafeRawBufferPointer(HeldBytes.buffer($0)) } ?? UnsafeRawBufferPointer(start: nil, count: 0)
        let kind = connection.pointee.fragmentKind
        if isCompressed { return deliverInflated(bytes, kind, limits, id, connection) }
        deliver(bytes, kind, id)
        return 0
    }

    /// Pings of one turn that are answered one by one.
    private static let pongsMax = 16

    /// A ping is answered at once, in order. From a peer that sends many in one turn only the latest is, at the turn's end (RFC 6455 §5.5.3
    /// allows to skip the others).
    private func answerPing(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ payload: UnsafeRawBufferPointer) {
        let start = state.pointee.arena.count
        FrameEncoder.appendControl(.pong, payload, maskingKey: maskingKey(connection), into: &state.pointee.arena)
        if connection.pointee.pongs < Self.pongsMax {
            connection.pointee.pongs += 1
            queue(index, connection, from: start)
        } else {
            connection.pointee.pongStart = UInt32(start)
            markDirty(index, connection)
        }
    }

    /// Counts a ping or pong against the peer's allowance, as a virtual schedule (GCRA): one word, no refilling. Closes with 1008 when it's
    /// used up.
    private func allowControlFrame(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) -> Bool {
        // Units of 100 µs; the clock wraps after five days, so a schedule that seems further ahead than the burst is an old one.
        let now = UInt32(truncatingIfNeeded: state.pointee.now.nanoseconds / 100_000)
        let rate = UInt32(clamping: min(max(options.limits.controlFramesPerSecond, 1), 10_000))
        let cost = 10_000 / rate
        let burst = cost * rate * 2
        var ahead = connection.pointee.controlFullAt &- now
        if ahead > burst + cost { ahead = 0 }
        guard ahead + cost <= burst else {
            fail(index, connection, code: NetCloseCode.policy, reason: "too many control frames")
            return false
        }
        connection.pointee.controlFullAt = now &+ ahead &+ cost
        return true
    }

    // MARK: Settings

    /// Lets this connection send messages up to `messageBytes` (diagnostics), or the loop's limit again with 0.
    package func allow(_ id: ConnectionID, messageBytes: Int) {
        guard let connection = state.pointee.table.find(id) else { return }
        connection.pointee.messageLimit = UInt32(clamping: messageBytes)
    }
}
