import HubBase

/// What a token says, once its signature has been checked. Times are milliseconds since 1970.
package struct TokenClaims: Sendable, Equatable {
    /// `sub`.
    package var user: Name
    /// `exp`.
    package var expires: UInt64
    /// `iat`.
    package var issued: UInt64?
    /// `jti`: by which it could be revoked.
    package var tokenId: String?

    package init(user: Name, expires: UInt64, issued: UInt64? = nil, tokenId: String? = nil) {
        self.user = user
        self.expires = expires
        self.issued = issued
        self.tokenId = tokenId
    }
}
