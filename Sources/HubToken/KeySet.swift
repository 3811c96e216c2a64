import HubBase

/// A JWK Set (RFC 7517 §5): the public keys that an issuer says its tokens are signed with.
///
/// What this hub has no use for is left out and counted, as RFC 7517 §5 wants it: other kinds of keys, other algorithms, keys for encryption; and what
/// must not be in such a set: secrets and private keys. Addresses and certificates in a key (`x5u`, `x5c`) aren't looked at.
package struct KeySet: Sendable {
    package private(set) var keys: [TokenKey] = []
    /// Keys of the set that weren't taken.
    package private(set) var skipped = 0

    package static let byteCountMax = 256 * 1024
    package static let keysMax = 64

    /// Throws for what is no JWK Set at all, one with more than 64 keys, or one without any key that tokens could be checked with.
    package init(json bytes: [UInt8]) throws(TokenKey.Problem) {
        guard bytes.count <= KeySet.byteCountMax else {
            throw TokenKey.Problem(message: "has \(bytes.count) bytes; a key set may have \(KeySet.byteCountMax)")
        }
        guard let entries = TokenFields(bytes)?.objects("keys", limit: KeySet.keysMax) else {
            throw TokenKey.Problem(message: "isn't a JWK Set: {\"keys\": […]} with \(KeySet.keysMax) keys at most")
        }
        for entry in entries {
            if let key = entry.flatMap(KeySet.key) { keys.append(key) } else { skipped += 1 }
        }
        guard !keys.isEmpty else {
            throw TokenKey.Problem(message: "holds no key that tokens can be checked with (\(skipped) of other kinds)")
        }
    }

    private static func key(_ entry: TokenFields) -> TokenKey? {
        // `d` is in every private key, `k` in every secret.
        guard !entry.has("d"), !entry.has("k"), serves(entry), let (algorithm, der) = publicKey(entry) else { return nil }
        let id: String?
        switch entry.text("kid") {
        case .absent: id = nil
        case .wrong: return nil
        case .value(let text):
            guard let name = Name(validating: text) else { return nil }
            id = name.description
        }
        return try? TokenKey(id: id, algorithm: algorithm, key: SignatureKey(publicDER: der))
    }

    /// RFC 7517 §§4.2-4.3: what is said of a key's use must be signatures.
    private static func serves(_ entry: TokenFields) -> Bool {
        switch entry.text("use") {
        case .absent: break
        case .value(let use) where use.elementsEqual("sig".utf8): break
        default: return false
        }
        switch entry.texts("key_ops", limit: 16) {
        case .absent: return true
        case .value(let operations): return operations.contains { $0.elementsEqual("verify".utf8) }
        case .wrong: return false
        }
    }

    private static func publicKey(_ entry: TokenFields) -> (TokenKey.Algorithm, der: [UInt8])? {
        guard case .value(let type) = entry.text("kty") else { return nil }
        let named: TokenKey.Algorithm?
        switch entry.text("alg") {
        case .absent: named = nil
        case .wrong: return nil
        case .value(let text):
            guard let known = TokenKey.Algorithm.allCases.first(where: { text.elementsEqual($0.rawValue.utf8) }) else { return nil }
            named = known
        }
        switch String(decoding: type, as: UTF8.self) {
        case "RSA":
            guard let modulus = number(entry, "n", 256...1024), let exponent = number(entry, "e", 1...4),
                exponent.last.map({ $0 & 1 == 1 }) == true, exponent != [1]
            else { return nil }
            let der = DER.sequence(
                DER.sequence(DER.object([0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01]), DER.element(0x05, [])),
                DER.bits(DER.sequence(DER.integer(modulus), DER.integer(exponent))))
            // Where the issuer doesn't say which, it's the one that issuers sign with.
            return (named ?? .rs256, der)
        case "EC":
            let curve: (algorithm: TokenKey.Algorithm, identifier: [UInt8], width: Int)
            switch entry.text("crv") {
            case .value(let name) where name.elementsEqual("P-256".utf8):
                curve = (.es256, [0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07], 32)
            case .value(let name) where name.elementsEqual("P-384".utf8): curve = (.es384, [0x2B, 0x81, 0x04, 0x00, 0x22], 48)
            default: return nil
            }
            guard let x = number(entry, "x", curve.width...curve.width), let y = number(entry, "y", curve.width...curve.width) else {
                return nil
            }
            let der = DER.sequence(
                DER.sequence(DER.object([0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01]), DER.object(curve.identifier)), DER.bits([0x04] + x + y)
            )
            return named ?? curve.algorithm == curve.algorithm ? (curve.algorithm, der) : nil
        case "OKP":
            guard case .value(let name) = entry.text("crv"), name.elementsEqual("Ed25519".utf8), let x = number(entry, "x", 32...32) else {
                return nil
            }
            let der = DER.sequence(DER.sequence(DER.object([0x2B, 0x65, 0x70])), DER.bits(x))
            return named ?? .edDSA == .edDSA ? (.edDSA, der) : nil
        default: return nil
        }
    }

    private static func number(_ entry: TokenFields, _ field: StaticString, _ length: ClosedRange<Int>) -> [UInt8]? {
        guard case .value(let text) = entry.text(field), text.count <= 2048, let bytes = Base64URL.decode(text),
            length.contains(bytes.count)
        else {
            return nil
        }
        return bytes
    }
}
