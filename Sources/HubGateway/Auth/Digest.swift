import COpenSSL
import HubBase

/// One-shot digests and comparisons by OpenSSL.
enum Digest {
    /// SHA-256, 32 bytes.
    static func sha256(_ bytes: [UInt8]) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Int(SHA256_DIGEST_LENGTH)) { target, count in
            SHA256(bytes, bytes.count, target.baseAddress)
            count = Int(SHA256_DIGEST_LENGTH)
        }
    }

    /// HMAC-SHA-256 (RFC 2104), 32 bytes.
    static func code(_ message: [UInt8], _ secret: Secret) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Int(SHA256_DIGEST_LENGTH)) { target, count in
            var length: UInt32 = 0
            let result = HMAC(
                EVP_sha256(), secret.bytes, Int32(clamping: secret.bytes.count), message, message.count, target.baseAddress, &length)
            precondition(result != nil && Int(length) == target.count, "HMAC-SHA-256 by OpenSSL failed")
            count = Int(length)
        }
    }

    /// Whether two digests are equal, in a time that doesn't tell where they differ (CRYPTO_memcmp).
    static func isEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        left.count == right.count && CRYPTO_memcmp(left, right, left.count) == 0
    }
}
