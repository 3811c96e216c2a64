/// How a connection writes its envelopes: the same maps in all of them (docs/protocol.md, MessagePack).
package enum WireFormat: UInt8, Sendable, CaseIterable {
    case json = 0
    case messagePack = 1
    /// MessagePack with numbers for the names of fields and the words of closed lists (`WireField`, `WireWord`).
    case short = 2

    /// What an opening handshake calls it (RFC 6455 §1.9).
    package var subprotocol: StaticString {
        switch self {
        case .json: "hub.v1.json"
        case .messagePack: "hub.v1.msgpack"
        case .short: "hub.v1.msgpack.short"
        }
    }

    /// What a payload in its envelopes is written in.
    @inline(__always) package var payload: PayloadFormat { self == .json ? .json : .messagePack }
}

/// How an application's value is written: what stands for names in the envelope around it makes no difference to it.
package enum PayloadFormat: UInt8, Sendable, CaseIterable {
    case json = 0
    case messagePack = 1
}
