import HubCore
import HubNet

/// A node's side of TLS: what its loops serve now. Ticket keys outlive certificates, so that a renewed certificate doesn't cost everybody a whole
/// handshake.
struct NodeTLS {
    let context: TLSContext
    private let tickets: TicketKeys
    private let settings: Configuration.TLS

    /// nil without certificates.
    init?(_ settings: Configuration.TLS) throws(NetError) { try self.init(settings, after: nil) }

    /// What serves after a reload; nil when nothing has changed, or when no certificate is left (the listeners stay, and so does what they had).
    func changed(to settings: Configuration.TLS) throws(NetError) -> NodeTLS? {
        let isSame = SettingValue.certificates(settings.certificates).isSame(as: .certificates(self.settings.certificates))
        guard !isSame || settings.ticketSecret?.bytes != self.settings.ticketSecret?.bytes else { return nil }
        return try NodeTLS(settings, after: self)
    }

    private init?(_ settings: Configuration.TLS, after previous: NodeTLS?) throws(NetError) {
        guard !settings.certificates.isEmpty else { return nil }
        self.settings = settings
        if let secret = settings.ticketSecret {
            tickets = TicketKeys(secret: secret)
        } else if let previous, previous.settings.ticketSecret == nil {
            tickets = previous.tickets
        } else {
            tickets = TicketKeys()
        }
        let now = Int64(clamping: WallClock.milliseconds() / 1000)
        do throws(TLSCertificate.Problem) {
            var certificates: [TLSCertificate] = []
            for certificate in settings.certificates {
                certificates.append(
                    try TLSCertificate(chain: certificate.chain, key: certificate.key, names: certificate.names, now: now))
            }
            context = try TLSContext(certificates, tickets: tickets)
        } catch {
            throw NetError(number: 0, description: "tls.certificates: \(error.isOfKey ? "a key" : "a certificate") \(error.description)")
        }
    }
}

extension TrustedProxies {
    /// nil when nobody is trusted.
    init?(_ settings: Configuration.Proxy) {
        guard !settings.trusted.isEmpty else { return nil }
        self.init(
            ranges: settings.trusted.compactMap { AddressRange($0) }, sendsHeader: settings.usesProtocol,
            header: settings.header == .forwarded ? .forwarded : .xForwardedFor)
    }
}
