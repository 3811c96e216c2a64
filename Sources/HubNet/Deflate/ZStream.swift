import CZlib

/// Memory for one of zlib's streams, at an address that never changes (zlib's state points back at it).
typealias ZStream = UnsafeMutablePointer<z_stream>

extension ZStream {
    static func make() -> ZStream {
        let stream = ZStream.allocate(capacity: 1)
        stream.initialize(to: z_stream())
        return stream
    }

    func setInput(_ bytes: UnsafeRawBufferPointer) {
        // zlib's input isn't const where ZLIB_CONST isn't defined, but it's only read.
        pointee.next_in = UnsafeMutableRawPointer(mutating: bytes.baseAddress)?.assumingMemoryBound(to: UInt8.self)
        pointee.avail_in = UInt32(bytes.count)
    }

    func setOutput(_ target: UnsafeMutableRawPointer, _ count: Int) {
        pointee.next_out = target.assumingMemoryBound(to: UInt8.self)
        pointee.avail_out = UInt32(count)
    }
}

/// The last four bytes of a flush, 00 00 FF FF: messages go without them (RFC 7692 §7.2.1).
enum FlushTail {
    static let count = 4

    static func withBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        withUnsafeBytes(of: UInt32(0xFFFF_0000).littleEndian, body)
    }
}
