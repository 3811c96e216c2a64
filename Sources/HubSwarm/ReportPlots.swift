import Glibc

/// Which plots a report has, out of its measures.
struct ReportPlots {
    private let measures: Measures
    private let step: Double
    private let seconds: Double

    init(_ measures: Measures) {
        self.measures = measures
        step = Double(measures.step)
        seconds = max(Double(measures.series.count) * step, 1)
    }

    static func name(_ lane: Measures.Lane) -> String { lane.population == .normal ? lane.kind : "\(lane.kind), hostile bots" }

    // MARK: Over time

    var overTime: [ReportPlot] {
        var plots = [
            rates(
                "deliveries", "Deliveries a second", [("delivered", { Double($0.delivered) / step })]),
            rates(
                "publications", "Publications a second",
                [("sent", { Double($0.sent) / step }), ("acknowledged", { Double($0.acknowledged) / step })]),
            percentilesOverTime,
            rates("connected", "Bots connected", [("connected", { Double($0.connected) })]),
        ]
        if measures.series.contains(where: { $0.errors > 0 }) {
            plots.append(rates("errors", "Errors and ended connections a second", [("errors", { Double($0.errors) / step })]))
        }
        plots += processor
        return plots
    }

    /// Points are drawn in the middle of their step.
    private func line(_ name: String, _ value: (Measures.Point) -> Double) -> ReportPlot.Line {
        ReportPlot.Line(
            name: name, points: measures.series.enumerated().map { (x: (Double($0.offset) + 0.5) * step, y: value($0.element)) })
    }

    /// Before and after the measuring.
    private var bands: [(from: Double, to: Double)] {
        guard measures.measured > measures.warmUp else { return [] }
        return [
            (0, min(Double(measures.warmUp.nanoseconds) / 1e9, seconds)),
            (min(Double(measures.measured.nanoseconds) / 1e9, seconds), seconds),
        ]
    }

    private func rates(_ name: String, _ title: String, _ values: [(String, (Measures.Point) -> Double)]) -> ReportPlot {
        let lines = values.map { line($0.0, $0.1) }
        let top = lines.map(highest).max() ?? 0
        let seconds = seconds
        let parts = lines.map { line -> String in
            let inside = line.points.filter { !isOutside($0.x) }.map(\.y)
            let mean = inside.isEmpty ? 0 : inside.reduce(0, +) / Double(inside.count)
            return "\(line.name): \(ReportNumbers.rate(mean)) on average while measured, \(ReportNumbers.rate(highest(line))) at most"
        }
        return ReportPlot(
            name: name, title: title, summary: parts.joined(separator: "; ") + shaded, lines: lines, bands: bands,
            xAxis: { .time(seconds: seconds, count: $0) }, yAxis: { .linear(to: top, count: $0, text: ReportNumbers.tick) })
    }

    private var shaded: String { bands.contains { $0.to > $0.from } ? ". Shaded: not measured." : "." }

    private func isOutside(_ x: Double) -> Bool { bands.contains { x >= $0.from && x < $0.to } }

    private func highest(_ line: ReportPlot.Line) -> Double { line.points.map(\.y).filter(\.isFinite).max() ?? 0 }

    private var percentilesOverTime: ReportPlot {
        func value(_ percent: Double) -> (Measures.Point) -> Double {
            { $0.latency.count > 0 ? Double(max($0.latency.percentile(percent), 1)) : .nan }
        }
        let lines = [
            line("p50", value(50)), line("p99", value(99)), line("p99.9", value(99.9)),
            line("longest") { $0.latency.count > 0 ? Double(max($0.latency.max, 1)) : .nan },
        ]
        let all = lines.flatMap { $0.points.map(\.y) }.filter(\.isFinite)
        let seconds = seconds
        let (least, greatest) = (all.min() ?? 1e6, all.max() ?? 1e7)
        return ReportPlot(
            name: "latency-over-time", title: "Latency over time",
            summary: all.isEmpty
                ? "Nothing was delivered."
                : "Logarithmic. p99 of one step between \(ReportNumbers.time(Self.least(lines[1]))) and \(ReportNumbers.time(UInt64(highest(lines[1]))))."
                    + (bands.contains { $0.to > $0.from } ? " Shaded: not measured." : ""),
            lines: lines, bands: bands, xAxis: { .time(seconds: seconds, count: $0) },
            yAxis: { _ in .times(from: least, to: greatest) })
    }

    private static func least(_ line: ReportPlot.Line) -> UInt64 { UInt64(line.points.map(\.y).filter(\.isFinite).min() ?? 0) }

