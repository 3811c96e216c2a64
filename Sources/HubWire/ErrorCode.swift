/// Why a request was refused. A closed list that only grows; the name is what travels.
package enum ErrorCode: String, Sendable, CaseIterable {
    case malformed, unknownType, unauthenticated, tokenInvalid, tokenExpired, forbidden, notSubscribed, unknownChannel, badName
    case tooLarge, tooDeep, tooMany, rateLimited, badPosition, duplicateConflict, uncertain, unavailable, storeFull, overloaded
    case `internal`
    case unknownStream

    /// Whether the same request may succeed later, unchanged.
    package var mayRetry: Bool {
        switch self {
        case .rateLimited, .unavailable, .storeFull, .overloaded, .internal: true
        default: false
        }
    }

    /// The HTTP status that carries the same meaning (protocol: HTTP).
    package var httpStatus: Int {
        switch self {
        case .malformed, .unknownType, .badName, .badPosition, .tooDeep: 400
        case .unauthenticated, .tokenInvalid, .tokenExpired: 401
        case .forbidden: 403
        case .notSubscribed, .unknownChannel, .unknownStream: 404
        case .duplicateConflict, .uncertain: 409
        case .tooLarge: 413
        case .tooMany: 422
        case .rateLimited: 429
        case .unavailable, .storeFull, .overloaded: 503
        case .internal: 500
        }
    }
}

/// A refusal as people and programs read it.
package struct WireError: Error, Sendable, Equatable {
    package var code: ErrorCode
    /// One sentence: what was wrong, where, and what to do. Never holds a secret, never more than 200 bytes of what the peer sent.
    package var message: String
    /// Milliseconds after which a retry makes sense.
    package var retryAfter: UInt64?
    /// Whether the same request may succeed later, unchanged: the code's answer, unless this case is known better (a request that this
    /// version doesn't serve is `unavailable` for good).
    package var mayRetry: Bool

    package init(_ code: ErrorCode, _ message: String, retryAfter: UInt64? = nil, mayRetry: Bool? = nil) {
        self.code = code
        self.message = message
        self.retryAfter = retryAfter
        self.mayRetry = mayRetry ?? code.mayRetry
    }
}
