import HubBase
import HubWire

/// Header and claims of a token as text, for people to look at. Nothing is checked: who decides anything by it is fooled.
package struct TokenParts: Sendable {
    package var header: [UInt8]
    package var claims: [UInt8]

    /// nil when it hasn't the form of a token, or says what isn't JSON.
    package init?(_ token: [UInt8]) {
        let parts = token.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard token.count <= TokenVerifier.byteCountMax, parts.count == 3, let header = Base64URL.decode(parts[0]),
            let claims = Base64URL.decode(parts[1]), TokenFields(header) != nil, TokenFields(claims) != nil
        else { return nil }
        self.header = header
        self.claims = claims
    }
}
