import HubBase
import HubCheck

/// What a run came to. Counts; latencies in nanoseconds from the scheduled time to the receiver's read.
package struct SwarmReport: Sendable {
    package var bots = 0
    package var rooms = 0
    package var seconds: UInt64 = 0
    package var seed: UInt64 = 0
    /// Bots that were in their room when the measurement began.
    package var joined = 0
    /// Arrivals of the schedule that were written to a connection.
    package var sent: UInt64 = 0
    package var acked: UInt64 = 0
    /// By error code; `timeout`: no answer in time; `disconnected`: the connection ended before the answer; `unsent`: the bot had no
    /// connection until the end, or too many messages waiting.
    package var refused: [String: UInt64] = [:]
    package var tally = Receiver.Tally()
    /// By the rules of `DeliveryChecker`, over reconnects too; nil: too many deliveries to remember.
    package var check: CheckReport?
    package var reconnects: UInt64 = 0
    /// Channels that began anew under the swarm (a new epoch).
    package var restarts: UInt64 = 0
    /// Messages in our rooms that aren't ours.
    package var foreign: UInt64 = 0
    /// Bots that were out when it ended, and hadn't come back.
    package var cutOff: UInt64 = 0
    /// Attempts to connect that got no welcome.
    package var notLetIn: UInt64 = 0
    /// What came to bots that had asked for none of it.
    package var unasked: UInt64 = 0
    package var latency = Histogram()
    /// Why connections ended or couldn't be made, most frequent first when shown.
    package var ends: [String: UInt64] = [:]
    /// The whole run was cut short by a signal.
    package var isInterrupted = false

    package init() {}

    /// Everything that was acknowledged came to everybody once and in order; and there was something, from everybody who was to send: a hub
    /// that went away has lost nothing, but proved nothing either.
    package var isClean: Bool {
        check?.counts.isEmpty ?? true && tally.lost == 0 && tally.duplicated == 0 && tally.outOfOrder == 0 && joined == bots && acked > 0
            && unsent == 0 && unasked == 0
    }

    private var unsent: UInt64 { refused["unsent", default: 0] }

    // MARK: For people

    package var text: String { (lines + [verdict]).joined(separator: "\n") }

    /// With `judging`'s word where there are expectations, which is printed behind it, or where it knows of more.
    package func text(_ judging: Judging) -> String {
        guard judging.judgements.isEmpty else { return lines.joined(separator: "\n") }
        if !isClean || judging.faults.isEmpty { return text }
        return (lines + ["FAILED: " + ReportNumbers.plain(judging.faults.joined(separator: "; "))]).joined(separator: "\n")
    }

    private var lines: [String] {
        var lines = [
            "\(Self.grouped(UInt64(joined))) of \(Self.grouped(UInt64(bots))) bots in \(Self.grouped(UInt64(rooms))) rooms for \(seconds) s"
                + (isInterrupted ? ", interrupted" : "") + " (seed \(seed))"
        ]
        let rows: [(String, String)] = [
            ("sent", Self.grouped(sent)),
            ("acked", Self.grouped(acked)),
            ("refused", Self.grouped(refused.values.reduce(0, +)) + Self.list(refused)),
            ("delivered", Self.grouped(tally.delivered) + " of \(Self.grouped(tally.expected)) expected"),
            ("lost", Self.grouped(tally.lost)),
            ("duplicated", Self.grouped(tally.duplicated)),
            ("out of order", Self.grouped(tally.outOfOrder)),
            ("reconnects", Self.grouped(reconnects) + Self.list(ends)),
            (
                "latency ms",
                "p50 \(Self.milliseconds(latency.percentile(50)))  p90 \(Self.milliseconds(latency.percentile(90)))  "
                    + "p99 \(Self.milliseconds(latency.percentile(99)))  max \(Self.milliseconds(latency.max))"
            ),
        ]
        for (name, value) in rows { lines.append("  " + name + String(repeating: " ", count: 14 - name.count) + value) }
        if restarts > 0 { lines.append("  \(Self.grouped(restarts)) times a room began anew: what it lost before isn't counted above") }
        if let check {
            lines.append(
                "  checked       \(Self.grouped(check.delivered)) deliveries and \(Self.grouped(check.recovered)) recoveries one by one")
            for finding in check.findings.prefix(10) {
                lines.append("  \(finding.fault.rawValue): \(finding.channel): bot \(finding.client) \(finding.text)")
            }
        } else {
            lines.append("  too many deliveries are expected to check each: judged by offsets, without what was missed between connections")
        }
        if foreign > 0 { lines.append("  \(Self.grouped(foreign)) messages of others were in our rooms") }
        return lines
    }

    private var verdict: String {
        if isClean { return "OK: nothing lost, duplicated or out of order" }
        if tally.lost > 0 || tally.duplicated > 0 || tally.outOfOrder > 0 {
            return
                "FAILED: \(Self.grouped(tally.lost)) lost, \(Self.grouped(tally.duplicated)) duplicated, \(Self.grouped(tally.outOfOrder)) out of order"
        }
        if let check, !check.counts.isEmpty { return "FAILED: the checker found \(Self.grouped(check.counts.values.reduce(0, +))) faults" }
        if unasked > 0 { return "FAILED: \(Self.grouped(unasked)) things came to bots that hadn't asked for them" }
        if joined < bots { return "FAILED: \(Self.grouped(UInt64(bots - joined))) bots couldn't join" }
        if unsent > 0 { return "FAILED: \(Self.grouped(unsent)) messages couldn't be sent: their bots had no connection" }
        return "FAILED: nothing was acknowledged, so nothing is proved"
    }

    /// " (name 3, other 1)": the five most frequent; nothing when there are none.
    private static func list(_ counts: [String: UInt64]) -> String {
        guard !counts.isEmpty else { return "" }
        let sorted = counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
        let shown = sorted.prefix(5).map { "\($0.key) \(grouped($0.value))" }.joined(separator: ", ")
        return " (" + shown + (sorted.count > 5 ? ", …" : "") + ")"
    }

    /// "12,345".
    package static func grouped(_ value: UInt64) -> String {
        var digits = Array(String(value))
        var place = digits.count - 3
        while place > 0 {
            digits.insert(",", at: place)
            place -= 3
        }
        return String(digits)
    }

    /// Three digits after the point, without Foundation's formatter.
    package static func milliseconds(_ nanoseconds: UInt64) -> String {
        let microseconds = nanoseconds / 1000 + (nanoseconds % 1000 >= 500 ? 1 : 0)
        let fraction = String(microseconds % 1000)
        return "\(microseconds / 1000)." + String(repeating: "0", count: 3 - fraction.count) + fraction
    }

    // MARK: For programs

    /// One line of JSON. Latencies in milliseconds.
    package var json: String { json(isKept: isClean) }

    /// `isKept`: what the exit code says.
    package func json(isKept: Bool) -> String {
        func object(_ counts: [String: UInt64]) -> String {
            "{" + counts.sorted { $0.key < $1.key }.map { "\(Self.quoted($0.key)):\($0.value)" }.joined(separator: ",") + "}"
        }
        let fields: [(String, String)] = [
            ("bots", "\(bots)"), ("rooms", "\(rooms)"), ("seconds", "\(seconds)"), ("seed", "\(seed)"), ("joined", "\(joined)"),
            ("sent", "\(sent)"), ("acked", "\(acked)"), ("refused", object(refused)),
            ("delivered", "\(tally.delivered)"), ("expected", "\(tally.expected)"), ("lost", "\(tally.lost)"),
            ("duplicated", "\(tally.duplicated)"), ("outOfOrder", "\(tally.outOfOrder)"),
            ("reconnects", "\(reconnects)"), ("ends", object(ends)), ("restarts", "\(restarts)"), ("foreign", "\(foreign)"),
            (
                "latency",
                "{\"p50\":\(Self.milliseconds(latency.percentile(50))),\"p90\":\(Self.milliseconds(latency.percentile(90))),"
                    + "\"p99\":\(Self.milliseconds(latency.percentile(99))),\"max\":\(Self.milliseconds(latency.max))}"
            ),
            ("checked", check.map { "\($0.counts.values.reduce(0, +))" } ?? "null"), ("interrupted", "\(isInterrupted)"),
            ("ok", "\(isKept)"),
        ]
        return "{" + fields.map { "\"\($0)\":\($1)" }.joined(separator: ",") + "}"
    }

    /// A JSON string (RFC 8259 §7).
    package static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case "\u{0}"..."\u{1F}": quoted += " "
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}
