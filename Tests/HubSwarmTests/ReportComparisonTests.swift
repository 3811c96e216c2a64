import Glibc
import HubBase
import HubSwarm
import Testing

@Suite("Comparing two runs")
struct ReportComparisonTests {
    /// Twenty seconds, each with so many deliveries around `milliseconds`, as noisy as asked.
    private static func run(milliseconds: Double, noise: Double, seed: UInt64, seconds: Int = 20, deliveries: Int = 100) -> Measures {
        var chance = Chance(seed: seed)
        var measures = Measures()
        measures.measured = .seconds(UInt64(seconds))
        for _ in 0..<seconds {
            var histogram = Histogram()
            for _ in 0..<deliveries {
                let uniform = Double(chance.next() >> 11) / Double(1 << 53 as UInt64)
                histogram.record(UInt64(milliseconds * 1e6 * (1 + noise * (2 * uniform - 1))))
            }
            var point = Measures.Point()
            point.latency = SparseHistogram(histogram)
            point.delivered = UInt64(deliveries)
            point.sent = UInt64(deliveries)
            measures.append(point)
        }
        return measures
    }

    private static func meaning(_ name: String, _ left: Measures, _ right: Measures) -> ReportComparison.Meaning? {
        ReportComparison(left, right).rows.first { $0.name == name }?.meaning
    }

    /// A run whose load and latency wander by themselves: each second resembles the one before by `resemblance`, and its deliveries have a
    /// long tail.
    private static func wandering(_ chance: inout Chance, seconds: Int, resemblance: Double) -> Measures {
        var measures = Measures()
        measures.measured = .seconds(UInt64(seconds))
        func uniform() -> Double { (Double(chance.next() >> 11) + 0.5) / Double(1 << 53 as UInt64) }
        func normal() -> Double { (-2 * log(uniform())).squareRoot() * cos(2 * .pi * uniform()) }
        let fresh = (1 - resemblance * resemblance).squareRoot()
        var (load, slowness, processor) = (normal(), normal(), normal())
        for _ in 0..<seconds {
            load = resemblance * load + fresh * normal()
            slowness = resemblance * slowness + fresh * normal()
            processor = resemblance * processor + fresh * normal()
            var point = Measures.Point()
            point.delivered = UInt64(max(100 + 10 * load, 1))
            point.sent = UInt64(max(100 + 20 * normal(), 1))
            point.errors = uniform() < 0.2 ? 1 : 0
            point.connected = UInt64(max(1000 + 30 * normal(), 1))
            point.ownCPU = UInt64(max(300_000 + 50_000 * normal(), 1))
            point.hubCPU = UInt64(max(200_000 + 40_000 * processor, 1))
            var histogram = Histogram()
            for _ in 0..<40 { histogram.record(UInt64(5e6 * exp(0.2 * slowness) * pow(uniform(), -0.3))) }
            point.latency = SparseHistogram(histogram)
            measures.append(point)
        }
        return measures
    }

    /// How many of 400 comparisons of equal runs call anything worse; and better, worse or different.
    private static func falseAlarms(seconds: Int, resemblance: Double) -> (worse: Int, any: Int) {
        var chance = Chance(seed: 1796)
        var (worse, any) = (0, 0)
        for _ in 0..<400 {
            let left = wandering(&chance, seconds: seconds, resemblance: resemblance)
            let rows = ReportComparison(left, wandering(&chance, seconds: seconds, resemblance: resemblance)).rows
            if rows.contains(where: { $0.meaning == .worse }) { worse += 1 }
            if rows.contains(where: { [.worse, .better, .differs].contains($0.meaning) }) { any += 1 }
        }
        return (worse, any)
    }

    @Test(
        "of equal runs one in forty is called worse and one in twenty anything but noise, over all rows; twice that when seconds resemble each other",
        arguments: [(10, 0.0, 1), (30, 0, 1), (10, 0.3, 1), (30, 0.3, 1), (20, 0.6, 2), (60, 0.6, 2)])
    func equals(seconds: Int, resemblance: Double, factor: Int) {
        let alarms = Self.falseAlarms(seconds: seconds, resemblance: resemblance)
        #expect(alarms.worse <= 10 * factor && alarms.any <= 20 * factor, "\(alarms)")
    }

