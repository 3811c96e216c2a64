import COpenSSL
import HubBase

/// Why a server's certificate isn't believed, in words that say what to do. OpenSSL's own are half of that: "certificate verify failed".
///
/// What stands in the certificate is the other side's: names are checked, others are printed by OpenSSL with escapes and an end.
enum TLSDistrust {
    /// OpenSSL asks for each certificate of the chain; nothing that it found wrong is made good here, it's only told.
    static let callback: @convention(c) (Int32, OpaquePointer?) -> Int32 = { isGood, store in
        guard isGood != 1, let store, let scratch = scratch(of: store), scratch.pointee.distrust == nil else { return isGood }
        scratch.pointee.distrust = text(store)
        return isGood
    }

    /// Of the loop that serves the connection: its handshake is under way in this very call.
    private static func scratch(of store: OpaquePointer) -> UnsafeMutablePointer<TLSScratch>? {
        guard let ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()), let bio = SSL_get_rbio(OpaquePointer(ssl))
        else { return nil }
        return TLSScratch.of(bio)
    }

    private static func text(_ store: OpaquePointer) -> String {
        let error = X509_STORE_CTX_get_error(store)
        let certificate = X509_STORE_CTX_get_current_cert(store)
        let advice = TLSAdvice.text(verdict: Int(error))
        switch error {
        case X509_V_ERR_CERT_HAS_EXPIRED:
            let end = certificate.flatMap { TLSCertificate.seconds(X509_get0_notAfter($0)) }
            return "the server's certificate has expired\(end.map { ": it was valid until " + TLSCertificate.dateText($0) } ?? "")"
                + "; \(advice)"
        case X509_V_ERR_CERT_NOT_YET_VALID:
            let begin = certificate.flatMap { TLSCertificate.seconds(X509_get0_notBefore($0)) }
            return "the server's certificate isn't valid\(begin.map { " before " + TLSCertificate.dateText($0) } ?? " yet")"
                + "; \(advice)"
        case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH:
            return "the server's certificate stands for \(names(certificate)), not for \(expected(store)): \(advice)"
        case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT,
            X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
            return "nobody trusted vouches for the server's certificate (issuer \(issuer(certificate))): "
                + advice
        default: return "the server's certificate isn't accepted: \(String(cString: X509_verify_cert_error_string(Int(error))))"
        }
    }

    private static func names(_ certificate: OpaquePointer?) -> String {
        let names = certificate.map { X509Chain.names(of: $0) } ?? []
        if names.isEmpty { return "no host name" }
        return names.prefix(4).joined(separator: ", ") + (names.count > 4 ? " and \(names.count - 4) more" : "")
    }

    private static func expected(_ store: OpaquePointer) -> String {
        let parameters = X509_STORE_CTX_get0_param(store)
        if let host = X509_VERIFY_PARAM_get0_host(parameters, 0) { return String(cString: host) }
        guard let address = X509_VERIFY_PARAM_get1_ip_asc(parameters) else { return "this address" }
        defer { CRYPTO_free(address, #fileID, Int32(#line)) }
        return String(cString: address)
    }

    private static func issuer(_ certificate: OpaquePointer?) -> String {
        guard let certificate else { return "unknown" }
        var text = [CChar](repeating: 0, count: 160)
        guard X509_NAME_oneline(X509_get_issuer_name(certificate), &text, Int32(text.count)) != nil else { return "unknown" }
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
