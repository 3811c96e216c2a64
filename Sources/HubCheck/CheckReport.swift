import HubBase

/// What a `DeliveryChecker` came to.
package struct CheckReport: Sendable, Equatable {
    package enum Fault: String, Sendable, CaseIterable {
        /// Acknowledged, owed to somebody who stayed, and it never came.
        case lost
        /// Something was passed over without a word.
        case gap
        case twice
        case outOfOrder
        /// Two messages at one place, or two places for one message.
        case contradiction
        /// `recovered: true`, but not everything came.
        case falseRecovery
        /// Came to somebody who isn't subscribed.
        case unasked
    }

    package struct Finding: Sendable, Equatable {
        package var fault: Fault
        package var channel: Name
        /// The caller's number for the client.
        package var client: Int
        package var text: String

        package init(fault: Fault, channel: Name, client: Int, text: String) {
            self.fault = fault
            self.channel = channel
            self.client = client
            self.text = text
        }
    }

    package var sent: UInt64 = 0
    package var retries: UInt64 = 0
    package var acknowledged: UInt64 = 0
    package var refused: UInt64 = 0
    /// Sent, and neither acknowledged to the end.
    package var unanswered: UInt64 = 0
    package var delivered: UInt64 = 0
    package var recovered: UInt64 = 0
    package var unrecovered: UInt64 = 0
    package var resyncs: UInt64 = 0
    /// Acknowledged places that hold another message now; each was announced, was excused, or is a finding.
    package var takenBack: UInt64 = 0
    /// Subscriptions that were there at the end.
    package var subscriptions: UInt64 = 0
    /// The first hundred; `counts` has all.
    package private(set) var findings: [Finding] = []
    package private(set) var counts: [Fault: UInt64] = [:]

    private static let findingsMax = 100

    package init() {}

    package mutating func add(_ finding: Finding) {
        counts[finding.fault, default: 0] += 1
        if findings.count < CheckReport.findingsMax { findings.append(finding) }
    }

    package func count(_ fault: Fault) -> UInt64 { counts[fault] ?? 0 }

    /// Nothing was found, and there was something to find: a run without an ack or a delivery proves nothing.
    package var isClean: Bool { counts.isEmpty && acknowledged > 0 && delivered > 0 }

    /// Lines for people. `clients`: their names, by number.
    package func text(clients: [String] = []) -> String {
        var lines = [
            "sent \(sent), retried \(retries), acknowledged \(acknowledged), refused \(refused), without an answer \(unanswered)",
            "delivered \(delivered), recovered \(recovered), not recovered \(unrecovered), resyncs \(resyncs), taken back \(takenBack)",
        ]
        for finding in findings {
            let client = clients.indices.contains(finding.client) ? clients[finding.client] : "client \(finding.client)"
            lines.append("\(finding.fault.rawValue): \(finding.channel): \(client) \(finding.text)")
        }
        let total = counts.values.reduce(0, +)
        if total > UInt64(findings.count) { lines.append("and \(total - UInt64(findings.count)) more") }
        if isClean {
            lines.append("OK: nothing lost unannounced, nothing twice or out of order")
        } else if counts.isEmpty {
            lines.append("FAILED: nothing was acknowledged or delivered, so nothing is proved")
        } else {
            let kinds = Fault.allCases.filter { count($0) > 0 }.map { "\(count($0)) \($0.rawValue)" }
            lines.append("FAILED: " + kinds.joined(separator: ", "))
        }
        return lines.joined(separator: "\n")
    }
}
