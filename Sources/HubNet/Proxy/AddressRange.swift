/// A range of IP addresses in CIDR notation (RFC 4632 §3.1, RFC 4291 §2.3): "10.0.0.0/8", "2001:db8::/32"; a single address stands for itself.
package struct AddressRange: Hashable, Sendable {
    private let first: IPAddress
    private let highMask: UInt64
    private let lowMask: UInt64

    /// nil when it isn't a range, or when bits after the prefix are set ("10.0.0.1/8" is more likely a slip than a wish).
    package init?(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let address = IPAddress(String(parts[0])) else { return nil }
        let width = address.isV4 && !parts[0].contains(":") ? 32 : 128
        var length = width
        if parts.count == 2 {
            let digits = parts[1].utf8
            guard (1...3).contains(digits.count), digits.allSatisfy(ASCII.isDigit), digits.count == 1 || digits.first != UInt8(ascii: "0"),
                let number = Int(parts[1]), number <= width
            else { return nil }
            length = number
        }
        let bits = length + 128 - width
        highMask = bits >= 64 ? .max : Self.mask(bits)
        lowMask = bits <= 64 ? 0 : Self.mask(bits - 64)
        guard address.high & ~highMask == 0, address.low & ~lowMask == 0 else { return nil }
        first = address
    }

    private static func mask(_ bits: Int) -> UInt64 { bits == 0 ? 0 : .max << UInt64(64 - bits) }

    package func contains(_ address: IPAddress) -> Bool {
        address.high & highMask == first.high && address.low & lowMask == first.low
    }
}
