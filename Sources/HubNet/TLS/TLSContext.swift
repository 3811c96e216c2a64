import COpenSSL
import HubBase

/// The server's side of TLS: certificates and rules, shared by all loops and by every connection that began under it. A reload makes a new one; the
/// old one lives as long as its connections.
///
/// TLS 1.2 and 1.3 (RFC 8996 ended the older ones) with forward secrecy and authenticated encryption only; no renegotiation, no compression, no
/// early data (it can be replayed).
///
/// `@unchecked Sendable`: nothing changes after `init`; OpenSSL locks its contexts itself (CRYPTO_THREAD, SSL_CTX may be shared by threads).
package final class TLSContext: @unchecked Sendable {
    package let certificates: [TLSCertificate]
    package let names: TLSNameTable
    let tickets: TicketKeys
    /// One for each certificate; connections begin with the first, and SNI moves them on.
    private let contexts: [ContextHandle]

    /// - Precondition: there's a certificate.
    package init(_ certificates: [TLSCertificate], tickets: TicketKeys) throws(TLSCertificate.Problem) {
        precondition(!certificates.isEmpty, "TLS without a certificate")
        self.certificates = certificates
        self.tickets = tickets
        names = TLSNameTable(certificates.map(\.names))
        var contexts: [ContextHandle] = []
        for certificate in certificates {
            contexts.append(try Self.makeContext(X509Chain(pem: certificate.chain), PrivateKey(pem: certificate.key)))
        }
        self.contexts = contexts
        for context in contexts {
            SSL_CTX_set_ex_data(context.pointer, 0, Unmanaged.passUnretained(self).toOpaque())
            SSL_CTX_set_tlsext_ticket_key_evp_cb(context.pointer, TicketKeys.callback)
            SSL_CTX_set_alpn_select_cb(context.pointer, Self.chooseProtocol, nil)
            // SSL_CTX_set_tlsext_servername_callback is a macro with this cast.
            SSL_CTX_callback_ctrl(
                context.pointer, SSL_CTRL_SET_TLSEXT_SERVERNAME_CB,
                unsafeBitCast(Self.chooseCertificate, to: (@convention(c) () -> Void).self))
        }
    }

    /// A state for one connection, in the server's role. The caller keeps `self` alive for as long.
    func makeState() -> OpaquePointer? {
        guard let state = SSL_new(contexts[0].pointer) else { return nil }
        SSL_set_accept_state(state)
        return state
    }

    // MARK: Rules

    /// ECDHE with AES-GCM or ChaCha20-Poly1305, AES-128 first: the rest of TLS 1.2 has no forward secrecy or no authenticated encryption.
    private static let ciphers12 = """
        ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:\
        ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305
        """
    private static let ciphers13 = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"

    /// Everything but the callbacks.
    static func makeContext(_ chain: X509Chain, _ pair: borrowing PrivateKey) throws(TLSCertificate.Problem) -> ContextHandle {
        guard let context = SSL_CTX_new(TLS_server_method()) else { throw .init("OpenSSL gives no context: \(OpenSSLError.take())") }
        let handle = ContextHandle(context)
        try setRules(context)
        SSL_CTX_set_timeout(context, TicketKeys.lifetimeSeconds)
        // A WebSocket client comes back on one connection: one ticket is enough.
        SSL_CTX_set_num_tickets(context, 1)
        try install(chain, pair, in: context)
        return handle
    }

    /// Versions, ciphers and memory: the same for both roles.
    static func setRules(_ context: OpaquePointer) throws(TLSCertificate.Problem) {
        SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, Int(TLS1_2_VERSION), nil)
        SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, Int(TLS1_3_VERSION), nil)
        SSL_CTX_set_options(context, options)
        // Idle connections keep no record buffers. Without AUTO_RETRY each record that brings no data gives control back, so that they can be counted.
        SSL_CTX_ctrl(context, SSL_CTRL_MODE, Int(SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER), nil)
        SSL_CTX_ctrl(context, SSL_CTRL_CLEAR_MODE, Int(SSL_MODE_AUTO_RETRY), nil)
        SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, Int(SSL_SESS_CACHE_OFF), nil)
        guard SSL_CTX_set_cipher_list(context, ciphers12) == 1, SSL_CTX_set_ciphersuites(context, ciphers13) == 1 else {
            throw .init("OpenSSL refuses the cipher list: \(OpenSSLError.take())")
        }
    }

    /// Certificate, key and chain to show.
    static func install(_ chain: X509Chain, _ pair: borrowing PrivateKey, in context: OpaquePointer) throws(TLSCertificate.Problem) {
        guard SSL_CTX_use_certificate(context, chain.leaf) == 1 else { throw .init("can't be used: \(OpenSSLError.take())") }
        guard SSL_CTX_use_PrivateKey(context, pair.key) == 1 else { throw .init(isOfKey: true, "can't be used: \(OpenSSLError.take())") }
        for other in chain.others {
            // SSL_CTX_add1_chain_cert: the context takes a reference of its own.
            guard SSL_CTX_ctrl(context, SSL_CTRL_CHAIN_CERT, 1, UnsafeMutableRawPointer(other)) == 1 else {
                throw .init("has a chain that can't be used: \(OpenSSLError.take())")
            }
        }
    }

    private static let options: UInt64 = {
        // SSL_OP_BIT is a macro with a cast, so the options aren't imported: ssl.h has the numbers.
        let noRenegotiation: UInt64 = 1 << 30
        let noCompression: UInt64 = 1 << 17
        let serverPreference: UInt64 = 1 << 22
        let prioritizeChaCha: UInt64 = 1 << 21
        return noRenegotiation | noCompression | serverPreference | prioritizeChaCha
    }()

    // MARK: Callbacks

    /// The context that a connection's state came from.
    static func serving(_ ssl: OpaquePointer) -> TLSContext? {
        guard let context = SSL_get_SSL_CTX(ssl), let pointer = SSL_CTX_get_ex_data(context, 0) else { return nil }
        // Alive: the session that `ssl` belongs to holds it.
        return Unmanaged<TLSContext>.fromOpaque(pointer).takeUnretainedValue()
    }

    private static let chooseCertificate: @convention(c) (OpaquePointer?, UnsafeMutablePointer<Int32>?, UnsafeMutableRawPointer?) -> Int32 =
        {
            ssl, _, _ in
            guard let ssl, let context = TLSContext.serving(ssl), let name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name) else {
                return SSL_TLSEXT_ERR_OK
            }
            let index = context.names.index(of: String(cString: name))
            if index > 0 { SSL_set_SSL_CTX(ssl, context.contexts[index].pointer) }
            return SSL_TLSEXT_ERR_OK
        }

    /// HTTP/1.1 is all that is spoken (RFC 7301 §3.2: no common protocol is fatal). Who offers nothing gets it without saying so.
    private static let chooseProtocol:
        @convention(c) (
            OpaquePointer?, UnsafeMutablePointer<UnsafePointer<UInt8>?>?, UnsafeMutablePointer<UInt8>?, UnsafePointer<UInt8>?, UInt32,
            UnsafeMutableRawPointer?
        ) -> Int32 = { _, out, outLength, offered, offeredLength, _ in
            guard let out, let outLength, let offered else { return SSL_TLSEXT_ERR_ALERT_FATAL }
            let list = UnsafeRawBufferPointer(start: offered, count: Int(offeredLength))
            var place = 0
            while place < list.count {
                let count = Int(list[place])
                guard place + 1 + count <= list.count else { break }
                if ASCII.equals(UnsafeRawBufferPointer(rebasing: list[(place + 1)..<(place + 1 + count)]), "http/1.1") {
                    // It points into the client's own list, which outlives the callback as OpenSSL asks.
                    out.pointee = offered + place + 1
                    outLength.pointee = UInt8(count)
                    return SSL_TLSEXT_ERR_OK
                }
                place += 1 + count
            }
            return SSL_TLSEXT_ERR_ALERT_FATAL
        }
}

/// Owns one SSL_CTX.
final class ContextHandle {
    let pointer: OpaquePointer

    init(_ pointer: OpaquePointer) { self.pointer = pointer }

    deinit { SSL_CTX_free(pointer) }
}
