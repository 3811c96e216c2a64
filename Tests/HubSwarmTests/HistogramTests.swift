import HubBase
import HubSwarm
import Testing

@Suite("The latency histogram")
struct HistogramTests {
    /// Values over all magnitudes, small ones with the same weight as large ones.
    private static func values(_ count: Int, seed: UInt64) -> [UInt64] {
        var chance = Chance(seed: seed)
        return (0..<count).map { _ in chance.next() >> UInt64.random(in: 22...63, using: &chance) }
    }

    @Test("percentiles agree with a sorted twin to a thousandth, and are never too small", arguments: [1, 2, 3, 4, 5])
    func twin(_ seed: UInt64) {
        let values = Self.values(10_000, seed: seed)
        let sorted = values.sorted()
        var histogram = Histogram()
        for value in values { histogram.record(value) }
        for percent in [0, 0.01, 1, 10, 50, 90, 99, 99.9, 99.99, 100] {
            let rank = max(Int((Double(sorted.count) * percent / 100).rounded(.up)), 1)
            let exact = sorted[rank - 1]
            let found = histogram.percentile(percent)
            #expect(found >= exact)
            #expect(found - exact <= exact / 1000, "\(percent) %: \(found) for \(exact)")
        }
        #expect(histogram.max == sorted.last)
        #expect(histogram.count == 10_000)
    }

    @Test("values below 2,048 are exact")
    func small() {
        for value in [0, 1, 2, 1023, 1024, 2047] as [UInt64] {
            var histogram = Histogram()
            histogram.record(value)
            histogram.record(1 << 40)
            #expect(histogram.percentile(50) == value)
        }
    }

    @Test("what was merged is what would have been recorded in one")
    func merge() {
        let values = Self.values(5000, seed: 9)
        var whole = Histogram()
        var left = Histogram()
        var right = Histogram()
        for (index, value) in values.enumerated() {
            whole.record(value)
            if index % 3 == 0 { left.record(value) } else { right.record(value) }
        }
        left.merge(right)
        #expect(left == whole)
        left.removeAll()
        #expect(left == Histogram())
    }

    @Test("a value above the range counts at its end, and the maximum stays exact")
    func above() {
        var histogram = Histogram()
        histogram.record(.max)
        #expect(histogram.max == .max)
        #expect(histogram.percentile(50) == Histogram.valueMax)
    }

    @Test("an empty one says zero")
    func empty() {
        #expect(Histogram().percentile(99) == 0)
        #expect(Histogram().max == 0)
    }
}
