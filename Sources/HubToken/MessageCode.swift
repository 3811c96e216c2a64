import COpenSSL
import HubBase

/// HMAC (RFC 2104) by OpenSSL.
enum MessageCode {
    /// 32 bytes.
    static func sha256(_ message: UnsafeRawBufferPointer, _ secret: Secret) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Int(SHA256_DIGEST_LENGTH)) { target, count in
            var length: UInt32 = 0
            let bytes = message.bindMemory(to: UInt8.self)
            let result = HMAC(
                EVP_sha256(), secret.bytes, Int32(clamping: secret.bytes.count), bytes.baseAddress, bytes.count, target.baseAddress, &length
            )
            precondition(result != nil && Int(length) == target.count, "HMAC-SHA-256 by OpenSSL failed")
            count = Int(length)
        }
    }

    /// In a time that doesn't tell where they differ.
    static func isEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        left.count == right.count && CRYPTO_memcmp(left, right, left.count) == 0
    }
}
