import COpenSSL
import Glibc
import HubBase

/// A certificate with its chain and key, read and checked; a value that can be kept, compared and handed to any thread. `TLSContext` serves it.
package struct TLSCertificate: Sendable {
    /// Leaf first, as the PEM file has it.
    package let chain: [UInt8]
    package let key: Secret
    /// Host names that it's chosen for, lower-case: those given, or those that the leaf stands for.
    package let names: [String]
    /// Seconds since 1970.
    package let notBefore: Int64
    package let notAfter: Int64
    /// SHA-256 of the leaf, in hexadecimal digits.
    package let fingerprint: String
    /// Given names that the leaf doesn't stand for: clients would refuse it under these.
    package let namesNotCovered: [String]

    /// What is wrong, to be read after the certificate's name: "the key doesn't belong to the certificate".
    package struct Problem: Error, Equatable, CustomStringConvertible {
        /// Of the key rather than of the certificate.
        package let isOfKey: Bool
        package let description: String

        package init(isOfKey: Bool = false, _ description: String) {
            self.isOfKey = isOfKey
            self.description = description
        }
    }

    /// Reads PEM text. Refuses what couldn't serve: no certificate, a key of another one, one that has expired at `now` (seconds since 1970),
    /// one that OpenSSL's security level finds too weak. Takes milliseconds: for start and reload.
    ///
    /// - Parameter names: instead of those of the leaf; nil: the leaf's.
    package init(chain: [UInt8], key: Secret, names: [String]?, now: Int64) throws(Problem) {
        OpenSSLError.clear()
        defer { OpenSSLError.clear() }
        let leaf = try X509Chain(pem: chain)
        let pair = try PrivateKey(pem: key)
        guard X509_check_private_key(leaf.leaf, pair.key) == 1 else { throw Problem(isOfKey: true, "doesn't belong to the certificate") }
        guard let begin = Self.seconds(X509_get0_notBefore(leaf.leaf)), let end = Self.seconds(X509_get0_notAfter(leaf.leaf)) else {
            throw Problem("has an unreadable time of validity")
        }
        guard end > now else { throw Problem("has expired: it was valid until \(Self.dateText(end))") }
        self.chain = chain
        self.key = key
        self.names = (names ?? leaf.names).map { $0.lowercased() }
        notBefore = begin
        notAfter = end
        fingerprint = leaf.fingerprint
        namesNotCovered = (names ?? []).filter { !leaf.standsFor($0) }
        // The last word is OpenSSL's: whatever it can't use is found here and not when the first client comes.
        _ = try TLSContext.makeContext(leaf, pair)
    }

    /// "Sun, 06 Nov 1994 08:49:37 GMT"
    package static func dateText(_ seconds: Int64) -> String {
        var text = ByteBuffer(capacity: 32)
        HTTPDate.write(seconds, into: &text)
        return String(decoding: text.bytes, as: UTF8.self)
    }

    static func seconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64? {
        var fields = tm()
        guard ASN1_TIME_to_tm(time, &fields) == 1 else { return nil }
        return Int64(timegm(&fields))
    }
}

/// A leaf and the certificates that lead from it to a root.
final class X509Chain {
    let leaf: OpaquePointer
    private(set) var others: [OpaquePointer] = []

    /// `most`: how many certificates the text may hold.
    init(pem: [UInt8], most: Int = 16) throws(TLSCertificate.Problem) {
        let text = try PEMText(pem)
        guard let first = PEM_read_bio_X509_AUX(text.bio, nil, PEMText.noPassword, nil) else {
            throw .init("holds no certificate in PEM form (-----BEGIN CERTIFICATE-----): \(OpenSSLError.take())")
        }
        leaf = first
        while let next = PEM_read_bio_X509(text.bio, nil, PEMText.noPassword, nil) {
            others.append(next)
            guard others.count < most else { throw .init("holds more than \(most) certificates") }
        }
        // The end of the file is an error of the reader, "no start line"; anything else is a broken certificate.
        let reason = OpenSSLError.reason
        let message = OpenSSLError.take()
        guard reason == PEM_R_NO_START_LINE else { throw .init("has a broken certificate after the first \(others.count + 1): \(message)") }
    }

    deinit {
        X509_free(leaf)
        for other in others { X509_free(other) }
    }

    /// DNS names of the subject alternative name extension (RFC 5280 §4.2.1.6).
    var names: [String] { Self.names(of: leaf) }

    static func names(of certificate: OpaquePointer) -> [String] {
        guard let raw = X509_get_ext_d2i(certificate, NID_subject_alt_name, nil, nil) else { return [] }
        let list = OpaquePointer(raw)
        defer { GENERAL_NAMES_free(list) }
        var names: [String] = []
        for index in 0..<max(OPENSSL_sk_num(list), 0) {
            guard let element = OPENSSL_sk_value(list, index) else { continue }
            var kind: Int32 = 0
            let value = GENERAL_NAME_get0_value(UnsafePointer(element.assumingMemoryBound(to: GENERAL_NAME.self)), &kind)
            guard kind == GEN_DNS, let value else { continue }
            let text = UnsafePointer(value.assumingMemoryBound(to: ASN1_STRING.self))
            let bytes = UnsafeBufferPointer(start: ASN1_STRING_get0_data(text), count: Int(ASN1_STRING_length(text)))
            let name = String(decoding: bytes, as: UTF8.self)
            if TLSNameTable.isName(name) { names.append(name.lowercased()) }
        }
        return names
    }

    /// A wildcard is covered by the same wildcard, or by one for its place.
    func standsFor(_ name: String) -> Bool {
        let host = name.hasPrefix("*.") ? "x" + name.dropFirst(1) : name
        return X509_check_host(leaf, host, host.utf8.count, 0, nil) == 1
    }

    var fingerprint: String {
        var digest = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_LENGTH))
        var length: UInt32 = 0
        guard X509_digest(leaf, EVP_sha256(), &digest, &length) == 1 else { return "" }
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: digest.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}

struct PrivateKey: ~Copyable {
    let key: OpaquePointer

    init(pem: Secret) throws(TLSCertificate.Problem) {
        let text = try PEMText(pem.bytes)
        guard let key = PEM_read_bio_PrivateKey(text.bio, nil, PEMText.noPassword, nil) else {
            throw .init(isOfKey: true, "holds no private key in PEM form without a password: \(OpenSSLError.take())")
        }
        self.key = key
    }

    deinit { EVP_PKEY_free(key) }
}

/// PEM text in memory, for OpenSSL's readers.
struct PEMText: ~Copyable {
    let bio: OpaquePointer

    init(_ bytes: [UInt8]) throws(TLSCertificate.Problem) {
        // BIO_new_mem_buf would keep a pointer into the array: what is written is copied.
        guard let bio = BIO_new(BIO_s_mem()), BIO_write(bio, bytes, Int32(clamping: bytes.count)) == bytes.count else {
            throw .init("is empty or can't be kept in memory")
        }
        self.bio = bio
    }

    deinit { BIO_free(bio) }

    /// OpenSSL would otherwise ask for a password on the terminal.
    static let noPassword: @convention(c) (UnsafeMutablePointer<CChar>?, Int32, Int32, UnsafeMutableRawPointer?) -> Int32 = { _, _, _, _ in
        -1
    }
}
