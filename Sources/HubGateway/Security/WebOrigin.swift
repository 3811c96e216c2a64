import HubBase
import HubNet

/// Whose page it is, taken apart: scheme, host and port, which is all that makes two origins the same (RFC 6454 §4, §5). What isn't written as a
/// browser writes one (§6.1) is none. One pass over at most 300 bytes.
package struct WebOrigin: Hashable, Sendable {
    package enum Host: Hashable, Sendable {
        /// ASCII in lower case; international names as they travel, in punycode.
        case name(String)
        /// Of an IPv6 address there are several spellings.
        case address(IPAddress)
    }

    package let scheme: String
    package let host: Host
    /// The scheme's default where none was written; 0 where it has none.
    package let port: Int

    private static let bytesMax = 300

    /// nil for "null", and for whatever has user, path, query or fragment, an empty label (so also a dot at the end), a port that isn't one, bytes
    /// beyond ASCII or of a kind that no host has.
    package init?(_ bytes: UnsafeRawBufferPointer) {
        guard (1...Self.bytesMax).contains(bytes.count), let colon = bytes.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        let scheme = bytes[..<colon]
        guard let first = scheme.first, Self.isLetter(first), scheme.allSatisfy(Self.isOfScheme) else { return nil }
        let slashes = bytes[(colon + 1)...].prefix(2)
        guard slashes.elementsEqual("//".utf8) else { return nil }
        var rest = bytes[(colon + 3)...]
        self.scheme = Self.lowercased(scheme)

        var port = Self.defaultPort(of: self.scheme)
        if rest.first == UInt8(ascii: "[") {
            guard let end = rest.firstIndex(of: UInt8(ascii: "]")) else { return nil }
            guard let address = IPAddress(literal: UnsafeRawBufferPointer(rebasing: rest[(rest.startIndex + 1)..<end])),
                rest[..<end].contains(UInt8(ascii: ":"))
            else { return nil }
            host = .address(address)
            rest = rest[(end + 1)...]
        } else {
            let end = rest.firstIndex(of: UInt8(ascii: ":")) ?? rest.endIndex
            guard Self.isName(rest[..<end]) else { return nil }
            host = .name(Self.lowercased(rest[..<end]))
            rest = rest[end...]
        }
        if !rest.isEmpty {
            let digits = rest.dropFirst()
            guard rest.first == UInt8(ascii: ":"), (1...5).contains(digits.count), digits.first != UInt8(ascii: "0"),
                digits.allSatisfy({ (0x30...0x39).contains($0) })
            else { return nil }
            port = digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
            guard port <= 65535 else { return nil }
        }
        self.port = port
    }

    package init?(_ text: String) {
        var text = text
        guard let origin = text.withUTF8({ WebOrigin(UnsafeRawBufferPointer($0)) }) else { return nil }
        self = origin
    }

    package init(scheme: String, host: Host, port: Int) {
        self.scheme = scheme
        self.host = host
        self.port = port
    }

    /// A page of this machine.
    package var isLoopback: Bool {
        guard scheme == "http" || scheme == "https" else { return false }
        switch host {
        case .name(let name): return name == "localhost" || name == "127.0.0.1"
        case .address(let address): return address == IPAddress(high: 0, low: 1)
        }
    }

    static func defaultPort(of scheme: String) -> Int {
        switch scheme {
        case "http", "ws": 80
        case "https", "wss": 443
        default: 0
        }
    }

    // MARK: Characters

    private static func isLetter(_ byte: UInt8) -> Bool { (0x61...0x7A).contains(byte | 0x20) }
    private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }
    /// RFC 3986 §3.1.
    private static func isOfScheme(_ byte: UInt8) -> Bool {
        isLetter(byte) || isDigit(byte) || byte == 0x2B || byte == 0x2D || byte == 0x2E
    }

    /// Labels of letters, digits, hyphens and underscores with single dots between them, 253 bytes at most.
    static func isName(_ bytes: Slice<UnsafeRawBufferPointer>) -> Bool {
        guard (1...253).contains(bytes.count) else { return false }
        var label = 0
        for byte in bytes {
            if byte == UInt8(ascii: ".") {
                if label == 0 { return false }
                label = 0
            } else if isLetter(byte) || isDigit(byte) || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_") {
                label += 1
                if label > 63 { return false }
            } else {
                return false
            }
        }
        return label > 0
    }

    private static func lowercased(_ bytes: Slice<UnsafeRawBufferPointer>) -> String {
        String(decoding: bytes.map { (0x41...0x5A).contains($0) ? $0 | 0x20 : $0 }, as: UTF8.self)
    }
}
