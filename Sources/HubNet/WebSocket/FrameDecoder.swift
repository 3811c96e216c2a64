import HubBase

/// Finds one frame after another (RFC 6455 §5) in bytes in place: judges each header before its payload is there, unmasks the payload
/// where it lies, checks text as it comes. Allocates nothing; 32 bytes at most.
package struct FrameDecoder {
    /// - Parameter allowsCompression: permessage-deflate was agreed: RSV1 may be set on a message's first frame (RFC 7692 §6).
    package init(role: WebSocketRole, allowsCompression: Bool = false) {}

    /// `bytes`: all that came and wasn't consumed. After `needMore` the same bytes (the payload's first part is unmasked by then) and more;
    /// they may have been moved.
    package mutating func next(_ bytes: UnsafeMutableRawBufferPointer, limits: FrameLimits) -> FrameStep { fatalError("skeleton") }
}
