/// Latencies with three significant digits from one nanosecond to hours, in fixed memory: the layout of HdrHistogram (Gil Tene), for its
/// two properties: recording is an index and an increment, and two histograms merge without loss.
///
/// Below 2,048 every value has a counter of its own; above, each power of two is cut into 1,024 equal parts, so a counter is never wider
/// than a thousandth of its values. 270 KB.
package struct Histogram: Sendable, Equatable {
    /// Some 73 minutes in nanoseconds; larger values count as this one, `max` keeps them exactly.
    package static let valueMax: UInt64 = 1 << 42 - 1
    static let countersCount = index(of: valueMax) + 1

    private(set) var counters: [UInt64]
    package private(set) var count: UInt64 = 0
    /// Exact; 0 when empty.
    package private(set) var max: UInt64 = 0

    package init() { counters = Array(repeating: 0, count: Self.countersCount) }

    package mutating func record(_ value: UInt64) {
        counters[Self.index(of: Swift.min(value, Self.valueMax))] += 1
        count += 1
        max = Swift.max(max, value)
    }

    package mutating func merge(_ other: Histogram) {
        for index in counters.indices { counters[index] += other.counters[index] }
        count += other.count
        max = Swift.max(max, other.max)
    }

    /// The same counts as `other`'s added one by one; its indices were checked when it was read.
    package mutating func merge(_ other: SparseHistogram) {
        for (index, counter) in zip(other.indices, other.counters) { counters[Int(index)] += counter }
        count += other.count
        max = Swift.max(max, other.max)
    }

    package mutating func removeAll() {
        for index in counters.indices { counters[index] = 0 }
        count = 0
        max = 0
    }

    /// The smallest value that `percent` (0 to 100) of all values don't pass: as the upper end of its counter, so never too small, and at
    /// most a thousandth too large. 0 when empty. Cost: one pass over the counters.
    package func percentile(_ percent: Double) -> UInt64 {
        guard count > 0 else { return 0 }
        let rank = Swift.max((Double(count) * Swift.min(Swift.max(percent, 0), 100) / 100).rounded(.up), 1)
        var passed: UInt64 = 0
        for (index, counter) in counters.enumerated() where counter > 0 {
            passed += counter
            if Double(passed) >= rank { return Swift.min(Self.highest(at: index), max) }
        }
        return max
    }

    static func index(of value: UInt64) -> Int {
        if value < 2048 { return Int(value) }
        let shift = 53 - value.leadingZeroBitCount
        return 1024 * shift + Int(value >> UInt64(shift))
    }

    static func highest(at index: Int) -> UInt64 {
        if index < 2048 { return UInt64(index) }
        let shift = UInt64(index / 1024 - 1)
        let part = UInt64(index % 1024) + 1024
        return (part + 1) << shift - 1
    }
}
