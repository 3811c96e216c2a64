import COpenSSL
import HubBase

/// A key for signatures, as OpenSSL holds it. Prints as its kind alone.
///
/// `@unchecked Sendable`: made in `init` and never changed afterwards; OpenSSL counts its references itself and lets any thread use it for
/// signing and checking, each with a context of its own.
package final class SignatureKey: @unchecked Sendable, CustomStringConvertible {
    package enum Kind: Sendable {
        case rsa, p256, p384, ed25519

        package var shown: String {
            switch self {
            case .rsa: "an RSA key"
            case .p256: "a key on the curve P-256"
            case .p384: "a key on the curve P-384"
            case .ed25519: "an Ed25519 key"
            }
        }
    }

    /// nil: none that a token can be signed with.
    package let kind: Kind?
    private let handle: OpaquePointer

    package static let rsaBits = 2048...8192

    /// PEM, `BEGIN PUBLIC KEY` (RFC 7468 §13). A private key is refused: who only checks tokens must not be able to make any.
    package convenience init(publicPEM pem: [UInt8]) throws(TokenKey.Problem) {
        try self.init(
            pem: pem,
            otherwise: SignatureKey.isPrivate(pem)
                ? "holds a private key: give the public one (openssl pkey -in KEY -pubout), the hub signs nothing"
                : "holds no public key that can be read (-----BEGIN PUBLIC KEY-----)"
        ) { PEM_read_bio_PUBKEY($0, nil, nil, nil) }
    }

    /// PEM, `BEGIN PRIVATE KEY` or the older forms, without a passphrase.
    package convenience init(privatePEM pem: Secret) throws(TokenKey.Problem) {
        try self.init(pem: pem.bytes, otherwise: "holds no private key that can be read without a passphrase") {
            // Without a callback OpenSSL would ask on the terminal.
            PEM_read_bio_PrivateKey($0, nil, { _, _, _, _ in -1 }, nil)
        }
    }

    /// A `SubjectPublicKeyInfo` (RFC 5280 §4.1), all of the bytes.
    package convenience init(publicDER der: [UInt8]) throws(TokenKey.Problem) {
        let handle = der.withUnsafeBufferPointer { bytes -> OpaquePointer? in
            var place = bytes.baseAddress
            guard let key = d2i_PUBKEY(nil, &place, bytes.count) else { return nil }
            guard place == bytes.baseAddress.map({ $0 + bytes.count }) else {
                EVP_PKEY_free(key)
                return nil
            }
            return key
        }
        ERR_clear_error()
        guard let handle else { throw TokenKey.Problem(message: "is no public key: its numbers don't make one") }
        try self.init(handle)
    }

    private convenience init(pem: [UInt8], otherwise problem: String, _ read: (OpaquePointer) -> OpaquePointer?) throws(TokenKey.Problem) {
        let handle = pem.withUnsafeBytes { bytes -> OpaquePointer? in
            guard let bio = BIO_new_mem_buf(bytes.baseAddress, Int32(clamping: bytes.count)) else { return nil }
            defer { BIO_free(bio) }
            return read(bio)
        }
        // What OpenSSL complained about must not be taken for a fault of the next TLS connection on this thread.
        ERR_clear_error()
        guard let handle else { throw TokenKey.Problem(message: problem) }
        try self.init(handle)
    }

    /// Takes the handle over.
    private init(_ handle: OpaquePointer) throws(TokenKey.Problem) {
        self.handle = handle
        kind = SignatureKey.kind(of: handle)
        guard kind == .rsa else { return }
        let bits = Int(EVP_PKEY_get_bits(handle))
        guard SignatureKey.rsaBits.contains(bits) else {
            throw TokenKey.Problem(
                message:
                    "is an RSA key of \(bits) bits; from \(SignatureKey.rsaBits.lowerBound) to \(SignatureKey.rsaBits.upperBound) are taken"
            )
        }
    }

    deinit { EVP_PKEY_free(handle) }

    package var description: String { kind?.shown ?? "a key of another kind" }

    private static func isPrivate(_ pem: [UInt8]) -> Bool {
        let text = String(decoding: pem.prefix(64), as: UTF8.self)
        return text.contains("PRIVATE KEY-----")
    }

    private static func kind(of handle: OpaquePointer) -> Kind? {
        switch EVP_PKEY_get_base_id(handle) {
        case EVP_PKEY_RSA: return .rsa
        case EVP_PKEY_ED25519: return .ed25519
        case EVP_PKEY_EC:
            var name = [CChar](repeating: 0, count: 64)
            var count = 0
            guard EVP_PKEY_get_group_name(handle, &name, name.count, &count) == 1 else { return nil }
            switch String(decoding: name.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self) {
            case "prime256v1", "P-256": return .p256
            case "secp384r1", "P-384": return .p384
            default: return nil
            }
        default: return nil
        }
    }

    // MARK: Signatures

    /// Whether `signature`, as JWS writes it (RFC 7518 §§3.3-3.5, RFC 8037 §3.1), is this key's over `message`.
    package func verifies(_ signature: [UInt8], of message: UnsafeRawBufferPointer, _ algorithm: TokenKey.Algorithm) -> Bool {
        defer { ERR_clear_error() }
        let native: [UInt8]
        switch kind {
        case .p256, .p384:
            guard let sequence = ECDSASignature.sequence(ofJoined: signature, width: width) else { return false }
            native = sequence
        case .rsa, .ed25519:
            guard signature.count == Int(EVP_PKEY_get_size(handle)) else { return false }
            native = signature
        case nil: return false
        }
        guard let context = EVP_MD_CTX_new() else { return false }
        defer { EVP_MD_CTX_free(context) }
        var parameters: OpaquePointer?
        guard EVP_DigestVerifyInit(context, &parameters, digest, nil, handle) == 1, choosePadding(algorithm, parameters) else {
            return false
        }
        let bytes = message.bindMemory(to: UInt8.self)
        return EVP_DigestVerify(context, native, native.count, bytes.baseAddress, bytes.count) == 1
    }

    /// nil when it's no private key.
    package func sign(_ message: [UInt8], _ algorithm: TokenKey.Algorithm) -> [UInt8]? {
        defer { ERR_clear_error() }
        guard let context = EVP_MD_CTX_new() else { return nil }
        defer { EVP_MD_CTX_free(context) }
        var parameters: OpaquePointer?
        guard EVP_DigestSignInit(context, &parameters, digest, nil, handle) == 1, choosePadding(algorithm, parameters) else { return nil }
        var count = 0
        guard EVP_DigestSign(context, nil, &count, message, message.count) == 1 else { return nil }
        var signature = [UInt8](repeating: 0, count: count)
        guard EVP_DigestSign(context, &signature, &count, message, message.count) == 1 else { return nil }
        signature.removeLast(signature.count - count)
        guard kind == .p256 || kind == .p384 else { return signature }
        return ECDSASignature.joined(ofSequence: signature, width: width)
    }

    /// Bytes of each of the two numbers of an ECDSA signature.
    private var width: Int { kind == .p384 ? 48 : 32 }

    /// Ed25519 hashes by itself.
    private var digest: OpaquePointer? {
        switch kind {
        case .ed25519: nil
        case .p384: EVP_sha384()
        default: EVP_sha256()
        }
    }

    private func choosePadding(_ algorithm: TokenKey.Algorithm, _ parameters: OpaquePointer?) -> Bool {
        guard kind == .rsa else { return true }
        guard algorithm == .ps256 else { return EVP_PKEY_CTX_set_rsa_padding(parameters, RSA_PKCS1_PADDING) == 1 }
        // RFC 7518 §3.5: MGF1 with the same hash, a salt as long as the hash.
        return EVP_PKEY_CTX_set_rsa_padding(parameters, RSA_PKCS1_PSS_PADDING) == 1
            && EVP_PKEY_CTX_set_rsa_mgf1_md(parameters, EVP_sha256()) == 1 && EVP_PKEY_CTX_set_rsa_pss_saltlen(parameters, -1) == 1
    }
}
