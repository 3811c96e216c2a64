import Glibc
import HubBase
import HubClientNet
import HubSwarm

/// One line a second on standard error: rewritten in place on a terminal, plain lines elsewhere. Standard output is the report's.
struct Progress {
    private let isTerminal = isatty(2) == 1
    private var hasLine = false

    struct Numbers {
        var phase: String
        var connected: Int
        var sent: UInt64
        var acked: UInt64
        var delivered: UInt64
        var errors: UInt64
    }

    mutating func show(_ numbers: Numbers, interval: Histogram) {
        var text =
            "\(numbers.phase)  connected \(SwarmReport.grouped(UInt64(numbers.connected)))  sent \(SwarmReport.grouped(numbers.sent))"
        text += "  acked \(SwarmReport.grouped(numbers.acked))  delivered \(SwarmReport.grouped(numbers.delivered))"
        text += "  errors \(SwarmReport.grouped(numbers.errors))"
        if interval.count > 0 {
            text +=
                "  p50 \(SwarmReport.milliseconds(interval.percentile(50))) ms  p99 \(SwarmReport.milliseconds(interval.percentile(99))) ms"
        }
        showLine(text)
    }

    mutating func showLine(_ text: String) {
        write(isTerminal ? "\r\u{1B}[K" + text : text + "\n")
        hasLine = isTerminal
    }

    /// A line of its own, below what was being rewritten.
    mutating func say(_ text: String) {
        write((hasLine ? "\n" : "") + "hub-swarm: " + text + "\n")
        hasLine = false
    }

    mutating func end() {
        if hasLine { write("\n") }
        hasLine = false
    }

    private func write(_ text: String) { StandardError.write(text) }
}
