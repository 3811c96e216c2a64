/// A run while it goes on, as lines: a small block that a terminal redraws, or one line a second elsewhere. Pure; the last minute's points
/// are kept for the sparklines.
package struct ReportProgress: Sendable {
    package struct Moment: Sendable {
        /// Since the beginning.
        package var seconds: UInt64
        package var phase: String
        package var point: Measures.Point
        /// Of how many bots.
        package var bots: UInt64
        /// Workers that still answer, of how many; nil: one process.
        package var workers: (answering: Int, all: Int)?

        package init(seconds: UInt64, phase: String, point: Measures.Point, bots: UInt64, workers: (answering: Int, all: Int)? = nil) {
            self.seconds = seconds
            self.phase = phase
            self.point = point
            self.bots = bots
            self.workers = workers
        }
    }

    private static let kept = 60
    private static let width = 78
    private let title: String
    private let hasColour: Bool
    private var delivered: [UInt64] = []
    private var latencies: [UInt64] = []

    package init(title: String, hasColour: Bool) {
        self.title = ReportNumbers.plain(title)
        self.hasColour = hasColour
    }

    package mutating func add(_ point: Measures.Point) {
        delivered = Array((delivered + [point.delivered]).suffix(Self.kept))
        latencies = Array((latencies + [point.latency.percentile(99)]).suffix(Self.kept))
    }

    /// For files and pipes.
    package static func line(_ moment: Moment) -> String {
        let point = moment.point
        var text =
            "\(moment.seconds) s  \(moment.phase)  connected \(ReportNumbers.count(point.connected))  sent \(ReportNumbers.count(point.sent))/s"
        text += "  acked \(ReportNumbers.count(point.acknowledged))/s  delivered \(ReportNumbers.count(point.delivered))/s"
        text += "  errors \(ReportNumbers.count(point.errors))/s"
        if point.latency.count > 0 {
            text += "  p50 \(ReportNumbers.time(point.latency.percentile(50)))  p99 \(ReportNumbers.time(point.latency.percentile(99)))"
        }
        if let workers = moment.workers { text += "  workers \(workers.answering)/\(workers.all)" }
        return text
    }

    /// For a terminal: always as many lines, none wider than 78 columns (a wrapped line would break the redrawing).
    package func block(_ moment: Moment) -> [String] {
        let point = moment.point
        let latency = point.latency
        var head = "\(title)  \(moment.seconds) s  \(moment.phase)"
        if let workers = moment.workers { head += "  workers \(workers.answering) of \(workers.all)" }
        let rates =
            "connected \(ReportNumbers.count(point.connected)) of \(ReportNumbers.count(moment.bots))   sent \(ReportNumbers.count(point.sent))/s   "
            + "delivered \(ReportNumbers.count(point.delivered))/s   errors \(ReportNumbers.count(point.errors))/s"
        var times = "nothing delivered"
        if latency.count > 0 {
            times =
                "p50 \(ReportNumbers.time(latency.percentile(50)))   p99 \(ReportNumbers.time(latency.percentile(99)))   longest \(ReportNumbers.time(latency.max))"
        }
        if let own = point.busiestCPU ?? point.ownCPU { times += "   swarm CPU \(ReportNumbers.percent(Double(own) / 1e6))" }
        return [
            cut(head), paint(cut(rates), point.errors > 0 ? 31 : nil), cut(times), "delivered \(paint(Self.sparkline(delivered), 36))",
            "p99       \(paint(Self.sparkline(latencies), 33))",
        ]
    }

    private func cut(_ text: String) -> String { text.count > Self.width ? text.prefix(Self.width - 1) + "…" : text }

    private func paint(_ text: String, _ colour: Int?) -> String {
        guard hasColour, let colour else { return text }
        return "\u{1B}[\(colour)m\(text)\u{1B}[0m"
    }

    /// One of eight heights for each value, the largest the highest; a space where there's nothing.
    package static func sparkline(_ values: [UInt64]) -> String {
        let heights = Array("▁▂▃▄▅▆▇█")
        guard let highest = values.max(), highest > 0 else { return String(repeating: " ", count: values.count) }
        return String(values.map { $0 == 0 ? " " : heights[min(Int(Double($0) / Double(highest) * 8), 7)] })
    }
}
