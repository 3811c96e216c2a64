import HubBase

/// The client's side of the opening handshake (RFC 6455 §4.1).
package struct ClientOpening: Sendable {
    /// "127.0.0.1:8080": the Host header.
    package var host: String
    /// With the query, already percent-encoded.
    package var target: String
    package var subprotocols: [String]
    /// Authorization and the like.
    package var headers: [(name: String, value: String)]
    /// TCP connect, TLS and handshake together.
    package var deadline: Span
    /// Local address to connect from; nil: the kernel chooses.
    package var source: SocketAddress?
    /// nil: without TLS.
    package var tls: TLSPeer?
    /// Offers permessage-deflate without takeover (RFC 7692): what comes may be compressed. What leaves isn't, which the RFC leaves to each
    /// side: a client's messages are short.
    package var offersDeflate = false
    /// Bytes of the kernel's buffer for what comes, which it doubles; nil: the kernel's own choice, up to some megabytes. For clients that
    /// are to be slow.
    package var receiveBuffer: Int32?
    /// Bytes of the largest segment that the peer may send; nil: what the path takes. A loopback takes 64 KB at once, and a peer's kernel keeps
    /// so much more in its queue.
    package var segmentBytes: Int32?

    package init(
        host: String, target: String, subprotocols: [String], headers: [(name: String, value: String)] = [], deadline: Span = .seconds(10),
        source: SocketAddress? = nil, tls: TLSPeer? = nil
    ) {
        self.host = host
        self.target = target
        self.subprotocols = subprotocols
        self.headers = headers
        self.deadline = deadline
        self.source = source
        self.tls = tls
    }
}
