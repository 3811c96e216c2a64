import HubBase

/// Byte strings to small dense indexes, looked up without allocating.
///
/// What is put in are names of Redis, which end with a name of ours that whoever has the table keeps anyway, by the same index: so nothing is
/// held here of a name but two bytes, the number of what stands before its tail, of which there are some for each partition. The seed keeps
/// clients, who choose the names, from choosing collisions.
package struct ByteTable {
    /// What names begin with.
    private struct Head {
        var bytes: [UInt8]
        /// All of a name that doesn't end with what's kept of it.
        var isWhole: Bool
    }

    private let seed: UInt64
    /// By index, the place of its head.
    private var lines: [UInt16] = []
    private var free: [UInt32] = []
    private var table = PlaceTable()
    private var heads: [Head] = []
    private var headPlaces: [[UInt8]: UInt16] = [:]

    package init(seed: UInt64) { self.seed = seed }

    package var count: Int { table.count }
    /// One past the largest index that was ever given out.
    package var bound: Int { lines.count }
    /// What names begin with, each kept for good.
    package var headCount: Int { heads.count }

    /// `tail`: of the name that has an index, as it was given to `insert`.
    package func name(_ index: Int, tail: [UInt8]) -> [UInt8] {
        let head = heads[Int(lines[index])]
        return head.isWhole ? head.bytes : head.bytes + tail
    }

    /// `tails`: of names by index; asked of few.
    @inline(__always) package func find(_ bytes: UnsafeRawBufferPointer, tails: (Int) -> [UInt8]) -> Int? {
        table.find(PlaceTable.hash(bytes, seed: seed)) { isNamed($0, bytes, tails) }
    }

    package func find(_ name: [UInt8], tails: (Int) -> [UInt8]) -> Int? { name.withUnsafeBytes { find($0, tails: tails) } }

    /// Gives a name that isn't in the table the smallest free index there is. `tail`: how it ends; a name that ends otherwise is kept whole, for
    /// good: of those there may be a few. `tails` is asked of the others alone.
    package mutating func insert(_ name: [UInt8], tail: [UInt8], tails: (Int) -> [UInt8]) -> Int {
        let isWhole = tail.isEmpty || name.count < tail.count || !name.suffix(tail.count).elementsEqual(tail)
        let line = head(isWhole ? name : Array(name.prefix(name.count - tail.count)), isWhole: isWhole)
        let index: Int
        if let reused = free.popLast() {
            index = Int(reused)
            lines[index] = line
        } else {
            index = lines.count
            lines.append(line)
        }
        let (lines, heads, seed) = (lines, heads, seed)
        table.insert(index, name.withUnsafeBytes { PlaceTable.hash($0, seed: seed) }) {
            ByteTable.hash(heads[Int(lines[$0])], tails($0), seed)
        }
        return index
    }

    package mutating func remove(_ index: Int, tails: (Int) -> [UInt8]) {
        let (lines, heads, seed) = (lines, heads, seed)
        table.remove(index, ByteTable.hash(heads[Int(lines[index])], tails(index), seed)) {
            ByteTable.hash(heads[Int(lines[$0])], tails($0), seed)
        }
        free.append(UInt32(truncatingIfNeeded: index))
    }

    private mutating func head(_ bytes: [UInt8], isWhole: Bool) -> UInt16 {
        // The same bytes may be all of one name and the beginning of others.
        let key = bytes + [isWhole ? 1 : 0]
        if let place = headPlaces[key] { return place }
        let place = UInt16(heads.count)
        heads.append(Head(bytes: bytes, isWhole: isWhole))
        headPlaces[key] = place
        return place
    }

    /// As of the whole name: FNV goes on where it ended.
    private static func hash(_ head: Head, _ tail: [UInt8], _ seed: UInt64) -> UInt64 {
        guard !head.isWhole else { return head.bytes.withUnsafeBytes { PlaceTable.hash($0, seed: seed) } }
        let begun = head.bytes.withUnsafeBytes { FNV1a.hash($0, seed: seed) }
        return tail.withUnsafeBytes { PlaceTable.hash($0, seed: begun) }
    }

    private func isNamed(_ index: Int, _ bytes: UnsafeRawBufferPointer, _ tails: (Int) -> [UInt8]) -> Bool {
        let head = heads[Int(lines[index])]
        guard bytes.count >= head.bytes.count,
            head.bytes.withUnsafeBytes({ ByteTable.isSame(UnsafeRawBufferPointer(rebasing: bytes[..<$0.count]), $0) })
        else { return false }
        let rest = UnsafeRawBufferPointer(rebasing: bytes[head.bytes.count...])
        if head.isWhole { return rest.isEmpty }
        return tails(index).withUnsafeBytes { ByteTable.isSame(rest, $0) }
    }

    private static func isSame(_ one: UnsafeRawBufferPointer, _ other: UnsafeRawBufferPointer) -> Bool {
        guard one.count == other.count, let left = one.baseAddress, let right = other.baseAddress else { return one.count == other.count }
        return equalBytes(left, right, one.count)
    }
}
