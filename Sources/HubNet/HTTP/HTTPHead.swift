import HubBase

/// A request's head, read in place (RFC 9112 §2.1). Ranges count from the first byte that was given to the parser.
package struct HTTPHead {
    package enum BodyLength: Equatable, Sendable {
        case none
        /// `Content-Length`, 1 … `NetLimits.bodyBytes`.
        case length(Int)
        /// `Transfer-Encoding: chunked`: `ChunkedDecoder` finds the end.
        case chunked
    }

    package var method: HTTPMethod
    /// 0 or 1: a later minor version is treated as 1.1 (RFC 9110 §2.5).
    package var minorVersion: UInt8
    package var path: ByteRange
    /// Without the `?`; absent when there was none.
    package var query: ByteRange
    package var headers: [HTTPRequest.Header]
    /// Bytes of the head, up to and with the empty line: the body, or the first WebSocket frame, begins there.
    package var headLength: Int
    package var bodyLength: BodyLength
    package var keepAlive: Bool
    /// The client waits for `100 Continue` before it sends its body (RFC 9110 §10.1.1).
    package var expectsContinue: Bool
    /// `Connection: upgrade` and `Upgrade: websocket` are both there. A hint: `OpeningHandshake` judges.
    package var isUpgrade: Bool

    package init(method: HTTPMethod = .get, path: ByteRange = .absent, query: ByteRange = .absent) {
        self.method = method
        self.minorVersion = 1
        self.path = path
        self.query = query
        self.headers = []
        self.headLength = 0
        self.bodyLength = .none
        self.keepAlive = true
        self.expectsContinue = false
        self.isUpgrade = false
    }
}

package enum HTTPHeadOutcome {
    case needMore
    case head(HTTPHead)
    /// Answer it and close: where the next request begins can't be known (RFC 9112 §2.2).
    case refused(HTTPRefusal)
}

extension HTTPRequest {
    /// The request whose head is at the start of `bytes`, as the parser found it.
    package init(_ head: HTTPHead, in bytes: UnsafeRawBufferPointer, body: UnsafeRawBufferPointer) {
        self.init(
            method: head.method, head: UnsafeRawBufferPointer(rebasing: bytes[..<head.headLength]), path: head.path, query: head.query,
            headers: head.headers, body: body, keepAlive: head.keepAlive, minorVersion: head.minorVersion)
    }
}
