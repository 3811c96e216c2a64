import COpenSSL
import HubBase
import HubWire

/// SHA-256 of length-prefixed fields, for dedup keys and fingerprints of payloads. One context, reused: no allocation for each.
final class Fingerprint {
    private let context: OpaquePointer
    private let algorithm: OpaquePointer

    init() {
        guard let context = EVP_MD_CTX_new(), let algorithm = EVP_MD_fetch(nil, "SHA256", nil) else {
            fatalError("OpenSSL has no SHA-256")
        }
        self.context = context
        self.algorithm = algorithm
    }

    deinit {
        EVP_MD_CTX_free(context)
        EVP_MD_free(algorithm)
    }

    private func begin() { precondition(EVP_DigestInit_ex2(context, algorithm, nil) == 1) }

    private func add(_ bytes: [UInt8]) {
        var length = UInt64(bytes.count).littleEndian
        EVP_DigestUpdate(context, &length, 8)
        bytes.withUnsafeBytes { _ = EVP_DigestUpdate(context, $0.baseAddress, $0.count) }
    }

    private func end() -> (UInt64, UInt64, UInt64, UInt64) {
        var digest: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        withUnsafeMutableBytes(of: &digest) { target in
            _ = EVP_DigestFinal_ex(context, target.baseAddress?.assumingMemoryBound(to: UInt8.self), nil)
        }
        return digest
    }

    /// What names a dedup key: 22 characters of the digest over channel, sender and message id. The sender is in it, so nobody can
    /// suppress another user's message by guessing its id (redis-design §4).
    func appendDedupName(channel: Name, user: Name, id: Name, to buffer: inout ByteBuffer) {
        begin()
        add(channel.bytes)
        add(user.bytes)
        add(id.bytes)
        let digest = end()
        appendBase32(digest.0, 12, to: &buffer)
        appendBase32(digest.1, 10, to: &buffer)
    }

    static let dedupNameLength = 22

    /// 40 bits that tell a retry from another message under the same id: over class, payload and the payload's format.
    func content(_ publication: Publication) -> Mark {
        begin()
        var content = publication.contentByte
        EVP_DigestUpdate(context, &content, 1)
        add(publication.payload)
        return Mark(chance: end().0)
    }

    private func appendBase32(_ value: UInt64, _ characters: Int, to buffer: inout ByteBuffer) {
        var rest = value
        for _ in 0..<characters {
            buffer.append(Mark.alphabet.utf8Start[Int(rest & 31)])
            rest >>= 5
        }
    }
}
