import COpenSSL
import HubBase

/// HMAC (RFC 2104) by OpenSSL.
enum MessageCode {
    /// 32, 48 or 64 bytes, as the algorithm's hash has.
    static func make(_ message: UnsafeRawBufferPointer, _ secret: Secret, _ algorithm: TokenKey.Algorithm) -> [UInt8] {
        let digest =
            switch algorithm {
            case .hs384: EVP_sha384()
            case .hs512: EVP_sha512()
            default: EVP_sha256()
            }
        return [UInt8](unsafeUninitializedCapacity: Int(SHA512_DIGEST_LENGTH)) { target, count in
            var length: UInt32 = 0
            let bytes = message.bindMemory(to: UInt8.self)
            let result = HMAC(
                digest, secret.bytes, Int32(clamping: secret.bytes.count), bytes.baseAddress, bytes.count, target.baseAddress, &length)
            precondition(result != nil && Int(length) == algorithm.secretBytesMin, "HMAC by OpenSSL failed")
            count = Int(length)
        }
    }

    /// In a time that doesn't tell where they differ.
    static func isEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        left.count == right.count && CRYPTO_memcmp(left, right, left.count) == 0
    }
}
