import CZlib
import HubBase

/// Decompresses messages (RFC 7692 §7.2.2), bounded while it runs. One for each loop serves all connections without takeover: it's lent for
/// a message and forgets it afterwards. With takeover a connection owns one.
package struct Inflater: ~Copyable {
    package enum Outcome {
        /// The message was appended.
        case message
        case tooBig
        /// Not a whole number of deflate blocks.
        case malformed
    }

    private let stream: ZStream

    /// Memory is taken in steps: what a message announces costs nothing.
    private static let stepMin = 4 * 1024

    /// nil when there's no memory for it: about 2^windowBits + 8 KB, the window as soon as it's needed.
    package init?(windowBits: UInt8) {
        stream = ZStream.make()
        // zlib compresses with 2^9 where 2^8 was asked for.
        let bits = -Int32(max(windowBits, 9))
        guard inflateInit2_(stream, bits, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK else {
            stream.deallocate()
            return nil
        }
    }

    deinit {
        inflateEnd(stream)
        stream.deallocate()
    }

    static func cost(windowBits: UInt8) -> Int { 1 << Int(max(windowBits, 9)) + 8 * 1024 }

    /// Appends to the empty `out` what `payload` inflates to, as long as that's at most `limit` bytes: one more, and it stops.
    /// Cost: 1 to 3 ns a byte that comes out.
    package func inflate(_ payload: UnsafeRawBufferPointer, limit: Int, into out: inout ByteBuffer) -> Outcome {
        // A message of nothing should be one empty block (RFC 7692 §7.2.3.6), but what else could it mean?
        if payload.isEmpty { return .message }
        switch run(payload, limit, &out) {
        case .message: break
        case let other: return other
        }
        if isBetweenBlocks { return .message }
        let outcome = FlushTail.withBytes { run($0, limit, &out) }
        if case .message = outcome { return isBetweenBlocks ? .message : .malformed }
        return outcome
    }

    /// Forgets what went before.
    package func reset() { inflateReset(stream) }

    /// The next bit, which is a byte's first, begins a block (zlib.h, inflate: bits 0-5 of data_type count the unused bits, bit 7 says that
    /// a block has ended).
    private var isBetweenBlocks: Bool { stream.pointee.data_type & (128 | 0x3F) == 128 }

    private func run(_ bytes: UnsafeRawBufferPointer, _ limit: Int, _ out: inout ByteBuffer) -> Outcome {
        guard bytes.count <= Int(UInt32.max) else { return .tooBig }
        stream.setInput(bytes)
        while true {
            // One byte past the limit tells that there's more.
            let room = min(max(out.count, Self.stepMin), limit - out.count + 1)
            stream.setOutput(out.reserve(room), room)
            let result = CZlib.inflate(stream, Z_SYNC_FLUSH)
            out.advance(by: room - Int(stream.pointee.avail_out))
            if out.count > limit { return .tooBig }
            switch result {
            case Z_STREAM_END:
                // A final block, after which another stream begins at the next byte (§7.2.3.4). The window stays: a sender may still refer
                // to what it sent before.
                inflateResetKeep(stream)
                stream.pointee.data_type = 128
                if stream.pointee.avail_in == 0 { return .message }
            case Z_OK, Z_BUF_ERROR:
                if stream.pointee.avail_in == 0 && stream.pointee.avail_out > 0 { return .message }
                // No progress with room and input would be a loop for ever.
                if result == Z_BUF_ERROR && stream.pointee.avail_out > 0 { return .malformed }
            default: return .malformed
            }
        }
    }
}
