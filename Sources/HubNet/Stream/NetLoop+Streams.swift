import CHubShims
import Glibc
import HubBase

/// Raw outgoing streams (Redis).
extension NetLoop {
    /// Memory that a stream's queue keeps when it's empty.
    private static let streamBytesKept = 256 * 1024

    /// Opens a TCP or Unix stream; the handler is told how it went, never before this returns. The stream lives on this loop.
    ///
    /// - Parameters:
    ///   - connectDeadline: for the connection, and for TLS on it.
    ///   - tls: whom to speak TLS with; nil: plain.
    package func openStream(
        to address: SocketAddress, connectDeadline: Span, tls: TLSPeer? = nil, handler: any StreamHandler
    ) -> ByteStream {
        let (index, generation) = state.pointee.streams.place()
        let stream = ByteStream(self, address: address, peer: tls, handler: handler, index: index, generation: generation)
        state.pointee.streams.put(stream)
        stream.deadline = state.pointee.timers.schedule(
            at: state.pointee.now + connectDeadline, owner: .stream, kind: 0, value: UInt64(generation) << 32 | UInt64(index))
        do throws(NetError) {
            stream.descriptor = try Self.startConnecting(address, from: nil)
            let result = System.watch(
                epoll, EPOLL_CTL_ADD, stream.descriptor, events: Readiness.output, data: Self.data(stream))
            guard result == 0 else { throw System.error(result, "epoll_ctl") }
        } catch {
            endStream(stream, error)
        }
        return stream
    }

    private static func data(_ stream: ByteStream) -> UInt64 {
        EventTag(.stream, index: stream.index, generation: stream.generation).data
    }

    func streamEvent(_ index: UInt32, generation: UInt32, _ events: UInt32) {
        guard let stream = state.pointee.streams.find(index, generation: generation) else { return }
        if stream.state == .connecting && stream.session == nil {
            streamConnected(stream)
        } else {
            if events & (Readiness.input | Readiness.broken) != 0 { readStream(stream) }
            if events & Readiness.output != 0 && stream.state != .closed { flushStream(stream) }
        }
        tellEndedStreams()
    }

    private func streamConnected(_ stream: ByteStream) {
        let number = hub_socket_error(stream.descriptor)
        guard number == 0 else { return endStream(stream, System.error(number, "connect \(stream.address)")) }
        updateInterest(stream)
        guard stream.state == .connecting else { return }
        if let peer = stream.peer { beginSecuring(stream, to: peer) } else { streamOpened(stream) }
    }

    /// The connection is there, and TLS on it.
    func streamOpened(_ stream: ByteStream) {
        if let deadline = stream.deadline { state.pointee.timers.cancel(deadline) }
        stream.deadline = nil
        stream.state = .open
        if stream.queuedBytes > 0 && !stream.isBlocked { markDirty(stream) }
        guard let handler = stream.handler else { return closeStream(stream) }
        handler.streamOpened(stream)
    }

    private func readStream(_ stream: ByteStream) {
        switch System.receive(stream.descriptor, state.pointee.scratch, LoopState.scratchBytes) {
        case .bytes(0):
            let place = stream.state == .connecting ? " during the TLS handshake; does it speak TLS there?" : ""
            endStream(stream, NetError(number: 0, description: "\(stream.address): end of stream\(place)"))
        case .bytes(let count) where stream.session != nil:
            takeCiphertext(stream, UnsafeRawBufferPointer(start: state.pointee.scratch, count: count))
        case .bytes(let count):
            guard let handler = stream.handler else { return closeStream(stream) }
            handler.streamReceived(stream, UnsafeRawBufferPointer(start: state.pointee.scratch, count: count))
        case .wouldBlock: break
        case .failed(let number): endStream(stream, System.error(number, "receive from \(stream.address)"))
        }
    }

    func markDirty(_ stream: ByteStream) {
        guard !stream.isDirty else { return }
        stream.isDirty = true
        state.pointee.streams.dirty.append(stream)
    }

