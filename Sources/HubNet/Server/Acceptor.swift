import CHubShims
import Glibc
import HubBase

/// A loop's listeners, and what it keeps for the day when descriptors run out.
final class Acceptor {
    var listeners: [ListenSocketBox] = []
    /// Given up for a moment when there is no descriptor left, so that who waits is turned away rather than left hanging.
    var spare: Int32 = System.openSpare()
    var isPaused = false
    /// No connection is kept for another request any more.
    var hasStopped = false

    deinit { if spare >= 0 { System.close(spare) } }
}

extension NetLoop {
    private static let acceptsMax = 64
    /// How long listeners aren't looked at when descriptors have run out: they would stay ready, and the loop would spin.
    private static let exhaustedPause = Span.milliseconds(100)
    /// For a request on one of the few places beyond the limit.
    private static let reserveDeadline = Span.seconds(2)
    /// And then this long for the peer's end, so that those who are refused and stay don't keep the probes out.
    private static let reserveFinish = Span.milliseconds(250)

    /// Accepts connections from `listener` on this loop. Each loop has a listener of its own (`ListenSocket.open`).
    ///
    /// - Parameter isSecure: TLS comes first, by the loop's `tls` at that time.
    package func serve(_ listener: consuming ListenSocket, isSecure: Bool = false) {
        // Accepted sockets inherit it on Linux: no call for each.
        _ = hub_set_nodelay(listener.descriptor)
        let box = ListenSocketBox(listener)
        box.isSecure = isSecure
        let index = acceptor.listeners.count
        acceptor.listeners.append(box)
        watchListener(box, index, EPOLL_CTL_ADD, acceptor.isPaused ? 0 : Readiness.input)
    }

    /// Closes the listeners, and the HTTP connections that wait for a next request; those that have one under way are closed after its
    /// answer. Who hasn't been accepted yet is reset by the kernel.
    package func stopAccepting() {
        acceptor.listeners.removeAll()
        acceptor.hasStopped = true
        for index in 0..<state.pointee.table.count {
            let connection = state.pointee.table[index]
            switch connection.pointee.phase {
            case .preface, .securing: lose(index, connection, "the node stops")
            case .http where connection.pointee.flags.contains(.isAnswerPending): continue
            case .http where connection.pointee.partial == nil: finish(index, connection)
            // The rest of a request that has begun gets as long as a closing handshake.
            case .http:
                state.pointee.deadlines.arm(index, at: state.pointee.now + min(options.limits.closeDeadline, options.limits.headDeadline))
            default: continue
            }
        }
    }

    private func watchListener(_ box: ListenSocketBox, _ index: Int, _ operation: Int32, _ events: UInt32) {
        let data = EventTag(.listener, index: UInt32(index)).data
        let result = System.watch(epoll, operation, box.descriptor, events: events, data: data)
        precondition(result == 0, "epoll_ctl for the listener on \(box.address): \(System.message(result))")
    }

    func acceptClients(_ index: Int) {
        for _ in 0..<Self.acceptsMax {
            // Looked up each time: a handler isn't called here, but it may have stopped accepting earlier in this turn.
            guard index < acceptor.listeners.count, !acceptor.isPaused else { return }
            switch System.accept(acceptor.listeners[index].descriptor) {
            case .bytes(let descriptor): admitClient(Int32(descriptor), isSecure: acceptor.listeners[index].isSecure)
            case .wouldBlock: return
            case .failed(let number) where number == EMFILE || number == ENFILE || number == ENOBUFS || number == ENOMEM:
                turnAway(index)
                return
            case .failed: continue  // that one client has gone (ECONNABORTED and the network's errors, accept(2))
            }
        }
    }

    private func admitClient(_ descriptor: Int32, isSecure: Bool) {
        guard let place = options.limits.connections.take() else {
            state.pointee.counters.refused += 1
            Self.refuse(descriptor, "503 Service Unavailable", isSecure: isSecure)
            return
        }
        let key = options.limits.countsAddresses ? clientKey(of: descriptor) : 0
        guard key == 0 || countAddress(key) else {
            options.limits.connections.giveBack(place)
            Self.refuse(descriptor, "429 Too Many Requests", isSecure: isSecure)
            return
        }
        guard let index = state.pointee.table.take() else {
            options.limits.connections.giveBack(place)
            if key != 0 { options.limits.addresses.giveBack(key) }
            state.pointee.counters.refused += 1
            Self.refuse(descriptor, "503 Service Unavailable", isSecure: isSecure)
            return
        }
        if key != 0 { state.pointee.keepAddress(key, of: index) }
        let connection = state.pointee.table[index]
        connection.pointee.descriptor = descriptor
        connection.pointee.phase = .http
        connection.pointee.flags = place == .ordinary ? .isCounted : [.isCounted, .isReserve]
        connection.pointee.lastInbound = state.pointee.now.nanoseconds
        let data = EventTag(.connection, index: index, generation: connection.pointee.generation).data
        guard System.watch(epoll, EPOLL_CTL_ADD, descriptor, events: Readiness.input, data: data) == 0 else {
            state.pointee.counters.refused += 1
            tearDown(index)
            return
        }
        state.pointee.counters.accepted += 1
        state.pointee.deadlines.arm(index, at: arrivalDeadline(connection, options.limits.headDeadline))
        if isSecure || options.proxies?.sendsHeader == true { beginArrival(index, connection, isSecure: isSecure) }
    }

