import HubBase
import HubWire

/// Checks tokens: JWTs in the compact form (RFC 7519, RFC 7515 §3.1), against the rules of RFC 8725. A value; the time is an argument.
///
/// Whatever is wrong with form or signature is one and the same answer, so that it tells an attacker nothing; only a token that's
/// genuinely ours learns that it's expired or not yet valid.
package struct TokenVerifier: Sendable {
    private let keys: [TokenKey]

    /// The longest token that is looked at.
    package static let byteCountMax = 8 * 1024

    /// How far the minter's clock may be ahead of ours, for `nbf`. `exp` has no such leeway: it also ends the live connection.
    package static let leewayMilliseconds: UInt64 = 60_000

    package init(keys: [TokenKey]) { self.keys = keys }

    /// `now` in milliseconds since 1970. Cost: an HMAC for each key that may be meant, and some short-lived allocations.
    package func verify(_ token: UnsafeRawBufferPointer, nowMilliseconds now: UInt64) -> Result<TokenClaims, WireError> {
        guard token.count <= Self.byteCountMax, let claims = signedClaims(token), let fields = TokenFields(claims) else {
            return .failure(Self.invalid)
        }
        return Self.judge(fields, now: now)
    }

    package func verify(_ token: [UInt8], nowMilliseconds now: UInt64) -> Result<TokenClaims, WireError> {
        token.withUnsafeBytes { verify($0, nowMilliseconds: now) }
    }

    private static let invalid = WireError(
        .tokenInvalid, "the token isn't one that this hub accepts: its form, its signature or its key is wrong")

    /// The claims' bytes when one of our keys has signed them.
    private func signedClaims(_ token: UnsafeRawBufferPointer) -> [UInt8]? {
        let dot = UInt8(ascii: ".")
        guard let first = token.firstIndex(of: dot), let last = token.lastIndex(of: dot), first < last,
            !token[(first + 1)..<last].contains(dot),
            let header = Base64URL.decode(token[..<first]).flatMap(TokenFields.init),
            let signature = Base64URL.decode(token[(last + 1)...]),
            // Extensions that we must understand or refuse (RFC 7515 §4.1.11): we understand none.
            !header.has("crit")
        else { return nil }
        guard case .value(let algorithm) = header.text("alg") else { return nil }
        let id: [UInt8]?
        switch header.text("kid") {
        case .absent: id = nil
        case .wrong: return nil
        case .value(let text): id = text
        }
        let signed = UnsafeRawBufferPointer(rebasing: token[..<last])
        let isOurs = candidates(id).contains { key in
            Array(key.algorithm.rawValue.utf8) == algorithm && MessageCode.isEqual(MessageCode.sha256(signed, key.secret), signature)
        }
        return isOurs ? Base64URL.decode(token[(first + 1)..<last]) : nil
    }

    /// The key that `kid` names; a key without an id stands for any. Without `kid`, all: so that a key can be replaced by two at once.
    private func candidates(_ id: [UInt8]?) -> [TokenKey] {
        guard let id else { return keys }
        let named = keys.filter { $0.id.map { Array($0.utf8) } == id }
        return named.isEmpty ? keys.filter { $0.id == nil } : named
    }

    private static func judge(_ fields: TokenFields, now: UInt64) -> Result<TokenClaims, WireError> {
        guard case .value(let subject) = fields.text("sub"), let user = Name(validating: subject) else {
            return .failure(.init(.tokenInvalid, "the token's sub must be a user id of 1 to 255 bytes without control characters"))
        }
        guard case .value(let expires) = fields.time("exp") else {
            return .failure(.init(.tokenInvalid, "the token's exp must be there, in whole seconds since 1970"))
        }
        switch fields.time("nbf") {
        case .absent: break
        case .wrong: return .failure(.init(.tokenInvalid, "the token's nbf must be in whole seconds since 1970"))
        case .value(let begin):
            if begin > now.addingReportingOverflow(leewayMilliseconds).partialValue {
                return .failure(.init(.tokenInvalid, "the token isn't valid yet: its nbf is later than now"))
            }
        }
        var issued: UInt64?
        switch fields.time("iat") {
        case .absent: break
        case .wrong: return .failure(.init(.tokenInvalid, "the token's iat must be in whole seconds since 1970"))
        case .value(let time): issued = time
        }
        // RFC 7519 §4.1.3: who isn't the audience must refuse. This version has no name of its own that could be meant.
        if fields.has("aud") {
            return .failure(.init(.tokenInvalid, "the token is for a certain audience (aud), which this version can't be"))
        }
        guard expires > now else { return .failure(.init(.tokenExpired, "the token has expired: get a new one")) }
        var tokenId: String?
        if case .value(let text) = fields.text("jti") { tokenId = String(validating: text, as: UTF8.self) }
        return .success(TokenClaims(user: user, expires: expires, issued: issued, tokenId: tokenId))
    }
}
