import HubBase

/// `Sec-WebSocket-Key`: 16 bytes in base64 (RFC 6455 §4.1).
package struct WebSocketKey: Sendable {
    package let text: InlineArray<24, UInt8>

    /// A client's key, from 16 bytes of chance.
    package init(nonce: (UInt64, UInt64)) { fatalError("skeleton") }

    /// What the server has to answer to this key.
    package var acceptKey: AcceptKey { fatalError("skeleton") }
}

/// `Sec-WebSocket-Accept`: SHA-1 of the key and a fixed GUID, in base64 (RFC 6455 §4.2.2).
package struct AcceptKey: Sendable {
    package let text: InlineArray<28, UInt8>
}
