import Glibc

/// Two runs side by side: what differs by more than the runs differ within themselves.
///
/// Each run's measured time is cut into up to ten blocks, a figure taken in each: their spread says how far a mean could be off by chance
/// (Welch's comparison, 95 %, with a normal's 2.1 since there are some 18 degrees of freedom). Under four blocks nothing is said. A
/// difference under 1 % is none: a counter of the histogram is a thousandth wide, and machines drift.
package struct ReportComparison: Sendable {
    package enum Meaning: String, Sendable, Equatable {
        case better, worse
        /// Not better or worse by itself.
        case differs
        /// Within what the runs differ by chance.
        case noise
        /// Too short, or nothing measured.
        case unknown = "can’t tell"
    }

    package struct Row: Sendable, Equatable {
        package var name: String
        package var left: String
        package var right: String
        /// "+12.3 %".
        package var change: String
        /// How large a difference could be chance.
        package var noise: String
        package var meaning: Meaning
    }

    package let left: Measures
    package let right: Measures
    package private(set) var rows: [Row] = []
    /// Why the two can't be compared fairly, when options differ.
    package private(set) var differences: [[String]] = []

    private enum Direction { case up, down, none }
    private static let blocksMax = 10
    private static let blocksMin = 4
    private static let deviations = 2.1
    private static let leastChange = 0.01

    package init(_ left: Measures, _ right: Measures) {
        self.left = left
        self.right = right
        func rate(_ value: @escaping (Measures.Point) -> UInt64) -> (Measures, [Measures.Point]) -> Double? {
            { measures, points in Double(points.reduce(0) { Measures.sum($0, value($1)) }) / Double(points.count) / Double(measures.step) }
        }
        func percentile(_ percent: Double) -> (Measures, [Measures.Point]) -> Double? {
            { _, points in
                var sum = SparseHistogram()
                for point in points { sum.merge(point.latency) }
                return sum.count > 0 ? Double(sum.percentile(percent)) : nil
            }
        }
        func processor(_ value: @escaping (Measures.Point) -> UInt64?) -> (Measures, [Measures.Point]) -> Double? {
            { measures, points in
                let known = points.compactMap(value)
                return known.isEmpty ? nil : Double(known.reduce(0, Measures.sum)) / Double(known.count) / Double(measures.step) / 1e6
            }
        }
        for percent in [50, 90, 99, 99.9] {
            add(ReportNumbers.percentile(percent), .down, { ReportNumbers.time(UInt64($0)) }, percentile(percent))
        }
        add("delivered a second", .up, ReportNumbers.rate, rate(\.delivered))
        add("sent a second", .none, ReportNumbers.rate, rate(\.sent))
        add("errors a second", .down, ReportNumbers.rate, rate(\.errors))
        add("connected", .none, ReportNumbers.rate) { _, points in
            Double(points.reduce(0) { Measures.sum($0, $1.connected) }) / Double(points.count)
        }
        add("hub’s processor time", .down, ReportNumbers.percent, processor(\.hubCPU))
        add("Redis’ processor time", .down, ReportNumbers.percent, processor(\.redisCPU))
        add("swarm’s processor time", .none, ReportNumbers.percent, processor(\.ownCPU))
        for kind in Set(left.violations.keys).union(right.violations.keys).union(["lost"]).sorted() { addViolation(kind) }
        differences = Self.differences(left, right)
    }

    private mutating func add(
        _ name: String, _ direction: Direction, _ text: (Double) -> String, _ figure: (Measures, [Measures.Point]) -> Double?
    ) {
        guard let before = figure(left, left.measuredPoints.orNothing), let after = figure(right, right.measuredPoints.orNothing) else {
            return
        }
        let first = Self.blocks(left).compactMap { figure(left, $0) }
        let second = Self.blocks(right).compactMap { figure(right, $0) }
        let change = after - before
        let shown = before > 0 ? Self.signed(change / before) : change == 0 ? "0 %" : "new"
        guard first.count >= Self.blocksMin, second.count >= Self.blocksMin else {
            rows.append(Row(name: name, left: text(before), right: text(after), change: shown, noise: "–", meaning: .unknown))
            return
        }
        let doubt = Self.deviations * (Self.squaredError(first) + Self.squaredError(second)).squareRoot()
        // What the blocks' means differ by, and not the figures of the whole: a percentile of the whole isn't the mean of the blocks'.
        let difference = Self.mean(second) - Self.mean(first)
        let isReal =
            abs(difference) > doubt && abs(change) > Self.leastChange * max(before, .leastNonzeroMagnitude)
            && (difference > 0) == (change > 0)
        let meaning: Meaning =
            !isReal ? .noise : direction == .none ? .differs : (direction == .up) == (change > 0) ? .better : .worse
        rows.append(
            Row(
                name: name, left: text(before), right: text(after), change: shown,
                noise: before > 0 ? "± " + ReportNumbers.percent(doubt / before) : "± " + text(doubt), meaning: meaning))
    }

    /// Violations aren't a matter of chance within a run: none or some is what counts.
    private mutating func addViolation(_ kind: String) {
        let before = left.violations[kind] ?? 0
        let after = right.violations[kind] ?? 0
        let meaning: Meaning = before == after ? .noise : (before == 0 || after == 0) ? (after == 0 ? .better : .worse) : .differs
        rows.append(
            Row(
                name: "violations: " + kind, left: ReportNumbers.count(before), right: ReportNumbers.count(after),
                change: before > 0 ? Self.signed((Double(after) - Double(before)) / Double(before)) : after == 0 ? "0 %" : "new",
                noise: "–",
                meaning: meaning))
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

    // MARK: Arithmetic

    /// Up to ten runs of steps, each of at least one.
    static func blocks(_ measures: Measures) -> [[Measures.Point]] {
        let points = measures.measuredPoints
        let count = min(blocksMax, points.count)
        guard count > 0 else { return [] }
        return (0..<count).map { Array(points[$0 * points.count / count..<($0 + 1) * points.count / count]) }
    }

    private static func mean(_ values: [Double]) -> Double { values.reduce(0, +) / Double(values.count) }

    /// The square of the mean's standard error.
    private static func squaredError(_ values: [Double]) -> Double {
        let mean = mean(values)
        let squares = values.reduce(0) { $0 + ($1 - mean) * ($1 - mean) }
        return squares / Double(values.count - 1) / Double(values.count)
    }

    private static func signed(_ share: Double) -> String {
        share == 0 ? "0 %" : (share > 0 ? "+" : "−") + ReportNumbers.decimal(abs(share) * 100, digits: 1) + " %"
    }

    // MARK: To look at

    package var text: String {
        let header = ["", "first", "second", "change", "noise", "meaning"]
        let cells = [header] + rows.map { [$0.name, $0.left, $0.right, $0.change, $0.noise, $0.meaning.rawValue] }
        let widths = header.indices.map { column in cells.map { $0[column].count }.max() ?? 0 }
        var lines = cells.map { row -> String in
            let padded = row.enumerated().map { column, cell -> String in
                let padding = String(repeating: " ", count: widths[column] - cell.count)
                return column == 0 || column == row.count - 1 ? cell + (column == 0 ? padding : "") : padding + cell
            }
            return "  " + padded.joined(separator: "  ")
        }
        for difference in differences {
            lines.append(
                "differs: \(ReportNumbers.plain(difference[0])): \(ReportNumbers.plain(difference[1])) against \(ReportNumbers.plain(difference[2]))"
            )
        }
        return lines.joined(separator: "\n")
    }

    package var html: String {
        var body = "<header><h1>Two swarm runs compared</h1><p class=\"soft\">"
        body += ReportMarkup.escaped(
            "\(left.scenario.isEmpty ? "flags" : left.scenario), \(ReportNumbers.date(left.date)), against \(right.scenario.isEmpty ? "flags" : right.scenario), \(ReportNumbers.date(right.date))"
        )
        body += "</p></header>\n<main><section>"
        body += ReportMarkup.table(
            "Figures of the measured time",
            [.init("Figure"), .number("First"), .number("Second"), .number("Change"), .number("Noise"), .init("Meaning")],
            rows.map { row in
                [
                    .init(row.name), .number(row.left), .number(row.right), .number(row.change), .number(row.noise),
                    .init(row.meaning.rawValue, mood: row.meaning == .better ? .good : row.meaning == .worse ? .bad : .plain),
                ]
            })
        body +=
            "<p class=\"soft\">Noise: how large a difference could be by chance, from the spread within each run. What’s smaller isn’t a difference.</p></section>\n"
        if !differences.isEmpty {
            body += "<section><h2>What else differs</h2>"
            body += ReportMarkup.table(
                "Options and environment", [.init("Name"), .init("First"), .init("Second")], differences.map { $0.map { .init($0) } })
            body += "</section>\n"
        }
        return ReportMarkup.page(title: "Two swarm runs compared", body: body + "</main>")
    }
}

extension [Measures.Point] {
    /// One empty point instead of none, so that a mean is always of something.
    fileprivate var orNothing: [Measures.Point] { isEmpty ? [Measures.Point()] : self }
}
