import HubBase
import HubCore
import HubNet

/// Where Redis is: `redis://[[user:]password@]host[:port][/database]`, `rediss://…` for TLS, or `unix:///path[?db=n]`. User and password are
/// percent-encoded.
package struct RedisURL: Sendable {
    package enum Place: Sendable, Hashable {
        case host(String, port: Int)
        case unix(String)
    }

    package var place: Place
    package var usesTLS = false
    package var user: [UInt8]?
    package var password: Secret?
    /// nil: none is named.
    package var database: Int?

    /// Says what a URL has to be, to be read after "must be"; doesn't repeat it: it may hold a password.
    package struct Problem: Error, Equatable, CustomStringConvertible {
        package let description: String
    }

    package init(_ text: String) throws(Problem) {
        var rest = [UInt8](text.utf8)[...]
        if RedisURL.drop("unix://", from: &rest) {
            let (path, query) = RedisURL.split(rest, at: UInt8(ascii: "?"), last: false)
            guard path.count > 1, path.first == UInt8(ascii: "/"), path.count < 108, !path.contains(0) else {
                throw Problem(description: "\"unix:///PATH\" with an absolute path of at most 107 bytes")
            }
            place = .unix(String(decoding: path, as: UTF8.self))
            if var query {
                guard RedisURL.drop("db=", from: &query) else {
                    throw Problem(description: "\"unix:///PATH\" or \"unix:///PATH?db=NUMBER\"")
                }
                database = try RedisURL.database(query)
            }
            return
        }
        if RedisURL.drop("rediss://", from: &rest) {
            usesTLS = true
        } else {
            guard RedisURL.drop("redis://", from: &rest) else {
                throw Problem(
                    description: "\"redis://HOST:PORT\" or \"redis://HOST:PORT/DATABASE\" (\"rediss://…\": TLS; \"unix:///PATH\": a socket)"
                )
            }
        }
        let (authority, path) = RedisURL.split(rest, at: UInt8(ascii: "/"), last: false)
        if let path, !path.isEmpty { database = try RedisURL.database(path) }
        // The last @: an unencoded one in a password does no harm.
        let (before, after) = RedisURL.split(authority, at: UInt8(ascii: "@"), last: true)
        let address = after ?? before
        if after != nil {
            let (user, password) = RedisURL.split(before, at: UInt8(ascii: ":"), last: false)
            let secret = try RedisURL.decode(password ?? user)
            if !secret.isEmpty { self.password = Secret(secret) }
            if password != nil && !user.isEmpty { self.user = try RedisURL.decode(user) }
        }
        place = try RedisURL.host(address)
    }

    private static func host(_ address: ArraySlice<UInt8>) throws(Problem) -> Place {
        var name = address
        var port = 6379
        let isBracketed = address.first == UInt8(ascii: "[")
        let (front, back) = split(address, at: UInt8(ascii: ":"), last: true)
        if let back, !isBracketed || front.last == UInt8(ascii: "]") {
            guard let number = decimal(back), (1...65_535).contains(number) else {
                throw Problem(description: "\"redis://HOST:PORT\" with a port from 1 to 65535")
            }
            port = number
            name = front
        }
        if isBracketed {
            guard name.last == UInt8(ascii: "]") else {
                throw Problem(description: "\"redis://[ADDRESS]:PORT\" with both brackets around an IPv6 address")
            }
            name = name.dropFirst().dropLast()
        }
        guard !name.isEmpty, name.count <= 255, name.allSatisfy({ $0 > 32 && $0 < 127 }) else {
            throw Problem(description: "\"redis://HOST:PORT\" with a host's name or address")
        }
        return .host(String(decoding: name, as: UTF8.self), port: port)
    }

    private static func database(_ digits: ArraySlice<UInt8>) throws(Problem) -> Int {
        guard let number = decimal(digits), number <= 65_535 else {
            throw Problem(description: "\"redis://HOST:PORT/DATABASE\" with a number from 0 to 65535 for the database")
        }
        return number
    }

    private static func decimal(_ digits: ArraySlice<UInt8>) -> Int? {
        digits.withUnsafeBytes { $0.count <= 9 ? $0.decimal.map { Int($0) } : nil }
    }

    private static func drop(_ prefix: StaticString, from rest: inout ArraySlice<UInt8>) -> Bool {
        guard rest.withUnsafeBytes({ $0.hasPrefix(prefix) }) else { return false }
        rest = rest.dropFirst(prefix.utf8CodeUnitCount)
        return true
    }

    private static func split(_ bytes: ArraySlice<UInt8>, at separator: UInt8, last: Bool) -> (ArraySlice<UInt8>, ArraySlice<UInt8>?) {
        guard let place = last ? bytes.lastIndex(of: separator) : bytes.firstIndex(of: separator) else { return (bytes, nil) }
        return (bytes[..<place], bytes[(place + 1)...])
    }

    private static func decode(_ bytes: ArraySlice<UInt8>) throws(Problem) -> [UInt8] {
        var decoded: [UInt8] = []
        var index = bytes.startIndex
        while index < bytes.endIndex {
            if bytes[index] == UInt8(ascii: "%") {
                guard index + 2 < bytes.endIndex, let high = hex(bytes[index + 1]), let low = hex(bytes[index + 2]) else {
                    throw Problem(description: "\"redis://USER:PASSWORD@HOST:PORT\" with user and password percent-encoded")
                }
                decoded.append(high << 4 | low)
                index += 3
            } else {
                decoded.append(bytes[index])
                index += 1
            }
        }
        return decoded
    }

    private static func hex(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 48...57: byte - 48
        case 65...70: byte - 55
        case 97...102: byte - 87
        default: nil
        }
    }
}

extension RedisURL.Place: CustomStringConvertible {
    package var description: String {
        switch self {
        case .host(let host, let port): host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]:\(port)" : "\(host):\(port)"
        case .unix(let path): "unix:\(path)"
        }
    }
}

extension RedisURL: CustomStringConvertible {
    /// Without user and password, but with all else that it was made from.
    package var description: String {
        switch place {
        case .host: "\(usesTLS ? "rediss" : "redis")://\(place)\(database.map { "/\($0)" } ?? "")"
        case .unix(let path): "unix://\(path)\(database.map { "?db=\($0)" } ?? "")"
        }
    }
}
