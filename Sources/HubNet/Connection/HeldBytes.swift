import HubBase

/// A growing run of bytes outside the connection, freed as soon as it's worked off.
struct HeldBytes {
    var count: Int
    var capacity: Int

    private static let headerBytes = 32

    static func make(capacity: Int) -> UnsafeMutablePointer<HeldBytes> {
        let raw = UnsafeMutableRawPointer.allocate(byteCount: headerBytes + capacity, alignment: 16)
        let held = raw.bindMemory(to: HeldBytes.self, capacity: 1)
        held.initialize(to: HeldBytes(count: 0, capacity: capacity))
        return held
    }

    static func free(_ held: inout UnsafeMutablePointer<HeldBytes>?) {
        if let memory = held { UnsafeMutableRawPointer(memory).deallocate() }
        held = nil
    }

    static func memory(_ held: UnsafeMutablePointer<HeldBytes>) -> Int { headerBytes + held.pointee.capacity }

    static func bytes(_ held: UnsafeMutablePointer<HeldBytes>) -> UnsafeMutableRawPointer { UnsafeMutableRawPointer(held) + headerBytes }

    static func buffer(_ held: UnsafeMutablePointer<HeldBytes>) -> UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(start: bytes(held), count: held.pointee.count)
    }

    /// Makes room for `capacity` bytes in all.
    static func grow(_ held: inout UnsafeMutablePointer<HeldBytes>?, capacity: Int) {
        guard let old = held else {
            held = make(capacity: capacity)
            return
        }
        guard capacity > old.pointee.capacity else { return }
        let next = make(capacity: capacity)
        bytes(next).copyMemory(from: bytes(old), byteCount: old.pointee.count)
        next.pointee.count = old.pointee.count
        UnsafeMutableRawPointer(old).deallocate()
        held = next
    }

    /// Appends, growing by doubling but not past `limit` unless the bytes need it.
    static func append(
        _ held: inout UnsafeMutablePointer<HeldBytes>?, _ source: UnsafeRawBufferPointer, limit: Int
    ) {
        guard let from = source.baseAddress, source.count > 0 else { return }
        let count = held?.pointee.count ?? 0
        let needed = count + source.count
        if needed > held?.pointee.capacity ?? 0 { grow(&held, capacity: max(needed, min(count * 2, limit))) }
        guard let held else { return }
        (bytes(held) + count).copyMemory(from: from, byteCount: source.count)
        held.pointee.count = needed
    }

    /// Drops the first bytes.
    static func removeFirst(_ held: UnsafeMutablePointer<HeldBytes>, _ length: Int) {
        let rest = held.pointee.count - length
        precondition(length >= 0 && rest >= 0, "dropped more than is held")
        if rest > 0 { bytes(held).copyMemory(from: bytes(held) + length, byteCount: rest) }
        held.pointee.count = rest
    }
}
