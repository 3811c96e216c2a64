import HubBase

/// The server's side of the opening handshake (RFC 6455 §4.2), judged by token lists: what is mandatory and bad is refused, what is
/// optional and bad is declined.
package enum OpeningHandshake {
    package enum Judgement {
        case accept(AcceptKey)
        /// It closes the connection.
        case refuse(HTTPResponse)
    }

    package static func judge(_ request: borrowing HTTPRequest) -> Judgement { fatalError("skeleton") }

    /// Appends the 101.
    /// - Parameter extensions: what was agreed, as it goes on the wire; nil: none. Negotiation comes with permessage-deflate.
    package static func write101(_ acceptKey: AcceptKey, subprotocol: StaticString?, extensions: String? = nil, into out: inout ByteBuffer)
    {
        fatalError("skeleton")
    }
}
