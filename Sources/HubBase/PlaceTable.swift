/// Finds places in a list by the hashes of their names, which stay in the list: five bytes a slot, and no second copy of a key.
///
/// Open addressing with linear probing, at most three quarters full; removing shifts back, so that there are no tombstones and churn never
/// slows look-ups. Beside each place stands a byte of its hash, so that nearly every name that's looked at is the one that was asked for.
/// Whoever owns the list hashes: with a secret seed (`secret`) where clients choose the names, since a known hash would let them fill one
/// probe chain.
package struct PlaceTable {
    /// A place and one; 0: empty. A power of two of them.
    @usableFromInline private(set) var slots: [UInt32]
    @usableFromInline private(set) var tags: [UInt8]
    package private(set) var count = 0

    package init() {
        slots = [UInt32](repeating: 0, count: 16)
        tags = [UInt8](repeating: 0, count: 16)
    }

    /// A seed that nobody outside the process knows. It's the one that Swift's own dictionaries are seeded from, so nothing is drawn here.
    package static var secret: UInt64 {
        var hasher = Hasher()
        hasher.combine("PlaceTable")
        return UInt64(bitPattern: Int64(hasher.finalize()))
    }

    @inlinable package static func hash(_ name: UnsafeRawBufferPointer, seed: UInt64) -> UInt64 {
        let hash = FNV1a.hash(name, seed: seed)
        // FNV's low bits alone are weak for a power of two.
        return hash ^ (hash >> 29)
    }

    @inlinable package static func hash(_ name: Name, seed: UInt64) -> UInt64 { name.bytes.withUnsafeBytes { hash($0, seed: seed) } }

    @inlinable package static func hash(_ number: UInt64, seed: UInt64) -> UInt64 {
        var hash = (number ^ seed) &* 0x9E37_79B9_7F4A_7C15
        hash ^= hash >> 32
        return hash &* 0xD6E8_FEB8_6659_FD93
    }

    @inlinable package static func tag(_ hash: UInt64) -> UInt8 { UInt8(truncatingIfNeeded: hash >> 56) }

    /// The place with that hash of which `isIt` says that it has the name.
    @inlinable package func find(_ hash: UInt64, where isIt: (Int) -> Bool) -> Int? {
        let mask = slots.count - 1
        let tag = Self.tag(hash)
        var slot = Int(truncatingIfNeeded: hash) & mask
        while slots[slot] != 0 {
            if tags[slot] == tag && isIt(Int(slots[slot]) - 1) { return Int(slots[slot]) - 1 }
            slot = (slot + 1) & mask
        }
        return nil
    }

    /// Adds a place that isn't in it. `hashOf`: of those that are.
    package mutating func insert(_ place: Int, _ hash: UInt64, hashOf: (Int) -> UInt64) {
        precondition(place >= 0 && place < Int(UInt32.max), "place \(place)")
        if (count + 1) * 4 > slots.count * 3 { grow(hashOf) }
        put(place, hash)
        count += 1
    }

    /// Takes out a place that is in it.
    package mutating func remove(_ place: Int, _ hash: UInt64, hashOf: (Int) -> UInt64) {
        let mask = slots.count - 1
        var hole = Int(truncatingIfNeeded: hash) & mask
        while Int(slots[hole]) != place + 1 {
            precondition(slots[hole] != 0, "place \(place) isn't in the table")
            hole = (hole + 1) & mask
        }
        slots[hole] = 0
        var next = (hole + 1) & mask
        while slots[next] != 0 {
            let home = Int(truncatingIfNeeded: hashOf(Int(slots[next]) - 1)) & mask
            // It may move into the hole unless its home lies between the hole and itself.
            if (next - home) & mask >= (next - hole) & mask {
                slots[hole] = slots[next]
                tags[hole] = tags[next]
                slots[next] = 0
                hole = next
            }
            next = (next + 1) & mask
        }
        count -= 1
    }

    private mutating func put(_ place: Int, _ hash: UInt64) {
        let mask = slots.count - 1
        var slot = Int(truncatingIfNeeded: hash) & mask
        while slots[slot] != 0 { slot = (slot + 1) & mask }
        slots[slot] = UInt32(truncatingIfNeeded: place + 1)
        tags[slot] = Self.tag(hash)
    }

    private mutating func grow(_ hashOf: (Int) -> UInt64) {
        let old = slots
        slots = [UInt32](repeating: 0, count: old.count * 2)
        tags = [UInt8](repeating: 0, count: old.count * 2)
        for slot in old where slot != 0 { put(Int(slot) - 1, hashOf(Int(slot) - 1)) }
    }
}
