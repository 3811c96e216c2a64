import Glibc
import HubBase
import HubCheck
import HubClientNet
import HubSwarm

/// What becomes of a run with flags for reports.
extension Swarm {
    static func blank(_ options: SwarmOptions) -> Measures {
        var measures = Measures()
        measures.seed = options.seed
        measures.bots = UInt64(options.bots)
        measures.date = UInt64(clamping: time(nil))
        measures.options = [
            ["bots", String(options.bots * options.part.count)], ["rooms", String(options.rooms * options.part.count)],
            ["seconds", String(options.seconds)], ["rate", ReportNumbers.significant(options.rate)], ["size", String(options.size)],
            ["connect-rate", ReportNumbers.significant(options.connectRate * Double(options.part.count))],
        ]
        measures.environment = ReportCommand.environment(urls: options.target.urls.map(\.description))
        return measures
    }

    func measures(at end: Instant) -> Measures {
        var measures = recorder.finish(at: end, connected: connectedAtLast ?? connected, ownCPU: ProcessorTime.own())
        measures.isInterrupted = report.isInterrupted
        measures.counters = [
            Measures.Counter.joined: UInt64(report.joined), Measures.Counter.sent: report.sent, Measures.Counter.acknowledged: report.acked,
            Measures.Counter.delivered: report.tally.delivered, Measures.Counter.expected: report.tally.expected,
            Measures.Counter.reconnects: report.reconnects, Measures.Counter.restarts: report.restarts, "foreign": report.foreign,
            Measures.Counter.cutOff: report.cutOff, Measures.Counter.notLetIn: report.notLetIn,
            Measures.Counter.requests: bots.indices.reduce(report.refused["unsent"] ?? 0) { $0 + fleet.requestsMade($1) },
        ]
        var violations = [
            "lost": report.tally.lost, "duplicated": report.tally.duplicated, "outOfOrder": report.tally.outOfOrder,
            "unasked": report.unasked,
        ]
        if let check = report.check {
            measures.counters[Measures.Counter.checked] = check.delivered
            measures.counters[Measures.Counter.recovered] = check.recovered
            // Both looked at the same deliveries: what both found is one thing.
            var found: [String: UInt64] = [:]
            for (fault, count) in check.counts {
                let name =
                    switch fault {
                    case .lost, .gap: "lost"
                    case .twice: "duplicated"
                    default: fault.rawValue
                    }
                found[name, default: 0] += count
            }
            for (name, count) in found { violations[name] = max(violations[name] ?? 0, count) }
            measures.findings = check.findings.map { "\($0.fault.rawValue): \($0.channel): bot \($0.client) \($0.text)" }
        }
        measures.violations = violations.filter { $0.value > 0 }
        return measures
    }
}