    /// False, and told in the counters, when the address may have no more now.
    private func countAddress(_ key: UInt64) -> Bool {
        switch options.limits.takeAddress(key, at: state.pointee.now) {
        case .taken: return true
        case .tooMany: state.pointee.counters.refusedByAddress += 1
        case .tooFast: state.pointee.counters.refusedByAddressPace += 1
        }
        state.pointee.counters.refused += 1
        return false
    }

    /// Whom a connection counts for until more is known; 0: nobody, since a trusted proxy speaks for many.
    private func clientKey(of descriptor: Int32) -> UInt64 {
        guard let address = System.peerAddress(descriptor) else { return 0 }
        if let proxies = options.proxies, let ip = address.ip, proxies.trusts(ip) { return 0 }
        return address.clientKey
    }

    /// When a phase before the first request has to be over: a place beyond the limit isn't for waiting.
    func arrivalDeadline(_ connection: UnsafeMutablePointer<Connection>, _ span: Span) -> Instant {
        state.pointee.now + (connection.pointee.flags.contains(.isReserve) ? min(span, Self.reserveDeadline) : span)
    }

    /// When whoever is done with has to be gone, or is dropped.
    func finishDeadline(_ connection: UnsafeMutablePointer<Connection>) -> Instant {
        let span = options.limits.closeDeadline
        return state.pointee.now + (connection.pointee.flags.contains(.isReserve) ? min(span, Self.reserveFinish) : span)
    }

    /// Counts a connection for another address than the one that it came from: of a client that a proxy speaks for. False: that client holds as
    /// many as it may; the connection then counts for nobody, and it's the caller's to refuse it.
    package func recount(_ id: ConnectionID, as address: SocketAddress) -> Bool {
        guard state.pointee.table.find(id) != nil else { return false }
        let before = state.pointee.takeAddress(of: id.index)
        if before != 0 { options.limits.addresses.giveBack(before) }
        let key = address.clientKey
        guard options.limits.countsAddresses, key != 0 else { return true }
        guard countAddress(key) else { return false }
        state.pointee.keepAddress(key, of: id.index)
        return true
    }

    /// Whether it holds a place beyond the node's limit: good for one short request, not for a WebSocket.
    package func isReserve(_ id: ConnectionID) -> Bool { state.pointee.table.find(id)?.pointee.flags.contains(.isReserve) ?? false }

    /// Says why, as far as that's possible without keeping anything for it. A client that speaks TLS couldn't read it.
    private static func refuse(_ descriptor: Int32, _ status: StaticString, isSecure: Bool) {
        defer { System.close(descriptor) }
        if isSecure { return }
        var answer = ByteBuffer(capacity: 128)
        answer.append("HTTP/1.1 ")
        answer.append(status)
        answer.append("\r\nConnection: close\r\nRetry-After: 5\r\nCache-Control: no-store\r\n")
        answer.append(HTTPResponseWriter.guards)
        answer.append(HTTPResponseWriter.policy)
        answer.append("Content-Length: 0\r\n\r\n")
        if let base = answer.bytes.baseAddress { _ = System.send(descriptor, base, answer.count) }
        System.finishSending(descriptor)
    }

    /// No descriptor left: one client is taken with the spare one and dropped, so that it doesn't hang; then a pause.
    private func turnAway(_ index: Int) {
        state.pointee.counters.outOfDescriptors += 1
        if acceptor.spare >= 0 {
            System.close(acceptor.spare)
            if case .bytes(let descriptor) = System.accept(acceptor.listeners[index].descriptor) {
                state.pointee.counters.refused += 1
                Self.refuse(Int32(descriptor), "503 Service Unavailable", isSecure: acceptor.listeners[index].isSecure)
            }
        }
        acceptor.spare = System.openSpare()
        acceptor.isPaused = true
        for (index, box) in acceptor.listeners.enumerated() { watchListener(box, index, EPOLL_CTL_MOD, 0) }
        let end = state.pointee.now + Self.exhaustedPause
        _ = state.pointee.timers.schedule(at: end, owner: .listeners, kind: 0, value: 0)
    }

    func resumeAccepting() {
        acceptor.isPaused = false
        if acceptor.spare < 0 { acceptor.spare = System.openSpare() }
        for (index, box) in acceptor.listeners.enumerated() { watchListener(box, index, EPOLL_CTL_MOD, Readiness.input) }
    }
}
