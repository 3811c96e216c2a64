import HubBase

/// Byte and count limits, and deadlines, of one loop's connections. Every field is enforced before memory is taken.
package struct NetLimits: Sendable {
    package var headBytes = 8 * 1024
    package var headers = 64
    package var bodyBytes = 1024 * 1024
    package var messageBytes = 64 * 1024
    package var fragments = 1024
    /// Control frames a second that a peer may send, after a burst of twice as many.
    package var controlFramesPerSecond = 100
    /// What clients that offer permessage-deflate get.
    package var deflate = DeflateOptions()
    /// Of one connection's queue: past half of it the queue is thinned, past it the connection is closed.
    package var outboundBytes = 1024 * 1024
    /// For the queues of the whole node, shared by its loops.
    package var sendMemory = SendBudget(limit: .max / 2)
    /// Connections of the whole node, shared by its loops.
    package var connections = ConnectionBudget(limit: 1_000_000)
    /// Connections of one client address; 0: any number.
    package var connectionsPerAddress = 0
    /// Sockets that one client address opens.
    package var connectsPerAddress = Rate.unlimited
    package var addresses = AddressTable()

    var countsAddresses: Bool { connectionsPerAddress > 0 || connectsPerAddress.isLimited }

    func takeAddress(_ key: UInt64, at now: Instant) -> AddressTable.Verdict {
        addresses.take(key, limit: connectionsPerAddress > 0 ? connectionsPerAddress : .max, connects: connectsPerAddress, at: now)
    }

    /// The pace at which TLS handshakes begin, shared by the node's loops; the gateway asks it for WebSockets without TLS.
    package var admission = AdmissionRate()
    package var admissionsPerSecond = 1_000_000
    /// From accept until the PROXY header and the TLS handshake are done.
    package var tlsDeadline: Span = .seconds(10)
    package var headDeadline: Span = .seconds(10)
    /// An idle keep-alive HTTP connection is closed after this.
    package var keepAlive: Span = .seconds(60)
    /// A request that was left `pending` is answered 503 by then: later than any publication of it, which is tried for 30 s, says by itself
    /// what became of it.
    package var answerDeadline: Span = .seconds(35)
    package var closeDeadline: Span = .seconds(5)
    package var ping: Span = .seconds(20)
    package var pong: Span = .seconds(10)

    package init() {}
}
