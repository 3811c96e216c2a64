import Glibc
import HubBase

/// TLS between a socket and its connection. What comes is decrypted in the loop's scratch and worked off like any other input; what leaves is
/// encrypted there and handed to the socket at once. To the rest of the loop a connection with TLS is a socket with a somewhat larger send buffer.
extension NetLoop {
    /// Begins TLS on a connection that has just come. Its session is made when its first bytes come and the node's pace lets it in.
    func beginSecuring(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        connection.pointee.flags.remove(.willBeSecure)
        connection.pointee.flags.insert(.isSecure)
        connection.pointee.phase = .securing
    }

    func makeSession(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        guard let tls else { return failArrival(index, connection, "the listener has no certificate") }
        guard let session = TLSSession(tls, on: tlsScratch()) else { return failArrival(index, connection, "no memory for TLS") }
        ConnectionEdge.of(connection).pointee.session = consume session
    }

    /// Begins TLS on a connection that we have just made; its opening handshake follows.
    func beginSecuring(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, to peer: TLSPeer) {
        guard let session = TLSSession(to: peer, on: tlsScratch()) else {
            return lose(index, connection, "no TLS to \(peer.name) is possible: the name or the memory is bad")
        }
        let edge = ConnectionEdge.of(connection)
        edge.pointee.session = consume session
        connection.pointee.flags.insert(.isSecure)
        connection.pointee.phase = .securing
        _ = shakeHands(index, connection, edge)
    }

    func tlsScratch() -> UnsafeMutablePointer<TLSScratch> {
        if let present = state.pointee.tlsScratch { return present }
        let scratch = TLSScratch.make()
        state.pointee.tlsScratch = scratch
        return scratch
    }

    // MARK: Input

    func readSecure(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        if connection.pointee.phase == .securing, !mayShakeHands(index, connection) { return }
        let generation = connection.pointee.generation
        for _ in 0..<Self.readsMax {
            guard connection.pointee.flags.isDisjoint(with: [.isPaused, .inputEnded]) else { return }
            let room = Self.inputRoom(connection)
            switch System.receive(connection.pointee.descriptor, state.pointee.scratch, room) {
            case .bytes(0):
                // Without a close_notify it may be an attacker's doing; requests and WebSockets both have an end of their own to tell by.
                inputEnded(index, connection)
                return
            case .bytes(let count):
                connection.pointee.lastInbound = state.pointee.now.nanoseconds
                connection.pointee.flags.remove(.awaitsPong)
                takeCiphertext(index, connection, UnsafeRawBufferPointer(start: state.pointee.scratch, count: count))
                guard connection.pointee.generation == generation, connection.pointee.phase != .dead, count == room,
                    connection.pointee.flags.contains(.isSecure)
                else { return }
            case .wouldBlock: return
            case .failed(let number):
                lose(index, connection, System.message(number))
                return
            }
        }
    }

    /// All of `bytes` is consumed: what isn't a whole record yet waits in the session.
    func takeCiphertext(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ bytes: UnsafeRawBufferPointer) {
        guard let scratch = state.pointee.tlsScratch, let edge = connection.pointee.edge else { return }
        // What a session that fails leaves over mustn't be there when the next one begins.
        defer { scratch.pointee.withdraw() }
        if connection.pointee.phase == .securing {
            if edge.pointee.session?.hasBegun == false, let first = bytes.first, (0x41...0x5A).contains(first) {
                return answerPlainly(index, connection)
            }
            scratch.pointee.offer(bytes)
            guard shakeHands(index, connection, edge) else { return }
        } else {
            scratch.pointee.offer(bytes)
        }
        guard let (count, end) = edge.pointee.session?.decrypt(now: state.pointee.now.nanoseconds) else { return }
        scratch.pointee.withdraw()
        guard sendOutput(index, connection) else { return }
        let generation = connection.pointee.generation
        if count > 0 {
            state.pointee.counters.bytesIn += UInt64(count)
            takePlaintext(index, connection, UnsafeMutableRawBufferPointer(start: scratch.pointee.plain, count: count))
            guard connection.pointee.generation == generation, connection.pointee.phase != .dead else { return }
        }
        switch end {
        case .none: return
        case .closed: if !connection.pointee.flags.contains(.inputEnded) { inputEnded(index, connection) }
        case .failed(let reason): lose(index, connection, "TLS: \(reason)")
        }
    }

    private func takePlaintext(
        _ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ bytes: UnsafeMutableRawBufferPointer
    ) {
        guard connection.pointee.partial != nil else { return workOff(index, connection, bytes) }
        HeldBytes.append(&connection.pointee.partial, UnsafeRawBufferPointer(bytes), limit: .max)
        workOffPartial(index, connection)
    }

    /// True when the handshake is done and input may hold more.
    private func shakeHands(
        _ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ edge: UnsafeMutablePointer<ConnectionEdge>
    ) -> Bool {
        guard let outcome = edge.pointee.session?.shakeHands() else { return false }
        guard sendOutput(index, connection) else { return false }
        switch outcome {
        case .needMore: return false
        case .failed(let reason):
            failArrival(index, connection, reason)
            return false
        case .done where connection.pointee.flags.contains(.isClient):
            // The deadline of the opening goes on.
            beginOpening(index, connection)
            return connection.pointee.phase == .opening
        case .done(let isResumed):
            state.pointee.counters.tlsHandshakes += 1
            if isResumed { state.pointee.counters.tlsResumptions += 1 }
            connection.pointee.phase = .http
            state.pointee.deadlines.arm(index, at: arrivalDeadline(connection, options.limits.headDeadline))
            return true
        }
    }

