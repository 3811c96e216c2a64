import HubBase

/// The client's side of the opening handshake (RFC 6455 §4.1): writes the request, judges the answer. Incremental.
package struct ClientHandshake {
    package enum Step {
        case needMore
        /// The 101 is `length` bytes; what follows it are frames. `subprotocol` is absent when the server chose none.
        case open(length: Int, subprotocol: ByteRange)
        /// `status`: what the server answered; 0 when that wasn't HTTP. The text is for people: printable, bounded.
        case failed(status: Int, String)
    }

    package init(key: WebSocketKey) { fatalError("skeleton") }

    /// Appends the request. Throws, and appends nothing, when a part of `opening` can't stand in a request (a line break in a header …).
    package func writeRequest(_ opening: ClientOpening, into out: inout ByteBuffer) throws(NetError) { fatalError("skeleton") }

    /// `bytes`: all that came, from the response's first byte on. At most `limits.headBytes` are waited for.
    package mutating func judge(_ bytes: UnsafeRawBufferPointer, _ opening: borrowing ClientOpening, limits: borrowing NetLimits) -> Step {
        fatalError("skeleton")
    }
}
