/// Two runs side by side: what differs by more than the runs differ within themselves.
///
/// The measured time of both is cut into parts of one length, and a figure is taken in each part. What is shown, what is called a change
/// and what is judged is one thing, the mean of the parts' figures (`MeanComparison`; decision 0310). In a comparison of two runs of equals
/// anything is called better, worse or different in one of twenty: the chance of each row is that divided by the rows that vary at all.
/// A difference under 1 % is none: a counter of the histogram is a thousandth wide, and machines drift.
package struct ReportComparison: Sendable {
    package enum Meaning: String, Sendable, Equatable {
        case better, worse
        /// Not better or worse by itself.
        case differs
        /// Within what the runs differ by chance.
        case noise
        /// Too short, or too little measured.
        case unknown = "can’t tell"
    }

    package struct Row: Sendable, Equatable {
        package var name: String
        package var left: String
        package var right: String
        /// "+12.3 %".
        package var change: String
        /// How large a change could be chance, as a share of `left` too.
        package var noise: String
        package var meaning: Meaning
    }

    package let left: Measures
    package let right: Measures
    package private(set) var rows: [Row] = []
    /// Why the two can't be compared fairly, when options differ.
    package private(set) var differences: [[String]] = []
    /// Seconds of a part, for figures that need no longer one.
    package let partSeconds: UInt64

    /// As many of the shorter run, unless they'd be shorter than `partSecondsMin`.
    private static let parts = 10
    /// Neighbouring seconds are too alike.
    private static let partSecondsMin: UInt64 = 2
    private static let chance = 0.05
    private static let leastChange = 0.01

    package init(_ left: Measures, _ right: Measures) {
        var (left, right) = (left, right)
        // A run past half an hour has longer steps.
        while left.step < right.step, left.series.count > 1 { left.coarsen() }
        while right.step < left.step, right.series.count > 1 { right.coarsen() }
        self.left = left
        self.right = right
        let step = max(left.step, 1)
        let shorter = min(left.measuredPoints.count, right.measuredPoints.count)
        let length = max(shorter / Self.parts, Int(clamping: (Self.partSecondsMin + step - 1) / step))
        partSeconds = step * UInt64(length)
        let pairs = Figure.all.map { ($0, Samples($0, left, right, length: length)) }
        let varying = pairs.count { $0.1?.canDiffer ?? false }
        for (figure, samples) in pairs {
            if let row = Self.row(figure, samples, left, right, chance: Self.chance / Double(max(varying, 1))) { rows.append(row) }
        }
        for kind in Set(left.violations.keys).union(right.violations.keys).union(["lost"]).sorted() { addViolation(kind) }
        differences = Self.differences(left, right)
    }

    /// nil: there's no such figure in one of them.
    private static func row(_ figure: Figure, _ samples: Samples?, _ left: Measures, _ right: Measures, chance: Double) -> Row? {
        guard let samples else {
            guard let before = figure.whole(left), let after = figure.whole(right) else { return nil }
            return Row(
                name: figure.name, left: figure.text(before), right: figure.text(after), change: change(before, after), noise: "–",
                meaning: .unknown)
        }
        let means = MeanComparison(samples.first, samples.second, chance: chance)
        let isReal = means.isBeyondChance && abs(means.difference) > leastChange * means.first
        let meaning: Meaning =
            !isReal ? .noise : figure.direction == .none ? .differs : (figure.direction == .up) == (means.difference > 0) ? .better : .worse
        return Row(
            name: figure.name, left: figure.text(means.first), right: figure.text(means.second), change: change(means.first, means.second),
            noise: means.first > 0 ? "± " + ReportNumbers.percent(means.doubt / means.first) : "± " + figure.text(means.doubt),
            meaning: meaning)
    }

    private static func change(_ before: Double, _ after: Double) -> String {
        before > 0 ? signed((after - before) / before) : after == before ? "0 %" : "new"
    }

    /// Violations aren't a matter of chance within a run: none or some is what counts.
    private mutating func addViolation(_ kind: String) {
        let before = left.violations[kind] ?? 0
        let after = right.violations[kind] ?? 0
        let meaning: Meaning = before == after ? .noise : (before == 0 || after == 0) ? (after == 0 ? .better : .worse) : .differs
        rows.append(
            Row(
                name: "violations: " + kind, left: ReportNumbers.count(before), right: ReportNumbers.count(after),
                change: Self.change(Double(before), Double(after)), noise: "–", meaning: meaning))
    }

    /// Options and environment that aren't the same: name, left, right.
    private static func differences(_ left: Measures, _ right: Measures) -> [[String]] {
        var found: [[String]] = []
        func compare(_ name: String, _ first: String, _ second: String) {
            if first != second, !found.contains(where: { $0[0] == name }) { found.append([name, first, second]) }
        }
        compare("scenario", left.scenario, right.scenario)
        compare("bots", String(left.bots), String(right.bots))
        compare("workers", String(left.workers), String(right.workers))
        for (first, second) in [(left.options, right.options), (left.environment, right.environment)] {
            let names = (first + second).map { $0[0] }
            var seen: Set<String> = []
            for name in names where seen.insert(name).inserted {
                compare(name, first.first { $0[0] == name }?[1] ?? "–", second.first { $0[0] == name }?[1] ?? "–")
            }
        }
        return found
    }

    /// A figure in the parts of both runs.
    private struct Samples {
        let first: [Double]
        let second: [Double]

        /// Parts of `length` steps, or twice, four times, … as long where there was too little in one of them. nil: then there are too few.
        init?(_ figure: Figure, _ left: Measures, _ right: Measures, length: Int) {
            var length = length
            while true {
                let parts = [left, right].map { ReportComparison.parts($0, length: length) }
                guard parts.allSatisfy({ $0.count >= MeanComparison.partsMin }) else { return nil }
                if parts.allSatisfy({ $0.allSatisfy(figure.isEnough) }) {
                    let values = zip([left, right], parts).map { measures, parts in parts.compactMap { figure.value(measures, $0) } }
                    if values.map(\.count) == parts.map(\.count) {
                        (first, second) = (values[0], values[1])
                        return
                    }
                }
                length *= 2
            }
        }

        var canDiffer: Bool { Set(first).count > 1 || Set(second).count > 1 }
    }

    /// The measured steps cut evenly into as many parts of at least `length` as there are.
    static func parts(_ measures: Measures, length: Int) -> [ArraySlice<Measures.Point>] {
        let points = measures.measuredPoints
        let count = points.count / max(length, 1)
        return (0..<count).map { points[$0 * points.count / count..<($0 + 1) * points.count / count] }
    }

    private static func signed(_ share: Double) -> String {
        share == 0 ? "0 %" : (share > 0 ? "+" : "−") + ReportNumbers.decimal(abs(share) * 100, digits: 1) + " %"
    }
}
