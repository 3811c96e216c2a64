/// Whether a run did what was asked of it: the expectations if any were given, else that nothing was lost, duplicated or out of order; and in
/// either case that everybody could do what they were to do. And what must be known before its figures are believed.
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
        if expectations.isEmpty { faults += Self.violated(measures) }
        faults += Self.unproved(measures, expectations)
        if let bottleneck = Bottleneck(measures).generator { warnings.append(bottleneck) }
        if measures.isInterrupted { warnings.append("the run was interrupted: it's judged by what it did until then") }
    }

    /// The rule without expectations.
    private static func violated(_ measures: Measures) -> [String] {
        let kinds = measures.violations.filter { $0.value > 0 }.sorted { $0.key < $1.key }
        return kinds.isEmpty ? [] : [kinds.map { "\(ReportNumbers.count($0.value)) \($0.key)" }.joined(separator: ", ")]
    }

    /// Where the run proves less than its figures seem to: what was due and never left, or never had its answer, is in no histogram, and who
    /// was kept out missed nothing that anybody counts. Fails whatever was expected, but for what an expectation names: that is judged by it.
    private static func unproved(_ measures: Measures, _ expectations: [Expectation]) -> [String] {
        func isNamed(_ measure: Expectation.Measure) -> Bool { expectations.contains { $0.measure == measure } }
        var faults: [String] = []
        let joined = measures.counter(Measures.Counter.joined)
        if joined < measures.bots, !isNamed(.counter(Measures.Counter.joined)) {
            faults.append("\(ReportNumbers.count(measures.bots - joined)) bots couldn't join")
        }
        let errors = [
            ("unsent", "messages couldn't be sent: their bots had no connection"), ("unanswered", "messages had no answer when it ended"),
            ("timeout", "requests had no answer in time"),
        ]
        for (code, words) in errors {
            guard let count = measures.errors[code], count > 0, !isNamed(.errors(nil)), !isNamed(.errors(code)) else { continue }
            faults.append("\(ReportNumbers.count(count)) \(words)")
        }
        let cutOff = measures.counter(Measures.Counter.cutOff)
        if cutOff > 0, !isNamed(.counter(Measures.Counter.cutOff)) {
            faults.append("\(ReportNumbers.count(cutOff)) bots had lost their connections when it ended, and hadn't come back")
        }
        if measures.isInterrupted, measures.measuredSeconds <= 0 {
            faults.append("it was interrupted before anything counted, so nothing is proved")
        } else if !isAnythingProved(measures, isAsked: expectations.isEmpty), !isNamed(.counter(Measures.Counter.acknowledged)) {
            faults.append("nothing was acknowledged, so nothing is proved")
        }
        return faults
    }

    /// `isAsked`: nobody said what is to hold. Who expects that all can join, say, needs nobody who talks.
    private static func isAnythingProved(_ measures: Measures, isAsked: Bool) -> Bool {
        if measures.counter(Measures.Counter.acknowledged) > 0 { return true }
        if measures.counter(Measures.Counter.sent) > 0 { return false }
        // Of who only watches others nothing is acknowledged; who was interrupted may not have come to talk.
        let isSeen = measures.latency(Measures.Lane("presence")).count > 0
        return !isAsked || isSeen || measures.counter(Measures.Counter.presenceTold) > 0 && !measures.isInterrupted
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
                    : broken > 0
                        ? "FAILED: \(broken) of \(judgements.count) expectations broken"
                        : "FAILED: the run isn't whole, so the expectations it kept prove too little")
        }
        return lines.joined(separator: "\n")
    }
}
