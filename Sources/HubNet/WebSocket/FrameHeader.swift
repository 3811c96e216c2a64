/// Reads one frame's header from the wire (RFC 6455 §5.2), byte by byte as far as it's there: each function judges what it can without
/// knowing what came before.
///
/// ```
///   byte 0          byte 1          2 …
///  +-+-+-+-+-------+-+-------------+------------------+---------------+
///  |F|R|R|R|opcode |M|  length     |  length, if 126  |  masking key, |
///  |I|S|S|S|       |A|  0 … 125    |  (2 bytes) or    |  if masked    |
///  |N|V|V|V|       |S|             |  127 (8 bytes)   |  (4 bytes)    |
///  +-+-+-+-+-------+-+-------------+------------------+---------------+
/// ```
enum FrameHeader {
    struct First {
        var opcode: Opcode
        var isFinal: Bool
        var isCompressed: Bool
    }

    enum FirstReading {
        case first(First)
        case fault(StaticString)
    }

    @inline(__always)
    static func readFirst(_ byte: UInt8) -> FirstReading {
        if byte & 0x30 != 0 { return .fault("RSV2 or RSV3 is set") }
        guard let opcode = Opcode(rawValue: byte & 0x0F) else { return .fault("a reserved opcode") }
        let first = First(opcode: opcode, isFinal: byte & 0x80 != 0, isCompressed: byte & 0x40 != 0)
        if opcode.isControl {
            if !first.isFinal { return .fault("a fragmented control frame") }
            if first.isCompressed { return .fault("RSV1 is set on a control frame") }
        }
        return .first(first)
    }

    enum LengthReading {
        /// The payload's length, below 2^63, and the header's.
        case length(UInt64, headerBytes: Int)
        /// Bytes that the header takes at least.
        case needMore(Int)
        case fault(StaticString)
    }

    /// Reads from the second byte on; `count` is at least 1.
    @inline(__always)
    static func readLength(_ base: UnsafeRawPointer, count: Int, isControl: Bool, isMasked: Bool) -> LengthReading {
        guard count > 1 else { return .needMore(2) }
        let second = base.load(fromByteOffset: 1, as: UInt8.self)
        if (second & 0x80 != 0) != isMasked { return .fault(isMasked ? "a client's frame isn't masked" : "a server's frame is masked") }
        let short = second & 0x7F
        let keyBytes = isMasked ? 4 : 0
        if short < 126 { return .length(UInt64(short), headerBytes: 2 &+ keyBytes) }
        if isControl { return .fault("a control frame of more than 125 bytes") }
        if short == 126 {
            let headerBytes = 4 &+ keyBytes
            guard count >= 4 else { return .needMore(headerBytes) }
            let length = UInt16(bigEndian: base.loadUnaligned(fromByteOffset: 2, as: UInt16.self))
            if length < 126 { return .fault("a length that isn't in its shortest form") }
            return .length(UInt64(length), headerBytes: headerBytes)
        }
        let headerBytes = 10 &+ keyBytes
        guard count >= 10 else { return .needMore(headerBytes) }
        let length = UInt64(bigEndian: base.loadUnaligned(fromByteOffset: 2, as: UInt64.self))
        if length >> 63 != 0 { return .fault("a length of 2^63 or more") }
        if length < 65536 { return .fault("a length that isn't in its shortest form") }
        return .length(length, headerBytes: headerBytes)
    }
}

extension Opcode {
    @inline(__always) var isControl: Bool { rawValue & 0x8 != 0 }
}
