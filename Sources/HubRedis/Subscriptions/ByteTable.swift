import HubBase

/// Byte strings to small dense indexes, looked up without allocating.
///
/// What is put in are names of Redis, which end with a name of ours that's kept elsewhere already: of each only its tail is held, in common
/// with its other holders, and a number for what stands before it, of which there are some for each partition. The seed keeps clients,
/// who choose the names, from choosing collisions.
package struct ByteTable {
    private struct Line {
        var tail: [UInt8] = []
        /// Among `heads`.
        var head: UInt32 = 0
    }

    private let seed: UInt64
    private var lines: [Line] = []
    private var free: [UInt32] = []
    private var table = PlaceTable()
    private var heads: [[UInt8]] = []
    private var headPlaces: [[UInt8]: UInt32] = [:]

    package init(seed: UInt64) { self.seed = seed }

    package var count: Int { table.count }
    /// One past the largest index that was ever given out.
    package var bound: Int { lines.count }

    package func name(_ index: Int) -> [UInt8] { heads[Int(lines[index].head)] + lines[index].tail }

    package func find(_ bytes: UnsafeRawBufferPointer) -> Int? {
        table.find(PlaceTable.hash(bytes, seed: seed)) { isNamed($0, bytes) }
    }

    package func find(_ name: [UInt8]) -> Int? { name.withUnsafeBytes { find($0) } }

    /// Gives a name that isn't in the table the smallest free index there is. `tail`: how it ends, where that is kept anyway.
    package mutating func insert(_ name: [UInt8], tail: [UInt8] = []) -> Int {
        let isTail = name.count >= tail.count && name.suffix(tail.count).elementsEqual(tail)
        let line = Line(tail: isTail ? tail : [], head: head(Array(name.prefix(name.count - (isTail ? tail.count : 0)))))
        let index: Int
        if let reused = free.popLast() {
            index = Int(reused)
            lines[index] = line
        } else {
            index = lines.count
            lines.append(line)
        }
        let (lines, heads, seed) = (lines, heads, seed)
        table.insert(index, hash(index)) { ByteTable.hash(lines[$0], heads, seed) }
        return index
    }

    package mutating func remove(_ index: Int) {
        takeOut(index)
        lines[index] = Line()
        free.append(UInt32(truncatingIfNeeded: index))
    }

    private mutating func takeOut(_ index: Int) {
        let (lines, heads, seed) = (lines, heads, seed)
        table.remove(index, hash(index)) { ByteTable.hash(lines[$0], heads, seed) }
    }

    private mutating func head(_ bytes: [UInt8]) -> UInt32 {
        if let place = headPlaces[bytes] { return place }
        let place = UInt32(heads.count)
        heads.append(bytes)
        headPlaces[bytes] = place
        return place
    }

    /// As of the whole name: FNV goes on where it ended.
    private static func hash(_ line: Line, _ heads: [[UInt8]], _ seed: UInt64) -> UInt64 {
        let head = heads[Int(line.head)].withUnsafeBytes { FNV1a.hash($0, seed: seed) }
        return line.tail.withUnsafeBytes { PlaceTable.hash($0, seed: head) }
    }

    private func hash(_ index: Int) -> UInt64 { ByteTable.hash(lines[index], heads, seed) }

    private func isNamed(_ index: Int, _ bytes: UnsafeRawBufferPointer) -> Bool {
        let head = heads[Int(lines[index].head)]
        let tail = lines[index].tail
        guard head.count + tail.count == bytes.count else { return false }
        return head.withUnsafeBytes { UnsafeRawBufferPointer(rebasing: bytes[..<$0.count]).elementsEqual($0) }
            && tail.withUnsafeBytes { UnsafeRawBufferPointer(rebasing: bytes[head.count...]).elementsEqual($0) }
    }
}
