import HubBase

extension Expectation {
    package static func judge(_ expectations: [Expectation], _ measures: Measures) -> [Judgement] {
        expectations.map { $0.judge(measures) }
    }

    package func judge(_ measures: Measures) -> Judgement {
        guard let value = value(in: measures) else { return Judgement(expectation: text, measured: nothing, isKept: false) }
        let target: Double
        let shown: String
        var measured = value.value
        switch bound {
        case .nanoseconds(let bound):
            target = bound
            shown = ReportNumbers.time(UInt64(max(0, value.value)))
        case .number(let bound):
            target = bound
            shown = isRate ? ReportNumbers.rate(value.value) : ReportNumbers.count(UInt64(max(0, value.value)))
        case .share(let bound):
            guard let whole = value.whole, whole > 0 else { return Judgement(expectation: text, measured: nothing, isKept: false) }
            target = bound
            measured = value.value / whole
            shown =
                ReportNumbers.percent(measured) + " (\(ReportNumbers.count(UInt64(value.value))) of \(ReportNumbers.count(UInt64(whole))))"
        }
        return Judgement(expectation: text, measured: shown, isKept: isKept(measured, target))
    }

    private var isRate: Bool { if case .rate = measure { true } else { false } }

    private func isKept(_ value: Double, _ target: Double) -> Bool {
        switch comparison {
        case .less: value < target
        case .atMost: value <= target
        case .more: value > target
        case .atLeast: value >= target
        case .equal, .same: value == target
        case .not: value != target
        }
    }

    private var nothing: String {
        switch measure {
        case .percentile, .maximum: "nothing was measured"
        case .violations: "nothing was delivered, so nothing is proved"
        default: "nothing was sent, so nothing is proved"
        }
    }

    /// The value, and what it's a part of; nil when the run can't tell.
    private func value(in measures: Measures) -> (value: Double, whole: Double?)? {
        let sent = measures.counter(Measures.Counter.sent)
        switch measure {
        case .percentile(let percent, let lane):
            let histogram = measures.latency(lane)
            return histogram.count > 0 ? (Double(histogram.percentile(percent)), nil) : nil
        case .maximum(let lane):
            let histogram = measures.latency(lane)
            return histogram.count > 0 ? (Double(histogram.max), nil) : nil
        case .violations(let kind):
            let delivered = measures.counter(Measures.Counter.delivered)
            let found = kind.map { measures.violations[$0] ?? 0 } ?? measures.violationsSum
            // What was found is found, even when nothing came.
            guard delivered > 0 || found > 0 else { return nil }
            return (Double(found), Double(max(measures.counter(Measures.Counter.expected), delivered)))
        case .errors(let code):
            let found = code.map { measures.errors[$0] ?? 0 } ?? measures.errorsSum
            // What was found is found, even when nothing could be sent.
            guard sent > 0 || found > 0 else { return nil }
            // Files of before requests were counted have what was sent alone.
            return (Double(found), Double(max(measures.counters[Measures.Counter.requests] ?? sent, found)))
        case .ends:
            return (Double(measures.ends.values.reduce(0, Measures.sum)), Double(measures.bots))
        case .counter(let name):
            let whole: UInt64? =
                switch name {
                case Measures.Counter.joined: measures.bots
                case Measures.Counter.delivered: measures.counter(Measures.Counter.expected)
                case Measures.Counter.acknowledged: sent
                default: nil
                }
            return (Double(measures.counter(name)), whole.map { Double($0) })
        case .rate(let name):
            let seconds = measures.measuredSeconds
            return seconds > 0 ? (Double(measures.counter(name)) / seconds, nil) : nil
        }
    }
}

extension Measures {
    package var violationsSum: UInt64 { violations.values.reduce(0, Self.sum) }
    package var errorsSum: UInt64 { errors.values.reduce(0, Self.sum) }
    /// Seconds that counted.
    package var measuredSeconds: Double { measured > warmUp ? Double(measured.nanoseconds - warmUp.nanoseconds) / 1e9 : 0 }
}
