import HubBase

/// Frames of compressed messages (RFC 7692 §6): RSV1 in the first byte, and a payload that was made from a plain frame's.
enum DeflatedFrame {
    /// Where an unmasked frame's payload begins.
    static func payloadOffset(_ frame: UnsafeRawBufferPointer) -> Int {
        switch frame[1] {
        case 127: 10
        case 126: 4
        default: 2
        }
    }

    /// Appends the frame right behind what is there, so that a turn's frames are one piece. nil, and nothing appended: `deflate` said so.
    static func append(
        _ frame: UnsafeRawBufferPointer, into out: inout ByteBuffer,
        _ deflate: (UnsafeRawBufferPointer, inout ByteBuffer) -> Int?
    ) -> ArenaRange? {
        guard let opcode = Opcode(rawValue: frame[0] & 0x0F) else { return nil }
        let start = out.count
        FrameEncoder.leaveGap(into: &out)
        guard let count = deflate(UnsafeRawBufferPointer(rebasing: frame[payloadOffset(frame)...]), &out), out.count <= ArenaRange.bytesMax
        else {
            out.removeLast(out.count - start)
            return nil
        }
        FrameEncoder.placeHeader(from: start, opcode, payloadBytes: count, compressed: true, into: &out)
        return ArenaRange(
            start: UInt32(truncatingIfNeeded: start) | ArenaRange.twinBit,
            end: UInt32(truncatingIfNeeded: out.count) | ArenaRange.twinBit)
    }
}
