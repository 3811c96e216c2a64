/// Whether a run did what was asked of it: the expectations if any were given, else that nothing was lost, duplicated or out of order and
/// everybody could do what they were to do. And what must be known before its figures are believed.
package struct Judging: Sendable, Equatable {
    package var judgements: [Expectation.Judgement] = []
    /// Why the run failed although each expectation may be kept.
    package var faults: [String] = []
    /// What makes the figures doubtful without failing the run.
    package var warnings: [String] = []

    /// For the exit code.
    package var isKept: Bool { faults.isEmpty && judgements.allSatisfy(\.isKept) }

    package init(_ measures: Measures, expectations: [Expectation]) {
        judgements = Expectation.judge(expectations, measures)
        faults += measures.missing
        if expectations.isEmpty { faults += Self.unclean(measures) }
        if let bottleneck = Bottleneck(measures).generator { warnings.append(bottleneck) }
        if measures.isInterrupted { warnings.append("the run was interrupted: it's judged by what it did until then") }
    }

    /// The rule without expectations.
    private static func unclean(_ measures: Measures) -> [String] {
        var faults: [String] = []
        if measures.violationsSum > 0 {
            let kinds = measures.violations.filter { $0.value > 0 }.sorted { $0.key < $1.key }
            faults.append(kinds.map { "\(ReportNumbers.count($0.value)) \($0.key)" }.joined(separator: ", "))
        }
        let joined = measures.counter(Measures.Counter.joined)
        if joined < measures.bots { faults.append("\(ReportNumbers.count(measures.bots - joined)) bots couldn't join") }
        if let unsent = measures.errors["unsent"], unsent > 0 {
            faults.append("\(ReportNumbers.count(unsent)) messages couldn't be sent: their bots had no connection")
        }
        // Of who only watches others nothing is acknowledged.
        if measures.counter(Measures.Counter.acknowledged) == 0, measures.counter(Measures.Counter.presenceTold) == 0 {
            faults.append("nothing was acknowledged, so nothing is proved")
        }
        return faults
    }

    /// Lines for people.
    package var text: String {
        var lines: [String] = []
        let width = judgements.map(\.expectation.count).max() ?? 0
        for judgement in judgements {
            let padding = String(repeating: " ", count: width - judgement.expectation.count)
            lines.append("  \(judgement.isKept ? "kept  " : "BROKEN")  \(judgement.expectation)\(padding)  \(judgement.measured)")
        }
        for warning in warnings { lines.append("warning: " + warning) }
        for fault in faults { lines.append("fault: " + ReportNumbers.plain(fault)) }
        let broken = judgements.count { !$0.isKept }
        if !judgements.isEmpty {
            lines.append(
                isKept
                    ? "OK: all \(judgements.count) expectations kept"
                    : broken > 0 ? "FAILED: \(broken) of \(judgements.count) expectations broken" : "FAILED: the run isn't whole")
        }
        return lines.joined(separator: "\n")
    }
}