    /// Of those whose processor time is known.
    private var processor: [ReportPlot] {
        let length = step * 1e4
        func share(_ name: String, _ value: (Measures.Point) -> UInt64?) -> ReportPlot.Line? {
            measures.series.contains { value($0) != nil } ? line(name) { value($0).map { Double($0) / length } ?? .nan } : nil
        }
        let own = measures.workers > 1 ? share("busiest worker") { $0.busiestCPU ?? $0.ownCPU } : share("the swarm") { $0.ownCPU }
        let lines = [own, share("the hub") { $0.hubCPU }, share("Redis") { $0.redisCPU }].compactMap { $0 }
        guard !lines.isEmpty else { return [] }
        let top = max(lines.map(highest).max() ?? 100, 100)
        let seconds = seconds
        return [
            ReportPlot(
                name: "processor", title: "Processor time, % of one core",
                summary: lines.map { "\($0.name): \(ReportNumbers.percent(highest($0) / 100)) at most" }.joined(separator: "; ")
                    + ". Near 100 % the swarm is the bottleneck, not the hub.",
                lines: lines, bands: bands, xAxis: { .time(seconds: seconds, count: $0) },
                yAxis: { .linear(to: top, count: $0, text: ReportNumbers.tick) })
        ]
    }

    // MARK: Latency

    var latencies: [ReportPlot] {
        guard measures.lanes.values.contains(where: { $0.count > 0 }) else { return [] }
        return [percentiles, histogram]
    }

    private var percentiles: ReportPlot {
        let lanes = measures.lanes.filter { $0.value.count > 0 }.sorted { $0.key < $1.key }.prefix(ReportPlot.patterns)
        // As many nines as the largest has values for.
        let most = lanes.map(\.value.count).max() ?? 1
        let nines = max(Int(log10(Double(max(most, 10)))), 2)
        let lines = lanes.map { lane, histogram in ReportPlot.Line(name: Self.name(lane), points: Self.quantiles(histogram, nines: nines)) }
        let all = lines.flatMap { $0.points.map(\.y) }.filter(\.isFinite)
        let (least, greatest) = (all.min() ?? 1e6, all.max() ?? 1e7)
        return ReportPlot(
            name: "percentiles", title: "Latency by percentile",
            summary: lanes.map { "\(Self.name($0.key)): p99 \(ReportNumbers.time($0.value.percentile(99)))" }.joined(separator: "; ")
                + ". Both axes logarithmic.",
            lines: Array(lines), xAxis: { .percentiles(nines: min(nines, $0)) }, yAxis: { _ in .times(from: least, to: greatest) })
    }

    /// x: decades of what's left out, 0 (all) to `nines`, as far as there are values.
    private static func quantiles(_ histogram: SparseHistogram, nines: Int) -> [(x: Double, y: Double)] {
        let last = min(Double(nines), log10(Double(max(histogram.count, 1))))
        return (0...nines * 24).compactMap { index in
            let x = Double(index) / 24
            guard x <= last + 1e-9 else { return nil }
            return (x, Double(max(histogram.percentile(100 * (1 - pow(10, -x))), 1)))
        }
    }

    private var histogram: ReportPlot {
        let latency = measures.latency()
        let steps = latency.steps
        // Twelve to a decade.
        func bin(_ value: UInt64) -> Int { Int(floor(log10(Double(max(value, 1))) * 12)) }
        var counts: [Int: UInt64] = [:]
        for step in steps { counts[bin(step.value), default: 0] += step.count }
        let (first, last) = (counts.keys.min() ?? 72, counts.keys.max() ?? 84)
        let whole = Double(max(latency.count, 1))
        func edge(_ bin: Int) -> Double { pow(10, Double(bin) / 12) }
        let bars = counts.sorted { $0.key < $1.key }.map { place, count in
            (
                from: edge(place), to: edge(place + 1), height: Double(count) / whole * 100,
                text: "\(ReportNumbers.time(UInt64(edge(place)))) to \(ReportNumbers.time(UInt64(edge(place + 1)))): "
                    + "\(ReportNumbers.count(count)), \(ReportNumbers.percent(Double(count) / whole))"
            )
        }
        let highest = bars.map(\.height).max() ?? 1
        return ReportPlot(
            name: "histogram", title: "Share of deliveries by latency, %",
            summary:
                "Half of all between \(ReportNumbers.time(latency.percentile(25))) and \(ReportNumbers.time(latency.percentile(75))). Logarithmic across.",
            bars: bars, xAxis: { ReportAxis.times(from: edge(first), to: edge(last + 1)).thinned(to: $0) },
            yAxis: { .linear(to: highest, count: $0, text: ReportNumbers.tick) })
    }
}

extension ReportNumbers {
    /// A round number at an axis: "2,500", "1.2 M", "0.25".
    static func tick(_ value: Double) -> String {
        if value >= 1e6 { return short(value / 1e6) + " M" }
        if value >= 1e4 { return short(value / 1e3) + " k" }
        return value >= 1000 ? count(UInt64(value.rounded())) : short(value)
    }

    private static func short(_ value: Double) -> String {
        let text = decimal(value, digits: 3)
        guard text.contains(".") else { return text }
        let digits = text.split(separator: ".")
        var fraction = digits[1]
        while fraction.hasSuffix("0") { fraction.removeLast() }
        return fraction.isEmpty ? String(digits[0]) : digits[0] + "." + fraction
    }
}

extension ReportAxis {
    /// With fewer words, where not all fit.
    func thinned(to count: Int) -> ReportAxis {
        guard ticks.count > count + 1 else { return self }
        var thinned = self
        let every = (ticks.count + count - 1) / max(count, 1)
        thinned.keepTicks { $0 % every == 0 }
        return thinned
    }
}
