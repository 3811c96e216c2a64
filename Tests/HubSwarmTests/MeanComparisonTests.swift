import Glibc
import HubBase
import HubSwarm
import Testing

@Suite("Comparing two means")
struct MeanComparisonTests {
    @Test(
        "Student's quantiles, as tables have them",
        arguments: [
            (1, 0.05, 12.706), (3, 0.05, 3.182), (9, 0.05, 2.262), (18, 0.05, 2.101), (18, 0.01, 2.878), (60, 0.001, 3.460),
            (1000, 0.05, 1.962),
        ])
    func quantiles(freedom: Int, chance: Double, quantile: Double) {
        #expect(abs(StudentDistribution(freedom: freedom).quantile(beyond: chance) - quantile) < 0.0006)
    }

    @Test("few parts are believed less than many, those that resemble their neighbours less than others")
    func doubt() {
        let (first, second) = ([1.0, 2, 1, 2, 1, 2, 1, 2], [2.0, 1, 2, 1, 2, 1, 2, 1])
        let eight = MeanComparison(first, second, chance: 0.05)
        #expect(eight.first == 1.5 && eight.difference == 0 && !eight.isBeyondChance)
        #expect(MeanComparison(Array(first.prefix(4)), Array(second.prefix(4)), chance: 0.05).doubt > 1.5 * eight.doubt)
        #expect(MeanComparison([1.0, 1, 1, 1, 2, 2, 2, 2], [2.0, 2, 2, 2, 1, 1, 1, 1], chance: 0.05).doubt > 2 * eight.doubt)
        #expect(MeanComparison(first, second, chance: 0.005).doubt > 1.3 * eight.doubt)
    }

    @Test("ten parts that drift all the way are doubted some eight times as much as if they were independent, not dozens of times")
    func drift() {
        let drifting = (0..<10).map(Double.init)
        let comparison = MeanComparison(drifting, drifting, chance: 0.05 / 11)
        // The standard error as if they were independent: 0.957 each.
        #expect((6...12).contains(comparison.doubt / (2 * 0.957 * 0.957).squareRoot()))
    }

    @Test("what doesn't vary has no doubt; one that doesn't lends none to the other")
    func constant() {
        let none = MeanComparison([5, 5, 5, 5], [6, 6, 6, 6], chance: 0.05)
        #expect(none.doubt == 0 && none.isBeyondChance && none.difference == 1)
        #expect(!MeanComparison([5, 5, 5, 5], [5, 5, 5, 5], chance: 0.05).isBeyondChance)
        #expect(!MeanComparison([5, 5, 5, 5], [5, 9, 5, 5], chance: 0.05).isBeyondChance)
    }

    @Test("of unlike numbers of parts, of the size of files: no trap, nothing infinite", arguments: [1e-300, 1, 1e18])
    func extremes(size: Double) {
        let comparison = MeanComparison([0, size, 0, size], (0..<900).map { Double($0 % 7) * size }, chance: 0.05 / 11)
        #expect(comparison.doubt.isFinite && comparison.doubt >= 0 && comparison.difference > 0)
    }
}
