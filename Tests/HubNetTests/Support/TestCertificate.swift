import COpenSSL
import HubBase
import HubNet

/// Self-made certificates.
struct TestCertificate {
    var certificate: [UInt8]
    var key: [UInt8]

    enum Kind { case p256, rsa(bits: Int32) }

    /// Signed by itself or by `authority`, valid until `days` from now, and since a day or, when that's long ago, since longer; not before
    /// `begins` days from now where that's given. Names of digits and dots are addresses.
    static func make(
        _ names: [String], kind: Kind = .p256, days: Int = 30, begins: Int? = nil, commonName: String = "test",
        by authority: TestCertificate? = nil,
        isAuthority: Bool = false
    ) -> TestCertificate {
        let pair = makeKey(kind)
        defer { EVP_PKEY_free(pair) }
        let certificate = X509_new()
        defer { X509_free(certificate) }
        X509_set_version(certificate, 2)
        ASN1_INTEGER_set(X509_get_serialNumber(certificate), Int.random(in: 1...Int(Int32.max)))
        X509_gmtime_adj(X509_getm_notBefore(certificate), 86_400 * (begins ?? (days < 0 ? -400 : -1)))
        X509_gmtime_adj(X509_getm_notAfter(certificate), 86_400 * days)
        X509_set_pubkey(certificate, pair)
        let subject = X509_get_subject_name(certificate)
        X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, commonName, -1, -1, 0)
        let issuer = authority.map { read($0.certificate) { PEM_read_bio_X509($0, nil, nil, nil) } }
        let issuerKey = authority.map { read($0.key) { PEM_read_bio_PrivateKey($0, nil, nil, nil) } }
        defer {
            if let issuer { X509_free(issuer) }
            if let issuerKey { EVP_PKEY_free(issuerKey) }
        }
        X509_set_issuer_name(certificate, issuer.map { X509_get_subject_name($0) } ?? subject)
        var context = X509V3_CTX()
        X509V3_set_ctx(&context, certificate, certificate, nil, nil, 0)
        if isAuthority {
            let constraints = X509V3_EXT_conf_nid(nil, &context, NID_basic_constraints, "critical,CA:TRUE")
            X509_add_ext(certificate, constraints, -1)
            X509_EXTENSION_free(constraints)
        }
        if !names.isEmpty {
            let text = names.map { ($0.contains { $0.isLetter } ? "DNS:" : "IP:") + $0 }.joined(separator: ",")
            let alternatives = X509V3_EXT_conf_nid(nil, &context, NID_subject_alt_name, text)
            X509_add_ext(certificate, alternatives, -1)
            X509_EXTENSION_free(alternatives)
        }
        precondition(X509_sign(certificate, issuerKey ?? pair, EVP_sha256()) > 0)
        return TestCertificate(
            certificate: pem { PEM_write_bio_X509($0, certificate) },
            key: pem { PEM_write_bio_PrivateKey($0, pair, nil, nil, 0, nil, nil) })
    }

    /// The key under a password.
    func lockedKey() -> [UInt8] {
        let pair = Self.read(key) { PEM_read_bio_PrivateKey($0, nil, nil, nil) }
        defer { EVP_PKEY_free(pair) }
        let password = Array("secret".utf8)
        return Self.pem { PEM_write_bio_PrivateKey($0, pair, EVP_aes_128_cbc(), password, Int32(password.count), nil, nil) }
    }

    func load(names: [String]? = nil, now: Int64 = TestCertificate.now()) throws -> TLSCertificate {
        try TLSCertificate(chain: certificate, key: Secret(key), names: names, now: now)
    }

    static func now() -> Int64 { Int64(time(nil)) }

    private static func makeKey(_ kind: Kind) -> OpaquePointer? {
        let context: OpaquePointer?
        switch kind {
        case .p256:
            context = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nil)
            EVP_PKEY_keygen_init(context)
            EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, NID_X9_62_prime256v1)
        case .rsa(let bits):
            context = EVP_PKEY_CTX_new_id(EVP_PKEY_RSA, nil)
            EVP_PKEY_keygen_init(context)
            EVP_PKEY_CTX_set_rsa_keygen_bits(context, bits)
        }
        var pair: OpaquePointer?
        precondition(EVP_PKEY_keygen(context, &pair) == 1)
        EVP_PKEY_CTX_free(context)
        return pair
    }

    private static func read(_ text: [UInt8], _ body: (OpaquePointer?) -> OpaquePointer?) -> OpaquePointer? {
        let source = BIO_new(BIO_s_mem())
        defer { BIO_free(source) }
        BIO_write(source, text, Int32(text.count))
        return body(source)
    }

    private static func pem(_ write: (OpaquePointer?) -> Int32) -> [UInt8] {
        let bio = BIO_new(BIO_s_mem())
        defer { BIO_free(bio) }
        precondition(write(bio) == 1)
        var bytes = [UInt8](repeating: 0, count: 65536)
        let count = BIO_read(bio, &bytes, Int32(bytes.count))
        return [UInt8](bytes[..<Int(max(count, 0))])
    }
}
