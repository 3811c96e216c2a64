import HubBase

/// A key that tokens are signed and checked with. The key decides the algorithm, never the token (RFC 8725 §3.1).
package struct TokenKey: Sendable {
    package enum Algorithm: String, Sendable { case hs256 = "HS256" }

    /// The `kid` that chooses it.
    package var id: String?
    package var algorithm: Algorithm
    package var secret: Secret

    package init(id: String?, algorithm: Algorithm = .hs256, secret: Secret) {
        self.id = id
        self.algorithm = algorithm
        self.secret = secret
    }
}
