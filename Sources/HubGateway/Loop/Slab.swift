/// Values that wait for an answer, found again by a number of 64 bits: the place, and a generation so that a late answer finds nothing
/// rather than another's. Dense and reused; no hashing.
package struct Slab<Value> {
    package init() {}

    private var values: [Value?] = []
    private var generations: [UInt32] = []
    private var free: [UInt32] = []
    package private(set) var count = 0

    /// Never 0, which is `RequestTag.none`.
    package mutating func insert(_ value: Value) -> UInt64 {
        count += 1
        if let place = free.popLast() {
            values[Int(place)] = value
            return key(Int(place))
        }
        values.append(value)
        generations.append(1)
        return key(values.count - 1)
    }

    package mutating func remove(_ key: UInt64) -> Value? {
        guard let place = place(of: key), let value = values[place] else { return nil }
        values[place] = nil
        generations[place] &+= 1
        if generations[place] == 0 { generations[place] = 1 }
        free.append(UInt32(place))
        count -= 1
        return value
    }

    /// Changes a value in place; nil when there's none under that key.
    package mutating func update<Result>(_ key: UInt64, _ body: (inout Value) -> Result) -> Result? {
        guard let place = place(of: key), values[place] != nil else { return nil }
        return body(&values[place]!)
    }

    private func key(_ place: Int) -> UInt64 { UInt64(generations[place]) << 32 | UInt64(place) }

    private func place(of key: UInt64) -> Int? {
        let place = Int(key & 0xFFFF_FFFF)
        guard place < values.count, generations[place] == UInt32(key >> 32) else { return nil }
        return place
    }
}
