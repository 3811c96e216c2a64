/// Where a field lies in a message that was scanned in place. Eight bytes; "absent" is a value of its own.
package struct ByteRange: Hashable, Sendable {
    @usableFromInline package var offset: UInt32
    @usableFromInline package var count: UInt32

    @inlinable package init(offset: Int, count: Int) {
        self.offset = UInt32(truncatingIfNeeded: offset)
        self.count = UInt32(truncatingIfNeeded: count)
    }

    package static let absent = ByteRange(offset: 0xFFFF_FFFF, count: 0)

    @inlinable package var isPresent: Bool { offset != 0xFFFF_FFFF }

    /// The bytes of this range in `message`; traps when the range isn't one of that message.
    @inlinable package func bytes(in message: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        guard isPresent else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        return UnsafeRawBufferPointer(rebasing: message[Int(offset)..<Int(offset) + Int(count)])
    }
}
