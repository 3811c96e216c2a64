import COpenSSL

/// What to do about a server's certificate that isn't believed, by OpenSSL's verdict (X509_V_…).
package enum TLSAdvice {
    /// - Parameter place: where the reader names authorities, "--ca FILE".
    package static func text(verdict: Int, place: String?) -> String {
        let advice = text(verdict: verdict)
        guard advice == authority, let place else { return advice }
        return "\(advice) (\(place))"
    }

    static let authority = "if it's yours, give the certificate of its authority"

    /// Without the place, which the connection's context knows.
    static func text(verdict: Int) -> String {
        switch Int32(truncatingIfNeeded: verdict) {
        case X509_V_ERR_CERT_HAS_EXPIRED: "it needs a new one, unless this machine's clock is wrong"
        case X509_V_ERR_CERT_NOT_YET_VALID: "is this machine's clock right?"
        case X509_V_OK, X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH: "use a name that it stands for"
        case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT,
            X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
            authority
        default: "it needs another one"
        }
    }
}
