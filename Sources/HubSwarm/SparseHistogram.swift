/// A `Histogram` without its empty counters: what is kept of each second, written to files and sent between processes. Merging loses
/// nothing. 12 bytes for each counter in use; a second's latencies use some hundreds.
package struct SparseHistogram: Sendable, Equatable {
    /// Ascending, each below `Histogram.countersCount`.
    private(set) var indices: [UInt32] = []
    /// None is 0; as many as `indices`.
    private(set) var counters: [UInt64] = []
    package private(set) var count: UInt64 = 0
    /// Exact; 0 when empty.
    package private(set) var max: UInt64 = 0

    package init() {}

    package init(_ full: Histogram) {
        for (index, counter) in full.counters.enumerated() where counter > 0 {
            indices.append(UInt32(index))
            counters.append(counter)
        }
        count = full.count
        max = full.max
    }

    package mutating func merge(_ other: SparseHistogram) {
        guard !other.indices.isEmpty else { return }
        var sumIndices: [UInt32] = []
        var sumCounters: [UInt64] = []
        sumIndices.reserveCapacity(indices.count + other.indices.count)
        sumCounters.reserveCapacity(indices.count + other.indices.count)
        var left = 0
        var right = 0
        while left < indices.count || right < other.indices.count {
            let mine = left < indices.count ? indices[left] : .max
            let theirs = right < other.indices.count ? other.indices[right] : .max
            sumIndices.append(min(mine, theirs))
            sumCounters.append((mine <= theirs ? counters[left] : 0) + (theirs <= mine ? other.counters[right] : 0))
            if mine <= theirs { left += 1 }
            if theirs <= mine { right += 1 }
        }
        indices = sumIndices
        counters = sumCounters
        count += other.count
        max = Swift.max(max, other.max)
    }

    /// As `Histogram.percentile`: the upper end of the counter, at most a thousandth too large, never too small.
    package func percentile(_ percent: Double) -> UInt64 {
        guard count > 0 else { return 0 }
        let rank = Swift.max((Double(count) * Swift.min(Swift.max(percent, 0), 100) / 100).rounded(.up), 1)
        var passed: UInt64 = 0
        for (index, counter) in zip(indices, counters) {
            passed += counter
            if Double(passed) >= rank { return Swift.min(Histogram.highest(at: Int(index)), max) }
        }
        return max
    }

    /// Ascending upper ends of the counters in use, with how many values each holds; for plots.
    package var steps: [(value: UInt64, count: UInt64)] {
        zip(indices, counters).map { (Swift.min(Histogram.highest(at: Int($0)), max), $1) }
    }
}

extension SparseHistogram: Codable {
    private enum Key: String, CodingKey { case indices = "at", counters = "count", max }

    package func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: Key.self)
        try fields.encode(indices, forKey: .indices)
        try fields.encode(counters, forKey: .counters)
        try fields.encode(max, forKey: .max)
    }

    /// From a file or another process: nothing in it is believed.
    package init(from decoder: any Decoder) throws {
        let fields = try decoder.container(keyedBy: Key.self)
        indices = try fields.decode([UInt32].self, forKey: .indices)
        counters = try fields.decode([UInt64].self, forKey: .counters)
        max = try fields.decode(UInt64.self, forKey: .max)
        func refuse(_ key: Key, _ why: String) -> DecodingError {
            .dataCorruptedError(forKey: key, in: fields, debugDescription: why)
        }
        guard indices.count == counters.count else { throw refuse(.counters, "not as many counters as places") }
        for (place, index) in indices.enumerated() {
            guard index < Histogram.countersCount, place == 0 || index > indices[place - 1] else {
                throw refuse(.indices, "a histogram's places aren't ascending, or past its end")
            }
        }
        for counter in counters {
            // Sums of thousands of such histograms stay below 2^63.
            let (sum, overflow) = count.addingReportingOverflow(counter)
            guard counter > 0, !overflow, sum <= Measures.countMax else {
                throw refuse(.counters, "a histogram's counter is 0 or too large")
            }
            count = sum
        }
        // The largest value lies in the last counter, or past the last there is.
        guard let last = indices.last.map(Int.init) else {
            guard max == 0 else { throw refuse(.max, "an empty histogram has a largest value") }
            return
        }
        guard Histogram.index(of: Swift.min(max, Histogram.valueMax)) == last else {
            throw refuse(.max, "a histogram's largest value isn't in its last counter")
        }
    }
}
