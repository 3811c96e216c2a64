import HubBase
import HubWire

/// Makes tokens, for development and for tests: `hubctl token`.
package enum TokenMinter {
    /// A JWT signed with HS256. Times in seconds since 1970.
    package static func mint(user: Name, issued: UInt64, expires: UInt64, key: TokenKey) -> [UInt8] {
        var header = ByteBuffer(capacity: 64)
        header.append("{\"alg\":\"HS256\",\"typ\":\"JWT\"")
        if let id = key.id {
            header.append(",\"kid\":\"")
            Array(id.utf8).withUnsafeBytes { JSONText.escape($0, into: &header) }
            header.append("\"")
        }
        header.append("}")
        var claims = ByteBuffer(capacity: 128)
        claims.append("{\"sub\":\"")
        user.bytes.withUnsafeBytes { JSONText.escape($0, into: &claims) }
        claims.append("\",\"iat\":")
        claims.append(decimal: issued)
        claims.append(",\"exp\":")
        claims.append(decimal: expires)
        claims.append("}")
        return sign(header: header.copyBytes(), claims: claims.copyBytes(), key: key)
    }

    /// Header and claims as they are, signed with HMAC-SHA-256, in the compact form (RFC 7515 §3.1).
    package static func sign(header: [UInt8], claims: [UInt8], key: TokenKey) -> [UInt8] {
        var token = Base64URL.encode(header) + [UInt8(ascii: ".")] + Base64URL.encode(claims)
        let signature = token.withUnsafeBytes { MessageCode.sha256($0, key.secret) }
        token.append(UInt8(ascii: "."))
        token += Base64URL.encode(signature)
        return token
    }
}
