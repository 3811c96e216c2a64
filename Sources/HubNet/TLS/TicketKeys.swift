import COpenSSL
import HubBase

/// The keys that session tickets are sealed with (RFC 5077 §4, RFC 8446 §4.6.1), made from one secret and the time: every node with the same secret
/// has the same keys at the same time, and none is used for longer than `periodSeconds`, without anything being passed around.
///
/// Tickets are the only resumption there is: a node remembers no session, so they cost no memory.
package final class TicketKeys: Sendable {
    /// How long one key seals. It opens tickets for one period more, and one period before, for nodes whose clocks differ.
    package static let periodSeconds: Int64 = 6 * 3600
    /// OpenSSL's life of a session must end before the key's.
    static let lifetimeSeconds = 2 * 3600
    package static let secretBytesMin = 32

    private let secret: Secret

    /// `secret`: at least `secretBytesMin` bytes.
    package init(secret: Secret) {
        precondition(secret.bytes.count >= Self.secretBytesMin, "a ticket secret of \(secret.bytes.count) bytes")
        self.secret = secret
    }

    /// Keys of this process alone.
    package convenience init() {
        var bytes = [UInt8](repeating: 0, count: Self.secretBytesMin)
        precondition(RAND_bytes(&bytes, Int32(bytes.count)) == 1, "OpenSSL has no random bytes")
        self.init(secret: Secret(bytes))
    }

    /// One period's keys.
    package struct Key: Equatable {
        /// 16 bytes that tell a ticket's key from others.
        package let name: [UInt8]
        /// For AES-256-CBC.
        package let cipher: [UInt8]
        /// For HMAC-SHA-256.
        package let mac: [UInt8]
    }

    package func key(period: Int64) -> Key {
        Key(name: Array(derive("name", period).prefix(16)), cipher: derive("cipher", period), mac: derive("mac", period))
    }

    /// The key of a ticket's name, and whether a fresh ticket should replace it; nil when the ticket is too old or another hub's.
    package func key(named name: UnsafeRawBufferPointer, period: Int64) -> (key: Key, isCurrent: Bool)? {
        for candidate in [period, period - 1, period + 1] where derive("name", candidate).prefix(16).elementsEqual(name) {
            return (key(period: candidate), candidate == period)
        }
        return nil
    }

    package static func period(at seconds: Int64) -> Int64 { seconds / periodSeconds }

    /// HMAC-SHA-256 of purpose and period.
    private func derive(_ purpose: StaticString, _ period: Int64) -> [UInt8] {
        var message = ByteBuffer(capacity: 64)
        message.append("hub session ticket ")
        message.append(purpose)
        message.append(" ")
        message.append(decimal: period)
        return [UInt8](unsafeUninitializedCapacity: Int(SHA256_DIGEST_LENGTH)) { target, count in
            var length: UInt32 = 0
            let bytes = message.bytes.bindMemory(to: UInt8.self)
            let result = HMAC(
                EVP_sha256(), secret.bytes, Int32(clamping: secret.bytes.count), bytes.baseAddress, bytes.count, target.baseAddress, &length
            )
            precondition(result != nil && Int(length) == target.count, "HMAC-SHA-256 by OpenSSL failed")
            count = Int(length)
        }
    }
}

/// OpenSSL's side: it asks for keys when it seals or opens a ticket.
extension TicketKeys {
    private static let nameBytes = 16
    private static let ivBytes = 16

    /// As SSL_CTX_set_tlsext_ticket_key_evp_cb(3) says. -1: failed; 0: no ticket, go on with a whole handshake; 1: go on; 2: go on, and make a fresh ticket.
    static let callback:
        @convention(c) (
            OpaquePointer?, UnsafeMutablePointer<UInt8>?, UnsafeMutablePointer<UInt8>?, OpaquePointer?, OpaquePointer?, Int32
        ) -> Int32 = { ssl, name, iv, cipher, mac, isSealing in
            guard let ssl, let name, let iv, let cipher, let mac, let context = TLSContext.serving(ssl) else { return -1 }
            let keys = context.tickets
            let period = TicketKeys.period(at: System.wallSeconds())
            if isSealing != 0 {
                let key = keys.key(period: period)
                for place in 0..<nameBytes { name[place] = key.name[place] }
                guard RAND_bytes(iv, Int32(ivBytes)) == 1, EVP_EncryptInit_ex(cipher, EVP_aes_256_cbc(), nil, key.cipher, iv) == 1,
                    use(key.mac, in: mac)
                else { return -1 }
                return 1
            }
            guard let (key, isCurrent) = keys.key(named: UnsafeRawBufferPointer(start: name, count: nameBytes), period: period) else {
                return 0
            }
            guard EVP_DecryptInit_ex(cipher, EVP_aes_256_cbc(), nil, key.cipher, iv) == 1, use(key.mac, in: mac) else { return -1 }
            return isCurrent ? 1 : 2
        }

    private static func use(_ key: [UInt8], in mac: OpaquePointer) -> Bool {
        var key = key
        var digest = Array("sha256".utf8CString)
        return key.withUnsafeMutableBytes { keyBytes in
            digest.withUnsafeMutableBufferPointer { digestText in
                var parameters = [
                    OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, keyBytes.baseAddress, keyBytes.count),
                    OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digestText.baseAddress, 0), OSSL_PARAM_construct_end(),
                ]
                return EVP_MAC_CTX_set_params(mac, &parameters) == 1
            }
        }
    }
}
