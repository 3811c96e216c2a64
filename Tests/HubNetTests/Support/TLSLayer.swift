import COpenSSL

/// A client's TLS over bytes in memory, so that a test decides what goes over the wire, and when.
final class TLSLayer {
    struct Offer {
        var host: String? = nil
        var versions = TLS1_2_VERSION...TLS1_3_VERSION
        /// ALPN, in order.
        var protocols: [String] = []
        var session: Session? = nil
        /// OpenSSL's cipher list for TLS 1.2.
        var ciphers: String? = nil
    }

    /// What to resume by.
    final class Session {
        let pointer: OpaquePointer
        init(_ pointer: OpaquePointer) { self.pointer = pointer }
        deinit { SSL_SESSION_free(pointer) }
    }

    struct Failure: Error { var text: String }

    private let context: OpaquePointer
    let ssl: OpaquePointer
    private let input: OpaquePointer
    private let output: OpaquePointer
    private(set) var sawGoodbye = false

    init(_ offer: Offer) {
        context = SSL_CTX_new(TLS_client_method())
        SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, Int(offer.versions.lowerBound), nil)
        SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, Int(offer.versions.upperBound), nil)
        // Old versions and weak ciphers may be offered: it's the server that must refuse them.
        SSL_CTX_set_security_level(context, 0)
        if let ciphers = offer.ciphers { precondition(SSL_CTX_set_cipher_list(context, ciphers) == 1) }
        ssl = SSL_new(context)
        input = BIO_new(BIO_s_mem())
        output = BIO_new(BIO_s_mem())
        // An empty memory isn't its end.
        BIO_ctrl(input, BIO_C_SET_BUF_MEM_EOF_RETURN, -1, nil)
        SSL_set_bio(ssl, input, output)
        SSL_set_connect_state(ssl)
        if let host = offer.host {
            var name = Array(host.utf8CString)
            SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, Int(TLSEXT_NAMETYPE_host_name), &name)
        }
        if !offer.protocols.isEmpty {
            let list = offer.protocols.flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) }
            SSL_set_alpn_protos(ssl, list, UInt32(list.count))
        }
        if let session = offer.session { SSL_set_session(ssl, session.pointer) }
    }

    deinit {
        // Else OpenSSL takes the session for broken, and whoever kept it couldn't resume it.
        SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN)
        SSL_free(ssl)
        SSL_CTX_free(context)
    }

    /// One step; true when it's done. What it has to send is in `takeOutput`.
    func shakeHands() throws -> Bool {
        ERR_clear_error()
        let result = SSL_do_handshake(ssl)
        if result == 1 { return true }
        guard SSL_get_error(ssl, result) == SSL_ERROR_WANT_READ else { throw failure() }
        return false
    }

    func takeOutput() -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: Int(BIO_ctrl_pending(output)))
        let count = BIO_read(output, &bytes, Int32(bytes.count))
        return [UInt8](bytes[..<Int(max(count, 0))])
    }

    func offer(_ bytes: some Collection<UInt8>) { BIO_write(input, Array(bytes), Int32(bytes.count)) }

    func encrypt(_ bytes: [UInt8]) -> [UInt8] {
        if !bytes.isEmpty { precondition(SSL_write(ssl, bytes, Int32(bytes.count)) == bytes.count) }
        return takeOutput()
    }

    /// All plaintext there is.
    func decrypt() throws -> [UInt8] {
        var plain: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 32768)
        ERR_clear_error()
        while true {
            let count = SSL_read(ssl, &buffer, Int32(buffer.count))
            if count > 0 {
                plain += buffer[..<Int(count)]
                continue
            }
            switch SSL_get_error(ssl, count) {
            case SSL_ERROR_WANT_READ: return plain
            case SSL_ERROR_ZERO_RETURN:
                sawGoodbye = true
                return plain
            default: throw failure()
            }
        }
    }

    func goodbye() -> [UInt8] {
        SSL_shutdown(ssl)
        return takeOutput()
    }

    /// Asks for new keys in both directions (RFC 8446 §4.6.3).
    func updateKeys() -> [UInt8] {
        SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED)
        _ = SSL_do_handshake(ssl)
        return takeOutput()
    }

    var version: String { String(cString: SSL_get_version(ssl)) }
    var cipher: String { String(cString: SSL_CIPHER_get_name(SSL_get_current_cipher(ssl))) }
    var isResumed: Bool { SSL_session_reused(ssl) == 1 }
    var session: Session? { SSL_get1_session(ssl).map(Session.init) }

    var chosenProtocol: String {
        var pointer: UnsafePointer<UInt8>?
        var count: UInt32 = 0
        SSL_get0_alpn_selected(ssl, &pointer, &count)
        return String(decoding: UnsafeBufferPointer(start: pointer, count: Int(count)), as: UTF8.self)
    }

    /// The common name in the server's certificate.
    var serverName: String {
        guard let certificate = SSL_get1_peer_certificate(ssl) else { return "none" }
        defer { X509_free(certificate) }
        var name = [CChar](repeating: 0, count: 256)
        X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, &name, 256)
        return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    private func failure() -> Failure {
        let code = ERR_get_error()
        ERR_clear_error()
        return Failure(text: ERR_reason_error_string(code).map { String(cString: $0) } ?? "error \(code)")
    }
}
