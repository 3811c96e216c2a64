import HubBase
import HubWire

/// What a token is to say. Times in seconds since 1970.
package struct TokenDraft: Sendable {
    package var user: Name
    package var issued: UInt64
    package var expires: UInt64
    package var notBefore: UInt64?
    package var issuer: String?
    package var audience: String?
    package var tokenId: String?
    /// nil: no `caps` claim at all.
    package var caps: [(pattern: String, rights: [String])]?
    package var channels: [String] = []

    package init(user: Name, issued: UInt64, expires: UInt64) {
        self.user = user
        self.issued = issued
        self.expires = expires
    }
}

/// Makes tokens: `hubctl token`, the swarm, tests.
package enum TokenMinter {
    /// A JWT, signed with the key's algorithm. Throws when the key is a public one.
    package static func mint(_ draft: TokenDraft, key: TokenKey) throws(TokenKey.Problem) -> [UInt8] {
        var header = ByteBuffer(capacity: 64)
        header.append("{\"alg\":\"")
        header.append(Array(key.algorithm.rawValue.utf8))
        header.append("\",\"typ\":\"JWT\"")
        if let id = key.id { append(",\"kid\":", id, to: &header) }
        header.append("}")
        return try sign(header: header.copyBytes(), claims: claims(draft), key: key)
    }

    package static func mint(user: Name, issued: UInt64, expires: UInt64, key: TokenKey) throws(TokenKey.Problem) -> [UInt8] {
        try mint(TokenDraft(user: user, issued: issued, expires: expires), key: key)
    }

    /// Header and claims as they are, signed, in the compact form (RFC 7515 §3.1).
    package static func sign(header: [UInt8], claims: [UInt8], key: TokenKey) throws(TokenKey.Problem) -> [UInt8] {
        var token = Base64URL.encode(header) + [UInt8(ascii: ".")] + Base64URL.encode(claims)
        let signature: [UInt8]
        switch key.material {
        case .secret(let secret): signature = token.withUnsafeBytes { MessageCode.make($0, secret, key.algorithm) }
        case .key(let asymmetric):
            guard let made = asymmetric.sign(token, key.algorithm) else {
                throw TokenKey.Problem(message: "can't sign: a private key is needed")
            }
            signature = made
        }
        token.append(UInt8(ascii: "."))
        token += Base64URL.encode(signature)
        return token
    }

    /// The claims of a token, unsigned.
    package static func claims(_ draft: TokenDraft) -> [UInt8] {
        var claims = ByteBuffer(capacity: 256)
        append("{\"sub\":", draft.user.bytes, to: &claims)
        append(",\"iat\":", draft.issued, to: &claims)
        append(",\"exp\":", draft.expires, to: &claims)
        if let begin = draft.notBefore { append(",\"nbf\":", begin, to: &claims) }
        if let issuer = draft.issuer { append(",\"iss\":", issuer, to: &claims) }
        if let audience = draft.audience { append(",\"aud\":", audience, to: &claims) }
        if let tokenId = draft.tokenId { append(",\"jti\":", tokenId, to: &claims) }
        if let caps = draft.caps {
            claims.append(",\"caps\":{")
            for (index, line) in caps.enumerated() {
                append(index == 0 ? "" : ",", line.pattern, to: &claims)
                append(":", list: line.rights, to: &claims)
            }
            claims.append("}")
        }
        if !draft.channels.isEmpty { append(",\"channels\":", list: draft.channels, to: &claims) }
        claims.append("}")
        return claims.copyBytes()
    }

    private static func append(_ before: StaticString, list texts: [String], to buffer: inout ByteBuffer) {
        buffer.append(before)
        buffer.append("[")
        for (index, text) in texts.enumerated() { append(index == 0 ? "" : ",", text, to: &buffer) }
        buffer.append("]")
    }

    private static func append(_ before: StaticString, _ number: UInt64, to buffer: inout ByteBuffer) {
        buffer.append(before)
        buffer.append(decimal: number)
    }

    private static func append(_ before: StaticString, _ text: String, to buffer: inout ByteBuffer) {
        append(before, Array(text.utf8), to: &buffer)
    }

    private static func append(_ before: StaticString, _ text: [UInt8], to buffer: inout ByteBuffer) {
        buffer.append(before)
        buffer.append("\"")
        text.withUnsafeBytes { JSONText.escape($0, into: &buffer) }
        buffer.append("\"")
    }
}
