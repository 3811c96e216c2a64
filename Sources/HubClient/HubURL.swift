/// Where a hub is: `http://host:port`, `ws://…`, or the same with TLS. A value; parsing can't trap.
package struct HubURL: Sendable, Hashable {
    package struct Malformed: Error, Sendable, Equatable, CustomStringConvertible {
        package let description: String
    }

    package let isSecure: Bool
    /// Without brackets, as a resolver wants it.
    package let host: String
    package let port: Int
    /// What stands before our own paths when the hub is mounted below a prefix: "" or "/hub", never with a slash at its end.
    package let prefix: String

    /// Takes http, https, ws and wss. A user, a query or a fragment is refused: the first would put a secret where `ps` shows it, the
    /// others mean nothing here.
    package init(_ text: String) throws(Malformed) {
        guard let colon = text.utf8.firstRange(of: "://".utf8) else {
            throw Malformed(description: "\(Self.shown(text)) has no scheme; write http://HOST:PORT")
        }
        switch text[..<colon.lowerBound].lowercased() {
        case "http", "ws": isSecure = false
        case "https", "wss": isSecure = true
        default: throw Malformed(description: "\(Self.shown(text)) must begin with http://, https://, ws:// or wss://")
        }
        let rest = text[colon.upperBound...]
        let end = rest.firstIndex(of: "/") ?? rest.endIndex
        let authority = rest[..<end]
        var path = rest[end...]
        guard !rest.contains(where: { "@?# \\".contains($0) }), rest.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw Malformed(description: "\(Self.shown(text)) may hold a host, a port and a path only, in ASCII")
        }
        while path.hasSuffix("/") { path.removeLast() }
        prefix = String(path)
        var portText: Substring?
        if authority.hasPrefix("[") {
            guard let bracket = authority.firstIndex(of: "]") else {
                throw Malformed(description: "\(Self.shown(text)) has a [ without its ]")
            }
            host = String(authority[authority.index(after: authority.startIndex)..<bracket])
            let after = authority[authority.index(after: bracket)...]
            guard after.isEmpty || after.hasPrefix(":") else {
                throw Malformed(description: "\(Self.shown(text)) has something between ] and the port")
            }
            portText = after.isEmpty ? nil : after.dropFirst()
        } else {
            let parts = authority.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            host = String(parts.first ?? "")
            portText = parts.count > 1 ? parts[1] : nil
        }
        guard !host.isEmpty else { throw Malformed(description: "\(Self.shown(text)) has no host") }
        if let portText {
            guard let number = Int(portText), (1...65535).contains(number), portText.utf8.allSatisfy({ $0 >= 48 && $0 <= 57 }) else {
                throw Malformed(description: "\(Self.shown(text)) has no port from 1 to 65535 after the colon")
            }
            port = number
        } else {
            port = isSecure ? 443 : 80
        }
    }

    /// As it stands in a Host header: the port only when it isn't the scheme's own (RFC 9110 §7.2).
    package var authority: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == (isSecure ? 443 : 80) ? name : "\(name):\(port)"
    }

    /// The HTTP address of one of the hub's paths, which begins with a slash.
    package func http(_ path: String) -> String { "\(isSecure ? "https" : "http")://\(authority)\(prefix)\(path)" }

    /// Percent-encodes all but RFC 3986's unreserved characters: fit for a path segment and for a query value.
    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        var text = ""
        for byte in bytes {
            switch byte {
            case 48...57, 65...90, 97...122, UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"):
                text.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                let digits = String(byte, radix: 16, uppercase: true)
                text += byte < 16 ? "%0" + digits : "%" + digits
            }
        }
        return text
    }

    /// Fit for a terminal: short, without control characters. One with a user or a query may hold a password: it isn't shown.
    private static func shown(_ text: String) -> String {
        if text.contains(where: { "@?#".contains($0) }) {
            return "an address of \(text.utf8.count) bytes with a user, a query or a fragment"
        }
        return "\""
            + String(String.UnicodeScalarView(text.unicodeScalars.prefix(100).map { $0.value < 0x20 || $0.value == 0x7F ? "?" : $0 }))
            + "\""
    }
}

extension HubURL: CustomStringConvertible {
    package var description: String { http("") }
}

extension Collection where Element == UInt8 {
    /// The first place where `pattern` stands. Cost: length × length; for short texts.
    fileprivate func firstRange(of pattern: some Collection<UInt8>) -> Range<Index>? {
        var start = startIndex
        while start != endIndex {
            var index = start
            var rest = pattern.makeIterator()
            while let expected = rest.next() {
                guard index != endIndex, self[index] == expected else { index = start; break }
                index = self.index(after: index)
            }
            if index != start { return start..<index }
            start = self.index(after: start)
        }
        return nil
    }
}
