/// Which certificate serves which host name (SNI, RFC 6066 §3). A pure value.
///
/// Names are compared without case. "*.example.com" stands for exactly one more label, as in certificates (RFC 6125 §6.4.3). A name of its own
/// goes before a wildcard; of two certificates for one name the first counts; what nobody stands for gets the first certificate.
package struct TLSNameTable: Sendable {
    private var indexes: [String: Int] = [:]
    /// Names that an earlier certificate has already.
    package private(set) var repeated: [String] = []

    /// The names of each certificate, in order.
    package init(_ names: [[String]]) {
        for (index, list) in names.enumerated() {
            for name in list.map({ $0.lowercased() }) {
                if let other = indexes[name] {
                    if other != index { repeated.append(name) }
                } else {
                    indexes[name] = index
                }
            }
        }
    }

    package func index(of host: String) -> Int {
        let host = host.lowercased()
        if let exact = indexes[host] { return exact }
        guard let dot = host.firstIndex(of: "."), dot > host.startIndex else { return 0 }
        return indexes["*" + host[dot...]] ?? 0
    }

    /// Whether `name` may stand in the table: a host name, or "*." and one.
    package static func isName(_ name: String) -> Bool {
        let host = name.hasPrefix("*.") ? name.dropFirst(2) : name[...]
        guard (1...253).contains(host.utf8.count) else { return false }
        return host.split(separator: ".", omittingEmptySubsequences: false).allSatisfy { label in
            (1...63).contains(label.utf8.count)
                && label.utf8.allSatisfy { ASCII.isDigit($0) || (0x61...0x7A).contains($0 | 0x20) || $0 == 0x2D || $0 == 0x5F }
        }
    }
}
