import CZlib
import HubBase

/// Compresses messages (RFC 7692 §7.2.1). One for each loop and window serves all connections without takeover: it's lent for a message and
/// begins anew with the next. With takeover a connection owns one, and its messages go on from what went before.
package struct Deflater: ~Copyable {
    private let stream: ZStream

    /// zlib's default. Measured from 128 B to 4 KB: smaller tables, which a reset would clear sooner, cost more than they save; larger ones
    /// gain nothing.
    private static let memoryLevel: Int32 = 8

    /// nil when there's no memory for it: about 2^(windowBits + 2) + 2^17 bytes.
    package init?(level: Int, windowBits: UInt8) {
        stream = ZStream.make()
        let result = deflateInit2_(
            stream, Int32(clamping: level), Z_DEFLATED, -Int32(windowBits), Self.memoryLevel, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
            Int32(MemoryLayout<z_stream>.size))
        guard result == Z_OK else {
            stream.deallocate()
            return nil
        }
    }

    deinit {
        deflateEnd(stream)
        stream.deallocate()
    }

    /// What one costs, for the budget (zconf.h: 1 << (windowBits + 2), 1 << (memLevel + 9), and some KB of zlib's own).
    static func cost(windowBits: UInt8) -> Int { 1 << (Int(windowBits) + 2) + 1 << (Int(memoryLevel) + 9) + 6 * 1024 }

    /// Appends the compressed form of `payload`, without the flush's last four bytes; returns how many bytes it has, or nil, with nothing
    /// appended, when it would be no shorter than the payload: the message goes out as it is then, and what comes after begins anew.
    /// Cost: about 4 µs and 8 ns a byte at level 1.
    package func deflate(_ payload: UnsafeRawBufferPointer, into out: inout ByteBuffer) -> Int? {
        guard payload.count > 0, payload.count <= Int(UInt32.max) - 16 else { return nil }
        // Room for one byte less than the payload, the flush's end, and one more, by whose being left it's known that all is out.
        let room = payload.count - 1 + FlushTail.count + 1
        stream.setInput(payload)
        stream.setOutput(out.reserve(room), room)
        let result = CZlib.deflate(stream, Z_SYNC_FLUSH)
        let written = room - Int(stream.pointee.avail_out)
        guard result == Z_OK, stream.pointee.avail_in == 0, stream.pointee.avail_out > 0, written > FlushTail.count else {
            reset()
            return nil
        }
        out.advance(by: written - FlushTail.count)
        return written - FlushTail.count
    }

    /// Forgets what went before.
    package func reset() { deflateReset(stream) }
}
