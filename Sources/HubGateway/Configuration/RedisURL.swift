/// "redis://[:PASSWORD@]HOST[:PORT][/DATABASE]".
package enum RedisURL {
    package static func problem(_ text: String) -> String? {
        if text.hasPrefix("rediss://") { return "\"redis://…\": Redis over TLS isn't supported by this version" }
        guard text.hasPrefix("redis://") else { return "\"redis://HOST:PORT\" or \"redis://HOST:PORT/DATABASE\"" }
        let rest = text.dropFirst("redis://".count)
        if let at = rest.lastIndex(of: "@") {
            let user = rest[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard user.count == 2, user[0].isEmpty || user[0] == "default" else {
                return "without a user name: users of Redis other than \"default\" aren't supported by this version"
            }
            guard !user[1].isEmpty, decoded(user[1]) != nil else { return "with a password that is percent-encoded after the colon" }
        }
        let address = rest.lastIndex(of: "@").map { rest[rest.index(after: $0)...] } ?? rest
        let parts = address.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        let hostAndPort = String(parts[0])
        let hasPort = ListenAddress.split(hostAndPort).map { !$0.port.hasSuffix("]") } ?? false
        guard ListenAddress.problem(hasPort ? hostAndPort : hostAndPort + ":6379") == nil, !hostAndPort.hasSuffix(":0") else {
            return "\"redis://HOST:PORT\" with a port from 1 to 65535"
        }
        if parts.count == 2, !parts[1].isEmpty, Int(parts[1]).map({ (0...65535).contains($0) }) != true {
            return "\"redis://HOST:PORT/DATABASE\" with a number for the database"
        }
        return nil
    }

    /// The URL without its password, and that. `text` has no problem.
    package static func split(_ text: String) -> (url: String, password: String?) {
        guard let at = text.lastIndex(of: "@") else { return (text, nil) }
        let user = text[..<at].dropFirst("redis://".count)
        let password = user.firstIndex(of: ":").flatMap { decoded(user[user.index(after: $0)...]) }
        return ("redis://" + text[text.index(after: at)...], password)
    }

    private static func decoded(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            let digits = String(decoding: rest.prefix(2), as: UTF8.self)
            guard digits.utf8.count == 2, digits.first != "+", let value = UInt8(digits, radix: 16) else { return nil }
            rest = rest.dropFirst(2)
            bytes.append(value)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
