import HubBase
import HubSwarm

/// A run's measures for people and programs, in short.
enum RunSummary {
    /// Nothing that was promised is missing, and there was something to miss.
    static func isClean(_ measures: Measures) -> Bool {
        measures.violations.isEmpty && measures.counter(Measures.Counter.joined) > 0 && measures.missing.isEmpty
            && measures.counter(Measures.Counter.delivered) + measures.counter("presenceTold") > 0
    }

    static func text(_ measures: Measures) -> String {
        let joined = SwarmReport.grouped(measures.counter(Measures.Counter.joined))
        var lines = [
            "\(measures.scenario): \(joined) of \(SwarmReport.grouped(measures.bots)) bots came"
                + (measures.isInterrupted ? ", interrupted" : "") + " (seed \(measures.seed))"
        ]
        for (lane, histogram) in measures.lanes.sorted(by: { $0.key < $1.key }) {
            let times = [50.0, 90, 99, 99.9].map {
                "p\($0 == 99.9 ? "99.9" : "\(Int($0))") \(SwarmReport.milliseconds(histogram.percentile($0)))"
            }
            lines.append(
                row(lane.kind, times.joined(separator: "  ") + "  max \(SwarmReport.milliseconds(histogram.max)) ms (\(histogram.count))"))
        }
        for (name, counts) in [
            ("counted", measures.counters.filter { $0.value > 0 }), ("errors", measures.errors), ("ends", measures.ends),
            ("violations", measures.violations),
        ] where !counts.isEmpty {
            lines.append(
                row(name, counts.sorted { $0.key < $1.key }.map { "\($0.key) \(SwarmReport.grouped($0.value))" }.joined(separator: ", ")))
        }
        lines += measures.findings.prefix(10).map { "  " + $0 }
        lines.append(isClean(measures) ? "OK: all that was promised came" : "FAILED: see violations, or nothing was proved")
        return lines.joined(separator: "\n")
    }

    private static func row(_ name: String, _ value: String) -> String {
        "  " + name + String(repeating: " ", count: max(12 - name.count, 1)) + value
    }

    static func json(_ measures: Measures) -> String {
        func object(_ counts: [String: UInt64]) -> String {
            "{" + counts.sorted { $0.key < $1.key }.map { "\(SwarmReport.quoted($0.key)):\($0.value)" }.joined(separator: ",") + "}"
        }
        let lanes = measures.lanes.sorted { $0.key < $1.key }.map { lane, histogram in
            "\(SwarmReport.quoted(lane.kind)):{\"count\":\(histogram.count)"
                + [(50.0, "p50"), (90, "p90"), (99, "p99"), (99.9, "p999")].map {
                    ",\"\($1)\":\(SwarmReport.milliseconds(histogram.percentile($0)))"
                }
                .joined() + ",\"max\":\(SwarmReport.milliseconds(histogram.max))}"
        }
        let fields = [
            "\"scenario\":\(SwarmReport.quoted(measures.scenario))", "\"seed\":\(measures.seed)", "\"bots\":\(measures.bots)",
            "\"interrupted\":\(measures.isInterrupted)", "\"lanes\":{\(lanes.joined(separator: ","))}",
            "\"counters\":\(object(measures.counters))", "\"errors\":\(object(measures.errors))", "\"ends\":\(object(measures.ends))",
            "\"violations\":\(object(measures.violations))",
            "\"findings\":[\(measures.findings.map(SwarmReport.quoted).joined(separator: ","))]", "\"ok\":\(isClean(measures))",
        ]
        return "{" + fields.joined(separator: ",") + "}"
    }
}