    /// Plain HTTP on a port for TLS: the client is told so in its own language, and nothing of what it asks is done.
    private func answerPlainly(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        state.pointee.counters.arrivalsFailed += 1
        connection.pointee.flags.remove(.isSecure)
        connection.pointee.edge?.pointee.session = nil
        connection.pointee.phase = .http
        refuse(index, connection, HTTPRefusal(status: 400, message: "this port speaks TLS: use https or wss"))
    }

    // MARK: Output

    /// Encrypts and sends, in pieces: of a small queue's limit no more than a quarter at once. Bytes that are told as sent may partly wait as
    /// ciphertext; then nothing more is taken before they have left.
    func transmitSecure(
        _ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ base: UnsafeRawPointer, _ count: Int
    ) -> System.Transfer {
        guard let edge = connection.pointee.edge, edge.pointee.session != nil else { return .failed(EPROTO) }
        let piece = min(TLSSession.pieceBytes, max(options.limits.outboundBytes / 4, 1024))
        var taken = 0
        while taken < count, !holdsCiphertext(connection) {
            let next = UnsafeRawBufferPointer(start: base + taken, count: min(count - taken, piece))
            guard let done = edge.pointee.session?.encrypt(next) else {
                state.pointee.tlsScratch?.pointee.clearOutput()
                return .failed(EPROTO)
            }
            taken += done
            if case .failed(let number) = pushOutput(index, connection, edge) { return .failed(number) }
        }
        return taken == 0 ? .wouldBlock : .bytes(taken)
    }

    /// Sends what the session has just put out; false when the connection is lost by that.
    private func sendOutput(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) -> Bool {
        guard let edge = connection.pointee.edge else { return false }
        if case .failed(let number) = pushOutput(index, connection, edge) {
            lose(index, connection, System.message(number))
            return false
        }
        return connection.pointee.phase != .dead
    }

    /// The output is empty afterwards: what the socket doesn't take waits with the session.
    private func pushOutput(
        _ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ edge: UnsafeMutablePointer<ConnectionEdge>
    ) -> System.Transfer {
        guard let scratch = state.pointee.tlsScratch, scratch.pointee.output.count > 0 else { return .bytes(0) }
        defer { scratch.pointee.clearOutput() }
        let bytes = scratch.pointee.output.bytes
        var sent = 0
        if !holdsCiphertext(connection), let base = bytes.baseAddress {
            switch System.send(connection.pointee.descriptor, base, bytes.count) {
            case .bytes(let count): sent = count
            case .wouldBlock: break
            case .failed(let number): return .failed(number)
            }
        }
        guard sent < bytes.count else { return .bytes(sent) }
        changeCiphertext(edge) { $0.keep(UnsafeRawBufferPointer(rebasing: bytes[sent...])) }
        connection.pointee.flags.insert(.isBlocked)
        updateInterest(index, connection)
        return .bytes(sent)
    }

    /// What waits as ciphertext is part of the node's memory for queues. It can't be refused, so it's never asked for: whoever comes next finds
    /// less.
    private func changeCiphertext(_ edge: UnsafeMutablePointer<ConnectionEdge>, _ change: (inout TLSSession) -> Void) {
        guard var session = edge.pointee.session.take() else { return }
        let before = session.waitingMemory
        change(&session)
        let after = session.waitingMemory
        edge.pointee.session = consume session
        if after != before { options.limits.sendMemory.adjust(by: after - before) }
    }

    /// Of a connection that ends.
    func freeEdge(_ connection: UnsafeMutablePointer<Connection>) {
        guard let edge = connection.pointee.edge else { return }
        if let memory = edge.pointee.session?.waitingMemory, memory > 0 { options.limits.sendMemory.adjust(by: -memory) }
        ConnectionEdge.free(&connection.pointee.edge)
    }

    func ciphertextBytes(_ connection: UnsafeMutablePointer<Connection>) -> Int {
        guard connection.pointee.flags.contains(.isSecure) else { return 0 }
        return connection.pointee.edge?.pointee.session?.waitingBytes ?? 0
    }

    func holdsCiphertext(_ connection: UnsafeMutablePointer<Connection>) -> Bool {
        guard connection.pointee.flags.contains(.isSecure), let edge = connection.pointee.edge else { return false }
        return edge.pointee.session?.waiting != nil
    }

    /// The socket takes bytes again. True when no ciphertext waits any more.
    func sendWaiting(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) -> Bool {
        guard let edge = connection.pointee.edge, let waiting = edge.pointee.session?.waiting else { return true }
        switch System.send(connection.pointee.descriptor, HeldBytes.bytes(waiting), waiting.pointee.count) {
        case .bytes(let count):
            changeCiphertext(edge) { $0.removeWaiting(count) }
            return !holdsCiphertext(connection)
        case .wouldBlock: return false
        case .failed(let number):
            lose(index, connection, System.message(number))
            return false
        }
    }

    /// Says that nothing more comes. True when that has left, too, and the socket's own end can follow.
    func endSecureOutput(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) -> Bool {
        guard !holdsCiphertext(connection) else { return false }
        connection.pointee.edge?.pointee.session?.sayGoodbye()
        return sendOutput(index, connection) && !holdsCiphertext(connection)
    }
}
