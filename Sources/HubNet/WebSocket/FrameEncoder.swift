import HubBase

package enum Opcode: UInt8, Sendable {
    case continuation = 0x0
    case text = 0x1
    case binary = 0x2
    case close = 0x8
    case ping = 0x9
    case pong = 0xA
}

/// Writes frame headers (RFC 6455 §5.2). Everything we send is one frame.
package enum FrameEncoder {
    /// Room for any header: 2 + 8 + 4.
    package static let headerBytesMax = 14

    /// Writes the header of a frame whose payload begins at `payload`, right in front of it, and returns how many bytes it took (2 … 14).
    /// `headerBytesMax` bytes in front must be free. Masking the payload is the caller's (`Masking`).
    package static func writeHeader(
        before payload: UnsafeMutableRawPointer, _ opcode: Opcode, payloadBytes: Int, compressed: Bool = false, maskingKey: UInt32? = nil
    ) -> Int { fatalError("skeleton") }

    /// Appends a ping or pong with a copy of `payload` (≤ 125 bytes).
    package static func appendControl(
        _ opcode: Opcode, _ payload: UnsafeRawBufferPointer, maskingKey: UInt32? = nil, into out: inout ByteBuffer
    ) {
        fatalError("skeleton")
    }

    /// Appends a close frame. nil: without a code. The reason is cut to 123 bytes at a character's border.
    package static func appendClose(code: UInt16?, reason: UnsafeRawBufferPointer, maskingKey: UInt32? = nil, into out: inout ByteBuffer) {
        fatalError("skeleton")
    }
}
