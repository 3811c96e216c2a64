/// Whether two runs of `count` bytes are the same: eight at a time, the last eight overlapping those before.
@inlinable package func equalBytes(_ one: UnsafeRawPointer, _ other: UnsafeRawPointer, _ count: Int) -> Bool {
    guard count >= 8 else {
        for place in 0..<count where one.load(fromByteOffset: place, as: UInt8.self) != other.load(fromByteOffset: place, as: UInt8.self) {
            return false
        }
        return true
    }
    var place = 0
    while true {
        let left = one.loadUnaligned(fromByteOffset: place, as: UInt64.self)
        guard left == other.loadUnaligned(fromByteOffset: place, as: UInt64.self) else { return false }
        guard place < count - 8 else { return true }
        place = min(place + 8, count - 8)
    }
}
