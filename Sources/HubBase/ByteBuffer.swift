/// A growable run of raw bytes with one owner: encoders append to it, sockets read from it.
///
/// Grows by doubling and never shrinks by itself, so that a loop's scratch buffers cost no allocation once warm. Not thread-safe:
/// it belongs to one loop. Offsets into it stay valid when it grows, pointers don't.
package struct ByteBuffer: ~Copyable {
    @usableFromInline package private(set) var base: UnsafeMutableRawPointer
    @usableFromInline package private(set) var capacity: Int
    /// Bytes that are filled, from the start.
    @usableFromInline package var count: Int

    @inlinable package init(capacity: Int) {
        let size = max(capacity, 16)
        self.base = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 16)
        self.capacity = size
        self.count = 0
    }

    @inlinable deinit { base.deallocate() }

    /// The filled bytes. Valid until the next append.
    @inlinable package var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: base, count: count) }

    /// Makes room for `extra` more bytes and returns where they go; `count` is unchanged until `advance(by:)`.
    @inlinable package mutating func reserve(_ extra: Int) -> UnsafeMutableRawPointer {
        if capacity - count < extra { grow(extra) }
        return base + count
    }

    @inlinable package mutating func advance(by written: Int) {
        precondition(written >= 0 && written <= capacity - count, "advanced past what was reserved")
        count += written
    }

    @usableFromInline @inline(never) package mutating func grow(_ extra: Int) {
        let size = max(capacity * 2, count + extra)
        let next = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 16)
        next.copyMemory(from: base, byteCount: count)
        base.deallocate()
        base = next
        capacity = size
    }

    @inlinable package mutating func append(_ byte: UInt8) {
        reserve(1).storeBytes(of: byte, as: UInt8.self)
        count += 1
    }

    @inlinable package mutating func append(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress, bytes.count > 0 else { return }
        reserve(bytes.count).copyMemory(from: source, byteCount: bytes.count)
        count += bytes.count
    }

    @inlinable package mutating func append(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { append($0) }
    }

    /// Appends the bytes of a literal such as `"{\"type\":\"ack\""`, without decoding it.
    @inlinable package mutating func append(_ literal: StaticString) {
        append(UnsafeRawBufferPointer(start: literal.utf8Start, count: literal.utf8CodeUnitCount))
    }

    /// Appends `value` in decimal digits.
    @inlinable package mutating func append(decimal value: UInt64) {
        let target = reserve(20)
        var digits = 1
        var rest = value / 10
        while rest > 0 {
            digits += 1
            rest /= 10
        }
        rest = value
        var place = digits
        while place > 0 {
            place -= 1
            target.storeBytes(of: UInt8(truncatingIfNeeded: 48 &+ rest % 10), toByteOffset: place, as: UInt8.self)
            rest /= 10
        }
        count += digits
    }

    @inlinable package mutating func append(decimal value: Int64) {
        if value < 0 { append(UInt8(ascii: "-")) }
        append(decimal: value.magnitude)
    }

    @inlinable package mutating func removeAll() { count = 0 }

    /// Drops the last `length` bytes.
    @inlinable package mutating func removeLast(_ length: Int) {
        precondition(length >= 0 && length <= count)
        count -= length
    }

    /// Drops the first `length` bytes and moves the rest to the front. Cost: one move of what stays.
    @inlinable package mutating func removeFirst(_ length: Int) {
        precondition(length >= 0 && length <= count)
        if length == count {
            count = 0
        } else if length > 0 {
            memmoveBytes(base, base + length, count - length)
            count -= length
        }
    }

    /// Gives memory above `limit` back when the buffer is empty, so that one large message doesn't stay paid for.
    @inlinable package mutating func trim(above limit: Int) {
        if count == 0 && capacity > limit {
            base.deallocate()
            capacity = max(limit, 16)
            base = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 16)
        }
    }

    package func copyBytes() -> [UInt8] { [UInt8](bytes) }
}

@inlinable package func memmoveBytes(_ target: UnsafeMutableRawPointer, _ source: UnsafeRawPointer, _ count: Int) {
    // UnsafeMutableRawPointer.copyMemory is documented to allow overlap.
    target.copyMemory(from: source, byteCount: count)
}
