import HubBase
import HubWire

/// What `/metrics` says of questions to backends.
enum AskMetrics {
    /// Of questions to backends, by their kind.
    static func write(_ asks: [AskShell.Numbers], _ page: inout MetricsPage) {
        func lines(_ label: String, _ value: (AskShell.Numbers) -> UInt64) {
            for (kind, numbers) in zip(AskKind.allCases, asks) { page.line("{ask=\"\(kind.name)\"\(label)}", "\(value(numbers))") }
        }
        page.family("hub_asks_total", "Questions to backends, by what counted: an answer, or that there was none.", "counter")
        lines(",outcome=\"allowed\"") { $0.allowed }
        lines(",outcome=\"denied\"") { $0.denied }
        lines(",outcome=\"failed\"") { $0.failed }
        page.family("hub_ask_requests_total", "Requests made for them.", "counter")
        lines("") { $0.asked }
        page.family("hub_ask_known_total", "Questions that an answer was kept for.", "counter")
        lines("") { $0.known }
        page.family("hub_ask_spared_total", "Questions that weren't asked because the backend failed lately.", "counter")
        lines("") { $0.spared }
        page.family("hub_ask_malformed_total", "Bodies that were no answers.", "counter")
        lines("") { $0.malformed }
        page.family("hub_ask_breaker_open", "1 while the backend isn't asked, but for a probe.", "gauge")
        lines("") { $0.isOpen ? 1 : 0 }
        page.family("hub_ask_breaker_openings_total", "How often the breaker opened, or a probe failed.", "counter")
        lines("") { $0.opened }
        page.family("hub_ask_breaker_pause_milliseconds", "How long nobody will be asked yet.", "gauge")
        lines("") { $0.pauseLeft.milliseconds }
        page.family("hub_ask_failures_total", "Questions without an answer, by the reason.", "counter")
        for (place, reason) in AskFailureReason.allCases.enumerated() { lines(",reason=\"\(reason.rawValue)\"") { $0.failures[place] } }
        page.family("hub_ask_request_milliseconds_total", "What the requests that came to an end took together.", "counter")
        lines("") { $0.time.milliseconds }
        page.family("hub_ask_under_way", "Questions that wait for an answer.", "gauge")
        lines("") { UInt64(max($0.underWay, 0)) }
        page.family("hub_ask_kept", "Answers that are kept.", "gauge")
        lines("") { UInt64(max($0.kept, 0)) }
    }
}
