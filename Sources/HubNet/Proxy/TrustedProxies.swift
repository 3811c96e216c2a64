/// Whose word about a client's address is taken, and in which form it's given.
///
/// One header, and not whichever is there: a proxy that writes one passes the other through as the client sent it, and a client could then
/// be whoever it likes.
package struct TrustedProxies: Sendable {
    package enum Header: Sendable {
        /// De facto: addresses separated by commas, each proxy appends the one that it saw.
        case xForwardedFor
        /// RFC 7239.
        case forwarded
    }

    package var ranges: [AddressRange]
    /// Connections from trusted addresses begin with a PROXY header, version 2.
    package var sendsHeader: Bool
    package var header: Header

    package init(ranges: [AddressRange] = [], sendsHeader: Bool = false, header: Header = .xForwardedFor) {
        self.ranges = ranges
        self.sendsHeader = sendsHeader
        self.header = header
    }

    package func trusts(_ address: IPAddress) -> Bool { ranges.contains { $0.contains(address) } }
}
