import COpenSSL

/// One-shot digests and comparisons by OpenSSL.
enum Digest {
    /// SHA-256, 32 bytes.
    static func sha256(_ bytes: [UInt8]) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Int(SHA256_DIGEST_LENGTH)) { target, count in
            SHA256(bytes, bytes.count, target.baseAddress)
            count = Int(SHA256_DIGEST_LENGTH)
        }
    }

    /// Whether two digests are equal, in a time that doesn't tell where they differ (CRYPTO_memcmp).
    static func isEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        left.count == right.count && CRYPTO_memcmp(left, right, left.count) == 0
    }
}
