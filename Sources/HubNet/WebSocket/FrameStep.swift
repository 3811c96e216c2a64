import HubBase

/// Which end of the connection we are: a client masks what it sends, a server doesn't (RFC 6455 §5.1).
package enum WebSocketRole: UInt8, Sendable { case server, client }

/// What the decoder found at the front. Ranges count from the first byte that was given; `consumed` bytes are done with once the payload
/// has been worked off.
package enum FrameStep {
    /// The frame at the front is incomplete: come again with at least so many bytes in all (or earlier, to have text judged as soon as
    /// it's there). Within the limits. 0: nothing more is looked at, the connection is past its close frame or has failed.
    case needMore(Int)
    /// A message in one frame. Text is checked, unless it's compressed.
    case message(MessageKind, payload: ByteRange, compressed: Bool, consumed: Int)
    /// A part of a fragmented message, to be collected. `first`: its kind, with the first part only. Text is checked over the parts, unless
    /// it's compressed; `compressed` says the same with every part.
    case fragment(first: MessageKind?, payload: ByteRange, isFinal: Bool, compressed: Bool, consumed: Int)
    case ping(ByteRange, consumed: Int)
    case pong(ByteRange, consumed: Int)
    /// Code and reason are judged; nil: the frame was empty (1005). Nothing after it is looked at.
    case close(code: UInt16?, reason: ByteRange, consumed: Int)
    /// Close with this code and reason. Nothing more is looked at.
    case failed(code: UInt16, reason: StaticString)
}

/// What one peer's messages may cost. A plain value, so that passing it costs no retain.
package struct FrameLimits: Sendable {
    package let messageBytes: UInt32
    /// Frames of one message, empty ones too.
    package let fragments: UInt32
    /// Bytes on the wire of one compressed message: what can't be deflated grows a little.
    package let compressedBytes: UInt32

    /// Both are held below 2^30.
    package init(messageBytes: Int, fragments: Int) {
        let bytes = min(max(messageBytes, 0), 1 << 30)
        self.messageBytes = UInt32(bytes)
        self.fragments = UInt32(min(max(fragments, 1), 1 << 30))
        self.compressedBytes = UInt32(bytes + bytes / 8 + 64)
    }

    /// A larger `messageBytes` (the echo endpoint's) raises the number of fragments with it: one for each 64 bytes is always allowed.
    package init(_ limits: borrowing NetLimits, messageBytes: Int? = nil) {
        let bytes = messageBytes ?? limits.messageBytes
        self.init(messageBytes: bytes, fragments: max(limits.fragments, bytes / 64))
    }
}
