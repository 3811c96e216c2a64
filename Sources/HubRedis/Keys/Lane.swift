import HubCore

/// What moves from one master to another as a whole. All keys of a partition share one hash slot (redis-design §1), so of a cluster's
/// 16,384 slots only those of the partitions and of the two keys beside them matter: 258 lanes.
package enum Lane {
    /// 0..<256 are the partitions.
    package static let configuration = Partition.count
    package static let nodes = Partition.count + 1
    package static let count = Partition.count + 2
    /// Of what concerns several lanes, or none.
    package static let several = -1
}

/// Some of the lanes. A value of 64 bytes, without allocation.
package struct LaneSet: Equatable, Sendable {
    private var words = SIMD8<UInt64>(repeating: 0)

    package init() {}

    package static let all: LaneSet = {
        var set = LaneSet()
        for lane in 0..<Lane.count { set.insert(lane) }
        return set
    }()

    package init(_ lane: Int) { insert(lane) }

    package var isEmpty: Bool { words == SIMD8<UInt64>(repeating: 0) }

    package func contains(_ lane: Int) -> Bool { words[lane >> 6] & (1 << UInt64(lane & 63)) != 0 }

    package mutating func insert(_ lane: Int) { words[lane >> 6] |= 1 << UInt64(lane & 63) }
    package mutating func remove(_ lane: Int) { words[lane >> 6] &= ~(1 << UInt64(lane & 63)) }

    package func intersection(_ other: LaneSet) -> LaneSet {
        var result = self
        result.words &= other.words
        return result
    }

    package func subtracting(_ other: LaneSet) -> LaneSet {
        var result = self
        result.words &= ~other.words
        return result
    }

    /// The lowest one.
    package var first: Int? {
        for index in 0..<8 where words[index] != 0 { return index << 6 + words[index].trailingZeroBitCount }
        return nil
    }

    /// The lowest one that isn't below `lane`, or the lowest of all.
    package func first(from lane: Int) -> Int? {
        var rest = self
        for index in 0..<lane >> 6 { rest.words[index] = 0 }
        rest.words[lane >> 6] &= ~0 << UInt64(lane & 63)
        return rest.first ?? first
    }
}

extension LaneSet: Sequence {
    package struct Iterator: IteratorProtocol {
        var rest: LaneSet

        package mutating func next() -> Int? {
            guard let first = rest.first else { return nil }
            rest.remove(first)
            return first
        }
    }

    package func makeIterator() -> Iterator { Iterator(rest: self) }
}