    func flushStreams() {
        guard !state.pointee.streams.dirty.isEmpty else { return }
        let dirty = state.pointee.streams.dirty
        state.pointee.streams.dirty.removeAll(keepingCapacity: true)
        for stream in dirty {
            stream.isDirty = false
            if stream.state == .open && !stream.isBlocked { flushStream(stream) }
        }
    }

    func flushStream(_ stream: ByteStream) {
        if stream.session != nil {
            guard flushSecurely(stream) else { return }
            return streamFlushed(stream)
        }
        while stream.sent < stream.outbound.count {
            let waiting = UnsafeRawBufferPointer(rebasing: stream.outbound.bytes[stream.sent...])
            guard let base = waiting.baseAddress else { break }
            switch System.send(stream.descriptor, base, waiting.count) {
            case .bytes(let count):
                stream.sent += count
                if count < waiting.count { return blockStream(stream) }
            case .wouldBlock: return blockStream(stream)
            case .failed(let number): return endStream(stream, System.error(number, "send to \(stream.address)"))
            }
        }
        streamFlushed(stream)
    }

    /// Everything that may leave has left: while TLS shakes hands that isn't the queue.
    private func streamFlushed(_ stream: ByteStream) {
        if stream.sent == stream.outbound.count {
            stream.outbound.removeAll()
            stream.outbound.trim(above: Self.streamBytesKept)
            stream.sent = 0
        }
        if stream.isBlocked {
            stream.isBlocked = false
            updateInterest(stream)
        }
    }

    func blockStream(_ stream: ByteStream) {
        // What has left is moved away once it's the larger part.
        if stream.sent > stream.queuedBytes {
            stream.outbound.removeFirst(stream.sent)
            stream.sent = 0
        }
        guard !stream.isBlocked else { return }
        stream.isBlocked = true
        updateInterest(stream)
    }

    private func updateInterest(_ stream: ByteStream) {
        let events = Readiness.input | (stream.isBlocked ? Readiness.output : 0)
        let result = System.watch(epoll, EPOLL_CTL_MOD, stream.descriptor, events: events, data: Self.data(stream))
        if result != 0 { endStream(stream, System.error(result, "epoll_ctl")) }
    }

    // MARK: Ends

    func streamDeadlinePassed(_ value: UInt64) {
        let index = UInt32(truncatingIfNeeded: value)
        let generation = UInt32(truncatingIfNeeded: value >> 32)
        guard let stream = state.pointee.streams.find(index, generation: generation) else { return }
        stream.deadline = nil
        guard stream.state == .connecting else { return }
        endStream(
            stream,
            NetError(
                number: ETIMEDOUT,
                description: "connect \(stream.address): no "
                    + (stream.session == nil ? "answer within the deadline" : "TLS handshake within the deadline; does it speak TLS there?")
            ))
        tellEndedStreams()
    }

    /// Closes it, and has the handler told.
    func endStream(_ stream: ByteStream, _ reason: NetError) {
        guard stream.state != .closed else { return }
        stream.ended = reason
        state.pointee.streams.ended.append(stream)
        closeStream(stream)
    }

    /// Tells ends that came up since the last time; those that come up meanwhile are told in the next turn. Not within a handler's call.
    func tellEndedStreams() {
        if !state.pointee.streams.ended.isEmpty {
            let ended = state.pointee.streams.ended
            state.pointee.streams.ended.removeAll(keepingCapacity: true)
            for stream in ended {
                // nil: it was closed by its owner meanwhile.
                guard let reason = stream.ended else { continue }
                stream.ended = nil
                let handler = stream.handler
                stream.handler = nil
                handler?.streamEnded(stream, reason)
            }
        }
    }

    func closeStream(_ stream: ByteStream) {
        if stream.ended == nil { stream.handler = nil }
        guard stream.state != .closed else { return }
        stream.state = .closed
        if let deadline = stream.deadline { state.pointee.timers.cancel(deadline) }
        stream.deadline = nil
        if stream.session != nil { sayGoodbye(stream) }
        if stream.descriptor >= 0 { System.close(stream.descriptor) }
        stream.descriptor = -1
        state.pointee.streams.remove(stream)
    }
}
