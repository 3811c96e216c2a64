/// How a connection writes its envelopes, and a publication its payload. The same maps either way (docs/protocol.md, MessagePack).
package enum WireFormat: UInt8, Sendable, CaseIterable {
    case json = 0
    case messagePack = 1

    /// What an opening handshake calls it (RFC 6455 §1.9).
    package var subprotocol: StaticString {
        switch self {
        case .json: "hub.v1.json"
        case .messagePack: "hub.v1.msgpack"
        }
    }
}
