import HubBase

/// TLS between a stream and its socket, in the client's role, with the loop's scratch as for connections.
extension NetLoop {
    func beginSecuring(_ stream: ByteStream, to peer: TLSPeer) {
        guard let session = TLSSession(to: peer, on: tlsScratch()) else {
            return endStream(stream, Self.tlsError(stream, "none to \(peer.name) is possible: the name or the memory is bad"))
        }
        stream.session = consume session
        _ = shakeHands(stream)
    }

    /// All of `bytes` is consumed: what isn't a whole record yet waits in the session.
    func takeCiphertext(_ stream: ByteStream, _ bytes: UnsafeRawBufferPointer) {
        guard let scratch = state.pointee.tlsScratch else { return }
        scratch.pointee.offer(bytes)
        defer { scratch.pointee.withdraw() }
        if stream.state == .connecting, !shakeHands(stream) { return }
        guard let (count, end) = stream.session?.decrypt(now: state.pointee.now.nanoseconds) else { return }
        scratch.pointee.withdraw()
        guard pushOutput(stream) else { return }
        if count > 0 {
            guard let handler = stream.handler else { return closeStream(stream) }
            handler.streamReceived(stream, UnsafeRawBufferPointer(start: scratch.pointee.plain, count: count))
            guard stream.state != .closed else { return }
        }
        switch end {
        case .none: return
        case .closed: endStream(stream, NetError(number: 0, description: "\(stream.address): end of stream"))
        case .failed(let reason): endStream(stream, Self.tlsError(stream, reason))
        }
    }

    /// True when the handshake is done and input may hold more.
    private func shakeHands(_ stream: ByteStream) -> Bool {
        guard let outcome = stream.session?.shakeHands() else { return false }
        // An alert is worth sending, whatever becomes of it.
        guard pushOutput(stream) else { return false }
        switch outcome {
        case .needMore: return false
        case .failed(let reason):
            endStream(stream, Self.tlsError(stream, reason))
            return false
        case .done:
            streamOpened(stream)
            return stream.state == .open
        }
    }

    /// Encrypts and sends, in pieces, as long as the socket takes them. True when everything has left.
    func flushSecurely(_ stream: ByteStream) -> Bool {
        if let waiting = stream.session?.waiting {
            switch System.send(stream.descriptor, HeldBytes.bytes(waiting), waiting.pointee.count) {
            case .bytes(let count): stream.session?.removeWaiting(count)
            case .wouldBlock: break
            case .failed(let number):
                endStream(stream, System.error(number, "send to \(stream.address)"))
                return false
            }
        }
        while stream.state == .open, stream.sent < stream.outbound.count, stream.session?.waiting == nil {
            guard let piece = stream.session?.encrypt(UnsafeRawBufferPointer(rebasing: stream.outbound.bytes[stream.sent...])) else {
                state.pointee.tlsScratch?.pointee.clearOutput()
                endStream(stream, Self.tlsError(stream, "what is to be sent can't be encrypted"))
                return false
            }
            stream.sent += piece
            guard pushOutput(stream) else { return false }
        }
        guard stream.session?.waiting == nil else {
            blockStream(stream)
            return false
        }
        return stream.state != .closed
    }

    /// Sends what the session has just put out; what the socket doesn't take waits there. False when the stream has ended by that.
    private func pushOutput(_ stream: ByteStream) -> Bool {
        guard let scratch = state.pointee.tlsScratch else { return false }
        defer { scratch.pointee.clearOutput() }
        let bytes = scratch.pointee.output.bytes
        guard let base = bytes.baseAddress, bytes.count > 0 else { return true }
        var sent = 0
        if stream.session?.waiting == nil {
            switch System.send(stream.descriptor, base, bytes.count) {
            case .bytes(let count): sent = count
            case .wouldBlock: break
            case .failed(let number):
                endStream(stream, System.error(number, "send to \(stream.address)"))
                return false
            }
        }
        guard sent < bytes.count else { return true }
        stream.session?.keep(UnsafeRawBufferPointer(rebasing: bytes[sent...]))
        blockStream(stream)
        return stream.state != .closed
    }

    /// Says that nothing more comes, if that can be said at once: nobody waits for it.
    func sayGoodbye(_ stream: ByteStream) {
        if stream.session?.waiting == nil, stream.descriptor >= 0, let scratch = state.pointee.tlsScratch {
            stream.session?.sayGoodbye()
            if let base = scratch.pointee.output.bytes.baseAddress {
                _ = System.send(stream.descriptor, base, scratch.pointee.output.count)
            }
            scratch.pointee.clearOutput()
        }
        stream.session = nil
    }

    private static func tlsError(_ stream: ByteStream, _ reason: String) -> NetError {
        NetError(number: 0, description: "TLS with \(stream.address): \(reason)")
    }
}
