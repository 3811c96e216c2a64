import COpenSSL
import HubBase
import HubCore

/// What a token says, once its signature has been checked. Times are milliseconds since 1970.
package struct TokenClaims: Sendable, Equatable {
    /// `sub`.
    package var user: Name
    /// `exp`.
    package var expires: UInt64
    /// `iat`.
    package var issued: UInt64?
    /// `jti`: by which it can be revoked.
    package var tokenId: Name?
    /// `caps`, and to hear its `channels`; nil without `caps`: then the namespaces' rules say what it grants.
    package var grants: Grants?
    /// `channels`: what its connections are subscribed to from the start.
    package var channels: [Name]

    package init(
        user: Name, expires: UInt64, issued: UInt64? = nil, tokenId: Name? = nil, grants: Grants? = nil, channels: [Name] = []
    ) {
        self.user = user
        self.expires = expires
        self.issued = issued
        self.tokenId = tokenId
        self.grants = grants
        self.channels = channels
    }

    /// What is wrong with a user's id, after "must be …"; nil when it's fine. Every user has an inbox, and none is called what the connections of API
    /// keys are called (decision 0270).
    package static func problem(ofUser user: Name?) -> String? {
        guard let user, Inbox.channel(of: user) != nil else {
            return "a user id of 1 to \(Name.lengthMax - Inbox.prefix.count) bytes without control characters"
        }
        return user.bytes.starts(with: servicePrefix) ? "another one: what begins with \"api:\" is kept for API keys" : nil
    }

    /// What the connections of API keys are called: this and the key's id.
    package static let servicePrefix = Array("api:".utf8)

    /// Channels that a token may name.
    package static let channelsMax = 32
}

/// The first 64 bits of a token id's SHA-256: what a connection remembers of it. 0 stands for none.
package enum TokenMark {
    package static func of(_ tokenId: Name?) -> UInt64 {
        guard let tokenId else { return 0 }
        var digest = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_LENGTH))
        SHA256(tokenId.bytes, tokenId.bytes.count, &digest)
        let mark = digest.prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        return max(mark, 1)
    }
}
