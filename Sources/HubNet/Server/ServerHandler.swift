import HubBase

/// Judges and answers what clients bring. Called on the loop's thread, in each connection's order.
package protocol ServerHandler: AnyObject {
    /// A whole HTTP request. `request` is valid during the call only.
    func request(_ request: borrowing HTTPRequest, on id: ConnectionID) -> RequestOutcome
    /// The WebSocket is open (after our 101, or the server's), or the stream of events: messages may be sent.
    func opened(_ id: ConnectionID)
    /// A whole message, text already checked as UTF-8. `bytes` are valid during the call only.
    func message(_ bytes: UnsafeRawBufferPointer, _ kind: MessageKind, on id: ConnectionID)
    /// The WebSocket is over; told exactly once for every connection that was `opened` or asked for by `connect`. The index may be reused
    /// after the call.
    func closed(_ id: ConnectionID, _ end: ConnectionEnd)
    /// A queue that had to be thinned has drained (or is short again): so many frames of each class weren't sent. Told while the connection
    /// is open; one that was closed as too slow isn't told.
    func drained(_ id: ConnectionID, _ dropped: DroppedFrames)
    /// A connection ended before its first request: TLS or a PROXY header was wrong or too late. For logs; `id` finds it during the call only.
    func arrivalFailed(_ id: ConnectionID, _ reason: String)
    /// What a peer sent was refused for its form, before the handler saw it. For logs; the peer has its answer already, or gets it now.
    func refused(_ id: ConnectionID, _ refusal: NetRefusal)
}

/// What is refused for its form alone.
package enum NetRefusal: Sendable {
    /// The head or the framing of an HTTP request (RFC 9112).
    case request(status: Int, StaticString)
    /// The opening handshake (RFC 6455 §4.2).
    case handshake(status: Int)
    /// A frame, a text or a compressed message: closed with this code.
    case frame(code: UInt16, StaticString)
}

extension ServerHandler {
    package func drained(_ id: ConnectionID, _ dropped: DroppedFrames) {}
    package func arrivalFailed(_ id: ConnectionID, _ reason: String) {}
    package func refused(_ id: ConnectionID, _ refusal: NetRefusal) {}
}

package enum RequestOutcome {
    case respond(HTTPResponse)
    /// `respond(_:to:)` will be called later; nothing further is read from the connection before.
    case pending
    /// Answer 101 if the request is a valid opening handshake (RFC 6455 §4.2.1), else the right 4xx. Subprotocol: what to choose.
    case upgrade(subprotocol: StaticString?)
    /// Answer 200 with a stream of server-sent events that goes on until it's closed: the connection is `opened`, and each text message that is
    /// sent to it becomes an event; nothing comes from it. `retry`: after how long its client shall come back by itself. A HEAD request gets the head.
    case stream(retry: Span)
}
