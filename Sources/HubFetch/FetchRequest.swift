import HubBase

/// One HTTP request to somebody else.
package struct FetchRequest: Sendable {
    package enum Method: Sendable, Equatable { case get, post }

    package var method: Method
    package var url: FetchURL
    /// "Name: value", without line breaks. What stands in them never shows in a failure.
    package var headers: [String]
    package var body: [UInt8]
    /// From `Fetcher.send` to the last byte of the answer, the time in the queue included.
    package var deadline: Span
    /// The largest body of an answer: checked while it arrives, and before when the answer says its length.
    package var answerBytesMax: Int

    package init(
        method: Method, url: FetchURL, headers: [String] = [], body: [UInt8] = [], deadline: Span, answerBytesMax: Int
    ) {
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
        self.deadline = deadline
        self.answerBytesMax = answerBytesMax
    }
}

/// Why there is no answer. The texts are for an operator's log: they name hosts and what failed, never a path, a query, a header or a body.
package enum FetchFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// The request can't be made at all.
    case unusable(String)
    /// As many as may wait do so already.
    case busy(limit: Int)
    /// No connection: no such name, nobody there, not within the time for it.
    case unreachable(String)
    /// Connected, and no whole answer within the deadline.
    case timedOut(String)
    /// A certificate or a TLS version that isn't believed.
    case untrusted(String)
    case tooLarge(limit: Int)
    /// The connection ended within the exchange, or what came isn't HTTP.
    case broken(String)
    /// The fetcher was stopped.
    case stopped

    package var description: String {
        switch self {
        case .unusable(let text), .unreachable(let text), .timedOut(let text), .untrusted(let text), .broken(let text): text
        case .busy(let limit): "\(limit) requests are waiting already"
        case .tooLarge(let limit): "the answer has more than \(limit) bytes"
        case .stopped: "the node is stopping"
        }
    }

    /// One word, for metrics: a closed list.
    package var label: String {
        switch self {
        case .unusable: "unusable"
        case .busy: "busy"
        case .unreachable: "unreachable"
        case .timedOut: "timeout"
        case .untrusted: "untrusted"
        case .tooLarge: "too_large"
        case .broken: "broken"
        case .stopped: "stopped"
        }
    }
}
