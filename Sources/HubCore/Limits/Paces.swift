import HubBase

/// The rates of a configuration, worked out: what buckets are asked with.
package struct Paces: Sendable {
    // Asked for each message, so they're no elements of an array.
    package let messages: Rate
    package let bytes: Rate
    package let subscribes: Rate
    /// Refusals that a connection may get before it's closed.
    package let refusals: Rate
    /// Whether messages, bytes or subscriptions are counted for users, and for addresses.
    package let countsUsers: Bool
    package let countsAddresses: Bool
    private let rates: [Rate]

    /// When a connection that was closed for flooding may come back.
    package static let floodPause: Span = .seconds(10)

    package init(_ limits: Configuration.Limits) {
        let rates = RateLimit.allCases.map { limit in
            let rate = Rate(perSecond: limits.perSecond(limit), within: limits.burst)
            switch limit {
            case .messages: return Rate(perSecond: limits.messagesPerSecond, burst: limits.messageBurst)
            // Who comes back may subscribe to all that it had.
            case .subscribes:
                return max(rate.depth, rate.cost(limits.channels)) == rate.depth
                    ? rate : Rate(perSecond: rate.perSecond, burst: limits.channels)
            default: return rate
            }
        }
        func isOn(_ of: [RateLimit]) -> Bool { of.contains { rates[$0.rawValue].isLimited } }
        countsUsers = isOn([.userMessages, .userBytes, .userSubscribes])
        countsAddresses = isOn([.addressMessages, .addressBytes, .addressSubscribes])
        messages = rates[RateLimit.messages.rawValue]
        bytes = rates[RateLimit.bytes.rawValue]
        subscribes = rates[RateLimit.subscribes.rawValue]
        refusals = rates[RateLimit.refusals.rawValue]
        self.rates = rates
    }

    package subscript(limit: RateLimit) -> Rate { rates[limit.rawValue] }
}

extension Configuration.Limits {
    /// 0: no limit.
    package func perSecond(_ limit: RateLimit) -> Int {
        switch limit {
        case .messages: messagesPerSecond
        case .bytes: bytesPerSecond
        case .subscribes: subscribesPerSecond
        case .refusals: refusalsPerSecond
        case .userMessages: user.messages
        case .userBytes: user.bytes
        case .userSubscribes: user.subscribes
        case .userConnects: user.connects
        case .addressMessages: address.messages
        case .addressBytes: address.bytes
        case .addressSubscribes: address.subscribes
        case .addressConnects: address.connects
        case .addressFailures: address.failures
        case .keyRequests: key.requests
        case .keyMessages: key.messages
        }
    }
}
