import HubBase

/// Byte strings to small dense indexes, looked up without allocating. Open addressing with linear probing; removing shifts back, so
/// there are no tombstones. The seed keeps clients, who choose the names, from choosing collisions.
package struct ByteTable {
    private let seed: UInt64
    private var names: [[UInt8]] = []
    private var free: [Int] = []
    /// Indexes into `names`, or -1; a power of two of them, at most half full.
    private var slots: [Int32]
    package private(set) var count = 0

    package init(seed: UInt64) {
        self.seed = seed
        slots = [Int32](repeating: -1, count: 16)
    }

    /// One past the largest index that was ever given out.
    package var bound: Int { names.count }

    package func name(_ index: Int) -> [UInt8] { names[index] }

    package func find(_ bytes: UnsafeRawBufferPointer) -> Int? {
        var slot = home(bytes)
        while true {
            let index = Int(slots[slot])
            if index < 0 { return nil }
            if names[index].count == bytes.count && names[index].withUnsafeBytes({ equal($0, bytes) }) { return index }
            slot = (slot + 1) & (slots.count - 1)
        }
    }

    package func find(_ name: [UInt8]) -> Int? { name.withUnsafeBytes { find($0) } }

    /// Gives a name that isn't in the table the smallest free index there is.
    package mutating func insert(_ name: [UInt8]) -> Int {
        if (count + 1) * 2 > slots.count { grow() }
        let index: Int
        if let reused = free.popLast() {
            index = reused
            names[index] = name
        } else {
            index = names.count
            names.append(name)
        }
        place(index)
        count += 1
        return index
    }

    package mutating func remove(_ index: Int) {
        var hole = home(names[index])
        while Int(slots[hole]) != index { hole = (hole + 1) & (slots.count - 1) }
        slots[hole] = -1
        // Whatever was pushed past the hole moves into it.
        var next = (hole + 1) & (slots.count - 1)
        while slots[next] >= 0 {
            let wanted = home(names[Int(slots[next])])
            if ((next &- wanted) & (slots.count - 1)) >= ((next &- hole) & (slots.count - 1)) {
                slots[hole] = slots[next]
                slots[next] = -1
                hole = next
            }
            next = (next + 1) & (slots.count - 1)
        }
        names[index] = []
        free.append(index)
        count -= 1
    }

    private func home(_ bytes: UnsafeRawBufferPointer) -> Int {
        var hash = FNV1a.hash(bytes, seed: seed)
        // FNV's low bits alone are weak for a power of two.
        hash ^= hash >> 32
        return Int(truncatingIfNeeded: hash) & (slots.count - 1)
    }

    private func home(_ name: [UInt8]) -> Int { name.withUnsafeBytes { home($0) } }

    private func equal(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool { left.elementsEqual(right) }

    private mutating func place(_ index: Int) {
        var slot = home(names[index])
        while slots[slot] >= 0 { slot = (slot + 1) & (slots.count - 1) }
        slots[slot] = Int32(truncatingIfNeeded: index)
    }

    private mutating func grow() {
        let old = slots
        slots = [Int32](repeating: -1, count: old.count * 2)
        for index in old where index >= 0 { place(Int(index)) }
    }
}