    @Test("what is shown is what is judged: the change is that of the shown figures, and its sign and size agree with the meaning")
    func agreement() throws {
        // One second of two hundred with a pause: p99.9 of the whole run leaps, the runs are alike.
        let calm = Self.run(milliseconds: 5, noise: 0.3, seed: 1, seconds: 40, deliveries: 1000)
        var points = calm.series
        var paused = Histogram()
        for _ in 0..<1000 { paused.record(900_000_000) }
        points[17].latency = SparseHistogram(paused)
        var other = calm
        other.replaceSeries(points)
        for (left, right) in [
            (calm, other), (other, calm), (calm, Self.run(milliseconds: 6, noise: 0.3, seed: 2, seconds: 40, deliveries: 1000)),
        ] {
            for row in ReportComparison(left, right).rows where row.noise != "–" {
                let change = try #require(Self.percent(row.change)), noise = try #require(Self.percent(row.noise))
                #expect((abs(change) > noise && abs(change) > 1) == (row.meaning != .noise), "\(row)")
                if let before = Self.number(row.left), let after = Self.number(row.right), before > 0 {
                    #expect(abs((after / before - 1) * 100 - change) < 2 + abs(change) * 0.02, "\(row)")
                }
                if row.meaning == .worse { #expect((change > 0) == (row.name != "delivered a second"), "\(row)") }
            }
        }
    }

    /// "+12.3 %", "± 5.2 %".
    private static func percent(_ text: String) -> Double? {
        let number = text.filter { $0.isNumber || $0 == "." }
        return Double(number).map { text.hasPrefix("−") ? -$0 : $0 }
    }

    /// Nanoseconds, or a rate.
    private static func number(_ text: String) -> Double? {
        let words = text.filter { $0 != "," }.split(separator: " ")
        let units: [String: Double] = ["ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9]
        let unit = words.count > 1 ? units[String(words[1])] ?? 1 : 1
        guard let number = Double(words[0]) else { return nil }
        return number * unit
    }

    @Test("runs of other lengths and steps are cut into parts of one length: a rare pause isn't rarer in a short one")
    func lengths() {
        var chance = Chance(seed: 3)
        let short = Self.wandering(&chance, seconds: 40, resemblance: 0)
        var long = Self.wandering(&chance, seconds: 400, resemblance: 0)
        let comparison = ReportComparison(short, long)
        #expect(comparison.partSeconds == 4 && comparison.rows.allSatisfy { ![.better, .worse].contains($0.meaning) })
        long.coarsen()
        let coarser = ReportComparison(short, long)
        #expect(coarser.left.step == 2 && coarser.partSeconds == 4)
        // Who is connected is what was so at a step's end.
        for (row, other) in zip(coarser.rows, comparison.rows) where row.name != "connected" { #expect(row.right == other.right, "\(row)") }
    }

    @Test("a percentile needs as many deliveries in each part that one is beyond it; longer parts are taken, then nothing is said")
    func few() {
        func meanings(_ deliveries: Int) -> [ReportComparison.Meaning?] {
            let left = Self.run(milliseconds: 5, noise: 0.3, seed: 1, deliveries: deliveries)
            let right = Self.run(milliseconds: 9, noise: 0.3, seed: 2, deliveries: deliveries)
            return ["p50", "p90", "p99", "p99.9"].map { Self.meaning($0, left, right) }
        }
        // In parts of four seconds at most: 12 and 120 are enough for p90 and p99, 1,200 for p99.9.
        #expect(meanings(3) == [.worse, .worse, .unknown, .unknown])
        #expect(meanings(30) == [.worse, .worse, .worse, .unknown])
        #expect(meanings(300) == [.worse, .worse, .worse, .worse])
    }

    @Test("a fifth slower is worse, a fifth faster is better")
    func different() {
        let slow = Self.run(milliseconds: 6, noise: 0.3, seed: 1)
        let fast = Self.run(milliseconds: 5, noise: 0.3, seed: 2)
        #expect(Self.meaning("p50", fast, slow) == .worse && Self.meaning("p50", slow, fast) == .better)
        #expect(Self.meaning("p99", fast, slow) == .worse)
    }

    @Test("a run of three seconds says nothing")
    func short() {
        let short = Self.run(milliseconds: 5, noise: 0.3, seed: 1, seconds: 3)
        #expect(Self.meaning("p50", short, Self.run(milliseconds: 9, noise: 0.3, seed: 1)) == .unknown)
    }

    @Test("a violation where there was none is worse, whatever the noise; options that differ are told")
    func violations() {
        let left = Self.run(milliseconds: 5, noise: 0.3, seed: 1)
        var right = left
        right.violations = ["lost": 1]
        right.options = [["rate", "2"]]
        let comparison = ReportComparison(left, right)
        #expect(comparison.rows.first { $0.name == "violations: lost" }?.meaning == .worse)
        #expect(comparison.differences == [["rate", "–", "2"]] && comparison.text.contains("differs: rate"))
        #expect(comparison.html.contains("Two swarm runs compared"))
    }
}
