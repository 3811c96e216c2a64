import HubBase

/// Where a writer puts its bytes. Two of them: a buffer that grows, and memory that was reserved for the worst case.
///
/// A writer keeps its sink in registers; an `inout` buffer would be loaded and stored again around every byte.
protocol ByteSink {
    /// Bytes so far; of a buffer those before us too.
    var count: Int { get }
    /// Where the next bytes go; there's room for `extra`.
    mutating func reserve(_ extra: Int) -> UnsafeMutableRawPointer
    /// So many of the bytes that were reserved have been written.
    mutating func advance(_ written: Int)
    /// The byte at `place`, below `count`.
    mutating func increment(at place: Int)
}

/// Every byte is checked for room. Used inside `withUnsafeMutablePointer(to:)` on the buffer only.
struct BufferSink: ByteSink {
    let buffer: UnsafeMutablePointer<ByteBuffer>

    @inline(__always) var count: Int { buffer.pointee.count }
    @inline(__always) mutating func reserve(_ extra: Int) -> UnsafeMutableRawPointer { buffer.pointee.reserve(extra) }
    @inline(__always) mutating func advance(_ written: Int) { buffer.pointee.advance(by: written) }

    @inline(__always) mutating func increment(at place: Int) {
        let byte = buffer.pointee.base.load(fromByteOffset: place, as: UInt8.self)
        buffer.pointee.base.storeBytes(of: byte &+ 1, toByteOffset: place, as: UInt8.self)
    }
}

/// Nothing is checked along the way: who made it knows the most that will be written.
struct ReservedSink: ByteSink {
    let start: UnsafeMutableRawPointer
    private(set) var count = 0

    init(_ start: UnsafeMutableRawPointer) { self.start = start }

    @inline(__always) mutating func reserve(_ extra: Int) -> UnsafeMutableRawPointer { start + count }
    @inline(__always) mutating func advance(_ written: Int) { count &+= written }

    @inline(__always) mutating func increment(at place: Int) {
        start.storeBytes(of: start.load(fromByteOffset: place, as: UInt8.self) &+ 1, toByteOffset: place, as: UInt8.self)
    }
}

extension ByteSink {
    @inline(__always) mutating func put(_ byte: UInt8) {
        reserve(1).storeBytes(of: byte, as: UInt8.self)
        advance(1)
    }

    @inline(__always) mutating func put(_ literal: StaticString) { put(UnsafeRawPointer(literal.utf8Start), literal.utf8CodeUnitCount) }

    @inline(__always) mutating func put(_ source: UnsafeRawPointer, _ count: Int) {
        reserve(count).copyMemory(from: source, byteCount: count)
        advance(count)
    }

    @inline(__always) mutating func put(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress else { return }
        put(source, bytes.count)
    }

    @inline(__always) mutating func put(_ mark: Mark) {
        guard mark.raw != 0 else { return }
        reserve(8).storeBytes(of: mark.raw.littleEndian, as: UInt64.self)
        advance(8)
    }

    @inline(__always) mutating func put(_ position: Position) {
        put(position.epoch)
        put(UInt8(ascii: "."))
        put(decimal: position.offset, digits: decimalDigits(position.offset))
        put(UInt8(ascii: "."))
        put(position.tag)
    }

    @inline(__always) mutating func put(decimal value: UInt64, digits: Int) {
        let target = reserve(20)
        var rest = value
        var place = digits
        while place > 1 {
            place &-= 2
            let pair = UInt8(truncatingIfNeeded: rest % 100)
            rest /= 100
            target.storeBytes(of: 48 &+ pair / 10, toByteOffset: place, as: UInt8.self)
            target.storeBytes(of: 48 &+ pair % 10, toByteOffset: place &+ 1, as: UInt8.self)
        }
        if place == 1 { target.storeBytes(of: 48 &+ UInt8(truncatingIfNeeded: rest), as: UInt8.self) }
        advance(digits)
    }

    /// The lowest `bytes` bytes of a number, the highest first.
    @inline(__always) mutating func put(big value: UInt64, bytes: Int) {
        let target = reserve(8)
        target.storeBytes(of: (value &<< UInt64(64 &- bytes &* 8)).bigEndian, as: UInt64.self)
        advance(bytes)
    }
}

/// Four at a time: divisions in a row are what a number's text costs.
@inline(__always) func decimalDigits(_ value: UInt64) -> Int {
    var digits = 1
    var rest = value
    while rest >= 10_000 {
        rest /= 10_000
        digits &+= 4
    }
    if rest >= 1_000 { return digits &+ 3 }
    if rest >= 100 { return digits &+ 2 }
    return rest >= 10 ? digits &+ 1 : digits
}
