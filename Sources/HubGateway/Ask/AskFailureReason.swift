import HubFetch

/// Why a question had no answer: the closed list of `hub_ask_failures_total`.
enum AskFailureReason: String, Sendable, CaseIterable {
    case unreachable, timeout, untrusted, broken, tooLarge, status, malformed, busy, spared, stopped

    init(_ failure: FetchFailure) {
        switch failure {
        case .busy: self = .busy
        case .unreachable: self = .unreachable
        case .timedOut: self = .timeout
        case .untrusted: self = .untrusted
        case .tooLarge: self = .tooLarge
        case .broken: self = .broken
        case .unusable, .stopped: self = .stopped
        }
    }
}
