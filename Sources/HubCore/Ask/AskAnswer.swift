import HubBase
import HubWire

/// What a backend said. Its body is outside input: see `AskAnswerReader`.
package struct AskAnswer: Sendable {
    package enum Verdict: Sendable {
        case allow(AskAllowance)
        case deny(WireError)
    }

    package var verdict: Verdict
    /// How long it holds for the same question; nil: it doesn't say.
    package var ttl: Span?
    /// Bytes of the body it was read from.
    package var weight: Int
    /// What of a denial couldn't be read: it denies all the same.
    package var slip: AskFault?

    /// When what it allows ends, milliseconds since 1970; nil: it doesn't say, or it's a denial.
    package var expires: UInt64? {
        if case .allow(let allowance) = verdict { return allowance.expires }
        return nil
    }

    package init(_ verdict: Verdict, ttl: Span? = nil, weight: Int = 0, slip: AskFault? = nil) {
        self.verdict = verdict
        self.ttl = ttl
        self.weight = weight
        self.slip = slip
    }
}

/// What an allowing answer brings.
package struct AskAllowance: Sendable {
    /// Where the backend checks the token: whose it is.
    package var user = Name.empty
    /// Milliseconds since 1970.
    package var expires: UInt64?
    /// nil without `caps`: then the namespaces' rules say what is granted.
    package var grants: Grants?
    /// What the connection is subscribed to from the start.
    package var channels: [Name] = []
    /// JSON, in place of what was to be published.
    package var payload: [UInt8]?

    package init() {}
}

/// Why a body is no answer: our own words, for logs.
package struct AskFault: Error, Sendable, Equatable, CustomStringConvertible {
    package let text: StaticString

    package init(_ text: StaticString) { self.text = text }

    package static func == (left: AskFault, right: AskFault) -> Bool { "\(left.text)" == "\(right.text)" }
    package var description: String { "\(text)" }
}
