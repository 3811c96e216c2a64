import HubBase
import HubWire

/// Every limit of so much a second, by whom it's counted for. A closed list: it names settings, and is a label of metrics.
package enum RateLimit: Int, CaseIterable, Sendable {
    // Of one connection.
    case messages, bytes, subscribes, refusals
    // Of one user, over all connections of all nodes.
    case userMessages, userBytes, userSubscribes, userConnects
    // Of one client address, on one node.
    case addressMessages, addressBytes, addressSubscribes, addressConnects, addressFailures
    // Of one API key over HTTP, on one node.
    case keyRequests, keyMessages

    /// The setting's name.
    package var path: String { "limits.\(label)PerSecond" }

    /// For metrics and the log.
    package var label: String {
        switch self {
        case .messages: "messages"
        case .bytes: "bytes"
        case .subscribes: "subscribes"
        case .refusals: "refusals"
        case .userMessages: "user.messages"
        case .userBytes: "user.bytes"
        case .userSubscribes: "user.subscribes"
        case .userConnects: "user.connects"
        case .addressMessages: "address.messages"
        case .addressBytes: "address.bytes"
        case .addressSubscribes: "address.subscribes"
        case .addressConnects: "address.connects"
        case .addressFailures: "address.failures"
        case .keyRequests: "key.requests"
        case .keyMessages: "key.messages"
        }
    }

    private var words: String {
        switch self {
        case .messages: "messages"
        case .bytes: "bytes"
        case .subscribes: "subscriptions"
        case .refusals: "refusals"
        case .userMessages: "messages of one user"
        case .userBytes: "bytes of one user"
        case .userSubscribes: "subscriptions of one user"
        case .userConnects: "connections of one user"
        case .addressMessages: "messages from one address"
        case .addressBytes: "bytes from one address"
        case .addressSubscribes: "subscriptions from one address"
        case .addressConnects: "connections from one address"
        case .addressFailures: "tokens or keys of one address refused"
        case .keyRequests: "requests with one API key"
        case .keyMessages: "publications with one API key"
        }
    }

    /// What a client is told that went past it: which limit, and when to try again.
    package func refusal(_ rate: Rate, after wait: Span) -> Refusal {
        let milliseconds = wait.nanoseconds / 1_000_000 + (wait.nanoseconds % 1_000_000 == 0 ? 0 : 1)
        return Refusal(
            WireError(.rateLimited, "more than \(rate.perSecond) \(words) a second (\(path))", retryAfter: max(milliseconds, 1)),
            limit: self)
    }
}
