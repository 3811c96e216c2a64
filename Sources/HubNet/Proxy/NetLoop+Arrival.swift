import HubBase

/// What comes before HTTP: a PROXY header where the peer is a trusted proxy, then TLS where the listener has it. One deadline for both.
extension NetLoop {
    func beginArrival(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, isSecure: Bool) {
        state.pointee.deadlines.arm(index, at: arrivalDeadline(connection, options.limits.tlsDeadline))
        if let proxies = options.proxies, proxies.sendsHeader, let peer = System.peerAddress(connection.pointee.descriptor)?.ip,
            proxies.trusts(peer)
        {
            // Never guessed (proxy-protocol.txt §2): whoever may send one has to.
            connection.pointee.phase = .preface
            if isSecure { connection.pointee.flags.insert(.willBeSecure) }
        } else if isSecure {
            beginSecuring(index, connection)
        } else {
            state.pointee.deadlines.arm(index, at: arrivalDeadline(connection, options.limits.headDeadline))
        }
    }

    func workOffPreface(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ bytes: UnsafeMutableRawBufferPointer) -> Progress
    {
        switch ProxyHeader.parse(UnsafeRawBufferPointer(bytes)) {
        case .needMore(let wanted): return Progress(consumed: 0, wanted: wanted)
        case .refused(let reason):
            failArrival(index, connection, reason)
            return Progress(consumed: bytes.count, wanted: 0)
        case .header(let byteCount, let client):
            if let client {
                ConnectionEdge.of(connection).pointee.client = client
                guard recount(ConnectionID(index: index, generation: connection.pointee.generation), as: client) else {
                    failArrival(index, connection, "too many connections of one address")
                    return Progress(consumed: bytes.count, wanted: 0)
                }
            }
            connection.pointee.phase = .http
            if connection.pointee.flags.contains(.willBeSecure) {
                beginSecuring(index, connection)
            } else {
                state.pointee.deadlines.arm(index, at: arrivalDeadline(connection, options.limits.headDeadline))
            }
            return Progress(consumed: byteCount, wanted: 0)
        }
    }

    /// The connection ends before a request: counted, and the handler may tell its log. One that we made is lost like any other.
    func failArrival(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ reason: String) {
        if connection.pointee.flags.contains(.isClient) { return lose(index, connection, "TLS: " + reason) }
        state.pointee.counters.arrivalsFailed += 1
        if let server { server.arrivalFailed(ConnectionID(index: index, generation: connection.pointee.generation), reason) }
        lose(index, connection, reason)
    }

    /// Reads the client's address out of a request that came from a trusted proxy. Each request anew: a proxy's connection may carry requests of
    /// several clients.
    func noteClient(of request: borrowing HTTPRequest, _ connection: UnsafeMutablePointer<Connection>) {
        guard let proxies = options.proxies else { return }
        let reader = ForwardedFor(proxies)
        guard reader.isPresent(in: request) else {
            connection.pointee.edge?.pointee.forwarded = nil
            return
        }
        let sender = connection.pointee.edge?.pointee.client ?? System.peerAddress(connection.pointee.descriptor)
        guard let sender = sender?.ip else { return }
        let client = reader.client(of: request, from: sender)
        // No header tells the client's port reliably.
        ConnectionEdge.of(connection).pointee.forwarded = client == sender ? nil : SocketAddress(client, port: 0)
    }
}
