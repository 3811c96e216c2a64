import HubBase
import HubCore
import HubNet

/// `tls.certificates`: files that are read and judged when the configuration is, so that a certificate that can't serve stops the start, and a
/// reload, before anything has changed.
enum CertificateSettings {
    static let certificatesMax = 64
    private static let fileByteCountMax = 256 * 1024
    /// How long before its end a certificate is warned about.
    private static let warningSeconds: Int64 = 14 * 86_400

    static func certificates(_ value: ConfigurationValue, _ sources: inout SecretSources) throws(SettingKind.Problem) -> [Configuration.TLS
        .Certificate]
    {
        var certificates: [Configuration.TLS.Certificate] = []
        var named: [[String]] = []
        let fields = try ObjectFields.list(value, of: "certificates", atMost: certificatesMax, fields: ["cert", "key", "names"])
        for (index, fields) in fields.enumerated() {
            do throws(SettingKind.Problem) {
                let loaded = try load(fields, &sources)
                // A name that two certificates were given is a slip; one that both stand for by themselves is usual.
                if let names = fields.members["names"] != nil ? loaded.names : nil {
                    for name in names where named.contains(where: { $0.contains(name) }) {
                        throw .init(place: ".names", message: "gives \(shownText(name)) to a second certificate")
                    }
                    named.append(names)
                }
                certificates.append(
                    .init(
                        chain: loaded.chain, key: loaded.key, names: loaded.names, fingerprint: loaded.fingerprint,
                        expires: TLSCertificate.dateText(loaded.notAfter)))
            } catch { throw error.within(index) }
        }
        return certificates
    }

    private static func load(_ fields: ObjectFields, _ sources: inout SecretSources) throws(SettingKind.Problem) -> TLSCertificate {
        guard let certificateFile = try fields.text("cert") else { throw .init(message: "lacks its cert: the name of a PEM file") }
        guard let keyFile = try fields.text("key") else { throw .init(message: "lacks its key: the name of a PEM file") }
        let names = try names(fields)
        let chain: [UInt8]
        do throws(SmallFile.Failure) { chain = try SmallFile.read(certificateFile, byteCountMax: fileByteCountMax).bytes } catch {
            throw .init(place: ".cert", message: "names the file \(shownPath(certificateFile)): \(error.message)")
        }
        let key: Secret
        do throws(SettingKind.Problem) { key = try sources.secret(file: keyFile) } catch {
            throw .init(place: ".key", message: error.message)
        }
        let now = Int64(clamping: WallClock.milliseconds() / 1000)
        let loaded: TLSCertificate
        do throws(TLSCertificate.Problem) {
            loaded = try TLSCertificate(chain: chain, key: key, names: names, now: now)
        } catch {
            let file = error.isOfKey ? keyFile : certificateFile
            throw .init(place: error.isOfKey ? ".key" : ".cert", message: "names the file \(shownPath(file)), which \(error.description)")
        }
        let file = shownPath(certificateFile)
        if loaded.notAfter - now < warningSeconds {
            sources.warnings.append("the certificate in \(file) expires soon: \(TLSCertificate.dateText(loaded.notAfter))")
        }
        if loaded.notBefore > now {
            sources.warnings.append("the certificate in \(file) isn't valid before \(TLSCertificate.dateText(loaded.notBefore))")
        }
        for name in loaded.namesNotCovered {
            sources.warnings.append("the certificate in \(file) doesn't stand for \(shownText(name)): clients will refuse it there")
        }
        return loaded
    }

    private static func names(_ fields: ObjectFields) throws(SettingKind.Problem) -> [String]? {
        guard let value = fields.members["names"] else { return nil }
        guard case .list(let elements) = value, !elements.isEmpty else {
            throw .init(place: ".names", message: "must be a list of host names, not \(value.shown)")
        }
        var names: [String] = []
        for element in elements {
            guard case .text(let name) = element, TLSNameTable.isName(name) else {
                throw .init(
                    place: ".names", message: "must hold host names such as \"hub.example.com\" or \"*.example.com\", not \(element.shown)")
            }
            names.append(name)
        }
        return names
    }
}
