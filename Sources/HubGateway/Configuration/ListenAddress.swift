/// "HOST:PORT" to listen on. Looks at the text only; what it resolves to is for the socket.
package enum ListenAddress {
    /// What the text must be instead; nil when it's fine.
    package static func problem(_ text: String) -> String? {
        guard let (host, port) = split(text) else { return "HOST:PORT, such as \"127.0.0.1:8080\" or \"[::1]:8080\"" }
        if host.isEmpty { return "HOST:PORT with a host: \"0.0.0.0:\(port)\" is every interface" }
        guard isHost(host) else { return "HOST:PORT with a host name, an IPv4 address or an IPv6 address in brackets" }
        guard let number = Int(port), (0...65535).contains(number), port.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return "HOST:PORT with a port from 0 to 65535"
        }
        return nil
    }

    /// Whether only this machine can reach it: 127.0.0.0/8, ::1, or "localhost".
    package static func isLoopback(_ text: String) -> Bool {
        guard let (host, _) = split(text) else { return false }
        if host == "localhost" || host == "[::1]" { return true }
        return ipv4(host)?.first == 127
    }

    static func split(_ text: String) -> (host: String, port: String)? {
        guard let colon = text.lastIndex(of: ":") else { return nil }
        let host = String(text[..<colon])
        // An IPv6 address without brackets has colons of its own.
        guard !host.contains(":") || (host.hasPrefix("[") && host.hasSuffix("]")) else { return nil }
        return (host, String(text[text.index(after: colon)...]))
    }

    static func isHost(_ host: String) -> Bool {
        if host.hasPrefix("[") {
            let inner = host.dropFirst().dropLast()
            return inner.contains(":") && inner.utf8.allSatisfy { $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: ".") || isHex($0) }
        }
        let isNumeric = host.utf8.allSatisfy { (0x30...0x39).contains($0) || $0 == UInt8(ascii: ".") }
        if isNumeric { return ipv4(host) != nil }
        return (1...253).contains(host.utf8.count)
            && host.utf8.allSatisfy { isHex($0) || (0x61...0x7A).contains($0 | 0x20) || [0x2D, 0x2E, 0x5F].contains($0) }
    }

    private static func ipv4(_ host: String) -> [UInt8]? {
        let parts = host.split(separator: ".", omittingEmptySubsequences: false).map { UInt8($0) }
        guard parts.count == 4, !parts.contains(nil), !host.contains("+") else { return nil }
        return parts.compactMap { $0 }
    }

    private static func isHex(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte | 0x20) }
}
