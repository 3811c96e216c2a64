import Glibc

/// An IP address without a port: what ranges are compared with. IPv4 addresses and their IPv6-mapped forms (RFC 4291 §2.5.5.2) are one and
/// the same value, so that a range of IPv4 addresses also covers what a dual-stack socket reports.
package struct IPAddress: Hashable, Sendable {
    /// The 128 bits, most significant first.
    package let high: UInt64
    package let low: UInt64

    private static let mapped: UInt64 = 0xFFFF

    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    package init(v4: UInt32) { self.init(high: 0, low: Self.mapped << 32 | UInt64(v4)) }

    package var isV4: Bool { high == 0 && low >> 32 == Self.mapped }

    /// A literal as `inet_pton` takes it: "192.0.2.1", "2001:db8::1"; no brackets, no port, no zone.
    package init?(literal bytes: UnsafeRawBufferPointer) {
        guard (2...Int(INET6_ADDRSTRLEN) - 1).contains(bytes.count), !bytes.contains(0) else { return nil }
        let text = bytes.map { CChar(bitPattern: $0) } + [0]
        if bytes.contains(UInt8(ascii: ":")) {
            var words = (UInt64(0), UInt64(0))
            guard inet_pton(AF_INET6, text, &words) == 1 else { return nil }
            self.init(high: UInt64(bigEndian: words.0), low: UInt64(bigEndian: words.1))
        } else {
            var address = in_addr()
            guard inet_pton(AF_INET, text, &address) == 1 else { return nil }
            self.init(v4: UInt32(bigEndian: address.s_addr))
        }
    }

    package init?(_ text: String) {
        var text = text
        guard let address = text.withUTF8({ IPAddress(literal: UnsafeRawBufferPointer($0)) }) else { return nil }
        self = address
    }
}
