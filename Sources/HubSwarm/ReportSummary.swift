/// A run's measures in a few lines for a terminal, or as one line of JSON for programs.
package enum ReportSummary {
    package static func text(_ measures: Measures, _ judging: Judging) -> String {
        var lines = [
            "\(measures.scenario.isEmpty ? "flags" : ReportNumbers.plain(measures.scenario)): \(ReportNumbers.count(measures.counter(Measures.Counter.joined))) of "
                + "\(ReportNumbers.count(measures.bots)) bots" + (measures.workers > 1 ? " of \(measures.workers) workers" : "")
                + ", measured for \(ReportNumbers.length(measures.measuredSeconds))" + (measures.isInterrupted ? ", interrupted" : "")
                + " (seed \(measures.seed))"
        ]
        let seconds = max(measures.measuredSeconds, 0.001)
        let sent = measures.counter(Measures.Counter.sent)
        var rows: [(String, String)] = [
            ("sent", "\(ReportNumbers.count(sent)), \(ReportNumbers.rate(Double(sent) / seconds)) a second"),
            ("acknowledged", ReportNumbers.count(measures.counter(Measures.Counter.acknowledged))),
            (
                "delivered",
                ReportNumbers.count(measures.counter(Measures.Counter.delivered))
                    + " of \(ReportNumbers.count(measures.counter(Measures.Counter.expected))) expected"
            ),
            ("errors", ReportNumbers.count(measures.errorsSum) + list(measures.errors)),
            ("violations", ReportNumbers.count(measures.violationsSum) + list(measures.violations)),
            ("reconnects", ReportNumbers.count(measures.counter(Measures.Counter.reconnects)) + list(measures.ends)),
        ]
        for (lane, histogram) in measures.lanes.sorted(by: { $0.key < $1.key }) where histogram.count > 0 {
            rows.append(
                (
                    ReportNumbers.plain(lane.kind) + (lane.population == .normal ? "" : " hostile"),
                    [50, 90, 99, 99.9].map { "\(ReportNumbers.percentile($0)) \(ReportNumbers.time(histogram.percentile($0)))" }.joined(
                        separator: "  ")
                        + "  max \(ReportNumbers.time(histogram.max))"
                ))
        }
        if let hostile = HostileCounts(measures) {
            rows += hostile.rows.map { ("hostile " + $0.name, $0.value) }
            rows.append(("hostile ends", ReportNumbers.count(hostile.ends.values.reduce(0, Measures.sum)) + list(hostile.ends, most: 12)))
        }
        let width = rows.map(\.0.count).max() ?? 0
        for (name, value) in rows { lines.append("  " + name + String(repeating: " ", count: width - name.count + 2) + value) }
        for finding in measures.findings.prefix(10) { lines.append("  " + ReportNumbers.plain(finding)) }
        let words = judging.text
        if !words.isEmpty { lines.append(words) }
        if judging.judgements.isEmpty {
            lines.append(judging.isKept ? "OK: nothing lost, duplicated or out of order" : "FAILED: see the faults above")
        }
        return lines.joined(separator: "\n")
    }

    /// " (name 3, other 1)": the most frequent.
    private static func list(_ counts: [String: UInt64], most: Int = 5) -> String {
        let sorted = counts.filter { $0.value > 0 }.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
        guard !sorted.isEmpty else { return "" }
        let shown = sorted.prefix(most).map { "\(ReportNumbers.plain($0.key)) \(ReportNumbers.count($0.value))" }
        return " (" + shown.joined(separator: ", ") + (sorted.count > most ? ", …" : "") + ")"
    }

    /// One line. Latencies in milliseconds, of deliveries to normal bots.
    package static func json(_ measures: Measures, _ judging: Judging) -> String {
        func object(_ counts: [String: UInt64]) -> String {
            "{" + counts.sorted { $0.key < $1.key }.map { "\(SwarmReport.quoted($0.key)):\($0.value)" }.joined(separator: ",") + "}"
        }
        func times(_ histogram: SparseHistogram) -> String {
            let parts = [("p50", 50), ("p90", 90), ("p99", 99), ("p99.9", 99.9)].map {
                "\"\($0.0)\":\(SwarmReport.milliseconds(histogram.percentile($0.1)))"
            }
            return "{" + parts.joined(separator: ",") + ",\"max\":\(SwarmReport.milliseconds(histogram.max)),\"count\":\(histogram.count)}"
        }
        let lanes = measures.lanes.sorted { $0.key < $1.key }.map { lane, histogram in
            SwarmReport.quoted(lane.population == .normal ? lane.kind : "hostile.\(lane.kind)") + ":" + times(histogram)
        }
        let judged = judging.judgements.map {
            "{\"expectation\":\(SwarmReport.quoted($0.expectation)),\"measured\":\(SwarmReport.quoted($0.measured)),\"kept\":\($0.isKept)}"
        }
        func texts(_ all: [String]) -> String { "[" + all.map(SwarmReport.quoted).joined(separator: ",") + "]" }
        let counters = measures.counters.sorted { $0.key < $1.key }.map { (SwarmReport.quoted($0.key), "\($0.value)") }
        let fields: [(String, String)] =
            [
                ("\"scenario\"", SwarmReport.quoted(measures.scenario)), ("\"seed\"", "\(measures.seed)"), ("\"bots\"", "\(measures.bots)"),
                ("\"workers\"", "\(measures.workers)"), ("\"seconds\"", ReportNumbers.decimal(measures.measuredSeconds, digits: 3)),
            ] + counters + [
                ("\"lost\"", "\(measures.violations["lost"] ?? 0)"), ("\"duplicated\"", "\(measures.violations["duplicated"] ?? 0)"),
                ("\"outOfOrder\"", "\(measures.violations["outOfOrder"] ?? 0)"), ("\"violations\"", object(measures.violations)),
                ("\"errors\"", object(measures.errors)), ("\"ends\"", object(measures.ends)), ("\"latency\"", times(measures.latency())),
                ("\"latencies\"", "{" + lanes.joined(separator: ",") + "}"),
                ("\"expectations\"", "[" + judged.joined(separator: ",") + "]"),
                ("\"faults\"", texts(judging.faults)), ("\"warnings\"", texts(judging.warnings)),
                ("\"interrupted\"", "\(measures.isInterrupted)"), ("\"ok\"", "\(judging.isKept)"),
            ]
        return "{" + fields.map { "\($0.0):\($0.1)" }.joined(separator: ",") + "}"
    }
}

extension ReportNumbers {
    /// What others wrote, fit for a terminal: no control characters, none that turn the direction of text.
    package static func plain(_ text: String) -> String {
        var plain = ""
        for scalar in text.unicodeScalars {
            switch scalar.value {
            case 0x00...0x1F, 0x7F...0x9F, 0x200E, 0x200F, 0x2028...0x202E, 0x2066...0x2069: plain.unicodeScalars.append("\u{FFFD}")
            default: plain.unicodeScalars.append(scalar)
            }
        }
        return plain
    }
}
