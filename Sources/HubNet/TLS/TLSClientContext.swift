import COpenSSL
import HubBase

/// The client's side of TLS: whom to trust, and whom to be. Shared by any number of connections and loops; a connection adds the name that it
/// expects there (`TLSPeer`).
///
/// The same rules as the server's: TLS 1.2 and 1.3, forward secrecy, authenticated encryption, no renegotiation, no compression. Sessions aren't
/// resumed.
///
/// `@unchecked Sendable`: nothing changes after `init`; OpenSSL locks its contexts itself (SSL_CTX may be shared by threads).
package final class TLSClientContext: @unchecked Sendable {
    /// Who may vouch for a server.
    package enum Trust: Sendable {
        /// The system's authorities, where OpenSSL looks for them (SSL_CERT_FILE and SSL_CERT_DIR name others).
        case system
        /// The certificates in this PEM text and nobody else: authorities, or servers' own ones.
        case only([UInt8])
        /// Nobody is asked: whoever sits on the line can read and change everything. For tests.
        case anyone
    }

    package let trust: Trust
    /// Where the user of this program names authorities, for advice: "--ca FILE".
    let authorityPlace: String?
    private let handle: ContextHandle

    private static let authoritiesMax = 4096

    /// - Parameters:
    ///   - identity: what to answer a server with that asks for a certificate.
    ///   - protocols: offered by ALPN (RFC 7301), in order; none: nothing is offered.
    ///   - authorityPlace: where the user names authorities, for advice.
    /// - Throws: what is wrong with the authorities' text, to be read after its name: "holds no certificate in PEM form …".
    package init(
        trust: Trust = .system, identity: TLSCertificate? = nil, protocols: [String] = [], authorityPlace: String? = nil
    ) throws(TLSCertificate.Problem) {
        self.trust = trust
        self.authorityPlace = authorityPlace
        OpenSSLError.clear()
        defer { OpenSSLError.clear() }
        guard let context = SSL_CTX_new(TLS_client_method()) else { throw .init("OpenSSL gives no context: \(OpenSSLError.take())") }
        handle = ContextHandle(context)
        try TLSContext.setRules(context)
        switch trust {
        case .system:
            // No error when there are none: a machine may lack them, and then nobody is trusted.
            _ = SSL_CTX_set_default_verify_paths(context)
            SSL_CTX_set_verify(context, SSL_VERIFY_PEER, TLSDistrust.callback)
        case .only(let pem):
            try Self.add(X509Chain(pem: pem, most: Self.authoritiesMax), to: context)
            SSL_CTX_set_verify(context, SSL_VERIFY_PEER, TLSDistrust.callback)
        case .anyone: SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nil)
        }
        if let identity { try TLSContext.install(X509Chain(pem: identity.chain), PrivateKey(pem: identity.key), in: context) }
        let offered = protocols.flatMap { [UInt8(clamping: $0.utf8.count)] + $0.utf8 }
        // 0 is success here (SSL_CTX_set_alpn_protos(3)).
        if !offered.isEmpty, SSL_CTX_set_alpn_protos(context, offered, UInt32(offered.count)) != 0 {
            throw .init("OpenSSL refuses the protocols offered")
        }
    }

    private static func add(_ chain: X509Chain, to context: OpaquePointer) throws(TLSCertificate.Problem) {
        let store = SSL_CTX_get_cert_store(context)
        for certificate in [chain.leaf] + chain.others {
            // The store takes a reference of its own.
            guard X509_STORE_add_cert(store, certificate) == 1 else { throw .init("can't be used: \(OpenSSLError.take())") }
        }
        // A certificate that is named here is believed, also when it isn't a root.
        X509_STORE_set_flags(store, UInt(X509_V_FLAG_PARTIAL_CHAIN))
    }

    /// A state for one connection, in the client's role; nil when memory is short. The caller keeps `self` alive for as long.
    ///
    /// - Parameter name: a host name, which is also asked for by SNI (RFC 6066 §3), or an address, which isn't.
    func makeState(name: String) -> OpaquePointer? {
        guard let state = SSL_new(handle.pointer) else { return nil }
        SSL_set_connect_state(state)
        // IPv6 zones ("%eth0") are this machine's affair; a name's last dot is the resolver's (RFC 6066 §3).
        var host = name.prefix { $0 != "%" }
        if host.hasSuffix(".") { host.removeLast() }
        let parameters = SSL_get0_param(state)
        if X509_VERIFY_PARAM_set1_ip_asc(parameters, String(host)) == 1 { return state }
        X509_VERIFY_PARAM_set_hostflags(parameters, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
        var plain = Array(String(host).utf8CString)
        // SSL_set_tlsext_host_name is a macro; it copies the name.
        let isNamed = plain.withUnsafeMutableBytes {
            SSL_ctrl(state, SSL_CTRL_SET_TLSEXT_HOSTNAME, Int(TLSEXT_NAMETYPE_host_name), $0.baseAddress) == 1
        }
        // The error of an address that wasn't one stays in the queue otherwise.
        OpenSSLError.clear()
        guard isNamed, !host.isEmpty, X509_VERIFY_PARAM_set1_host(parameters, String(host), host.utf8.count) == 1 else {
            SSL_free(state)
            return nil
        }
        return state
    }
}

/// The other end of a connection with TLS: what is asked of it, and by which name its certificate has to know it.
package struct TLSPeer: Sendable {
    package var context: TLSClientContext
    /// A host name, or an address.
    package var name: String

    package init(_ context: TLSClientContext, name: String) {
        self.context = context
        self.name = name
    }
}
