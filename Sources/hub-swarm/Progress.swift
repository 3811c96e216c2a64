import Glibc
import HubBase
import HubClientNet
import HubSwarm

/// A run while it goes on, on standard error: a block that's redrawn once a second on a terminal, plain lines elsewhere. Standard output is
/// the report's.
struct Progress {
    private let isTerminal: Bool
    private var lines: ReportProgress
    /// Lines of the block that stand above the cursor.
    private var standing = 0

    init(title: String) {
        func variable(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
        isTerminal = isatty(2) == 1 && variable("TERM") != "dumb"
        // https://no-color.org: any value that isn't empty.
        lines = ReportProgress(title: title, hasColour: isTerminal && variable("NO_COLOR")?.isEmpty ?? true)
    }

    mutating func show(_ moment: ReportProgress.Moment) {
        lines.add(moment.point)
        guard isTerminal else { return write(ReportProgress.line(moment) + "\n") }
        let block = lines.block(moment)
        write((standing > 0 ? "\u{1B}[\(standing)A" : "") + block.map { "\r\u{1B}[K" + $0 + "\n" }.joined())
        standing = block.count
    }

    /// A line of its own, below what was being redrawn.
    mutating func say(_ text: String) {
        write("hub-swarm: " + text + "\n")
        standing = 0
    }

    /// The block stays as it is.
    mutating func end() { standing = 0 }

    private func write(_ text: String) { StandardError.write(text) }
}
