import Glibc

/// An IPv4, IPv6 or Unix-domain address, ready for the system. A value; 28 bytes or a path.
package struct SocketAddress: Sendable, Hashable, CustomStringConvertible {
    private enum Form: Hashable, Sendable {
        /// Host byte order.
        case v4(UInt32, UInt16)
        /// The address's bytes as two words in memory order.
        case v6(UInt64, UInt64, UInt16, scope: UInt32)
        case unix(String)
    }

    private let form: Form

    private init(_ form: Form) { self.form = form }

    /// A literal address and port: "127.0.0.1:8080", "[::1]:8080". nil when it isn't one (names need `Resolver`).
    package init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":") else { return nil }
        let digits = text[text.index(after: colon)...].utf8
        guard digits.count >= 1, digits.count <= 5, digits.allSatisfy({ $0 >= 48 && $0 <= 57 }),
            let port = UInt16(text[text.index(after: colon)...])
        else { return nil }
        let host = text[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") {
            var address = in6_addr()
            guard inet_pton(AF_INET6, String(host.dropFirst().dropLast()), &address) == 1 else { return nil }
            let words = withUnsafeBytes(of: address) {
                ($0.loadUnaligned(as: UInt64.self), $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
            }
            form = .v6(words.0, words.1, port, scope: 0)
        } else {
            var address = in_addr()
            guard inet_pton(AF_INET, String(host), &address) == 1 else { return nil }
            form = .v4(UInt32(bigEndian: address.s_addr), port)
        }
    }

    package init(unixPath: String) { form = .unix(unixPath) }

    package var description: String {
        switch form {
        case .v4(let address, let port):
            return "\(address >> 24).\(address >> 16 & 255).\(address >> 8 & 255).\(address & 255):\(port)"
        case .v6(let high, let low, let port, _):
            var words = (high, low)
            var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
            guard inet_ntop(AF_INET6, &words, &text, socklen_t(text.count)) != nil else { return "[?]:\(port)" }
            return "[\(String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self))]:\(port)"
        case .unix(let path): return "unix:\(path)"
        }
    }

    /// As `description`, without the port.
    package var ipText: String {
        if case .unix = form { return description }
        let text = description
        return String(text[..<(text.lastIndex(of: ":") ?? text.endIndex)])
    }

    /// 0 for a Unix path.
    package var port: Int {
        switch form {
        case .v4(_, let port), .v6(_, _, let port, _): return Int(port)
        case .unix: return 0
        }
    }

    /// Reachable from this machine only: 127.0.0.0/8, ::1, their mapped form, a Unix path.
    package var isLoopback: Bool {
        switch form {
        case .v4(let address, _): return address >> 24 == 127
        case .v6(let high, let low, _, _):
            let first = UInt64(bigEndian: high), last = UInt64(bigEndian: low)
            return first == 0 && (last == 1 || last >> 24 == 0xFFFF_7F)
        case .unix: return true
        }
    }

    /// Who counts as one client (`AddressTable`): an IPv4 address, also in its mapped form, or the /64 of an IPv6 address. 0: a Unix path.
    package var clientKey: UInt64 {
        // No client has an address in ffff::/16 (multicast), so the two kinds don't meet.
        switch form {
        case .v4(let address, _): return 0xFFFF_FFFF << 32 | UInt64(address)
        case .v6(let high, let low, _, _):
            let first = UInt64(bigEndian: high), last = UInt64(bigEndian: low)
            if first == 0 && last >> 32 == 0xFFFF { return 0xFFFF_FFFF << 32 | last & 0xFFFF_FFFF }
            // ::1 has no prefix to tell it by.
            return first == 0 ? last : first
        case .unix: return 0
        }
    }

    package init(_ address: IPAddress, port: UInt16) {
        form =
            address.isV4
            ? .v4(UInt32(truncatingIfNeeded: address.low), port) : .v6(address.high.bigEndian, address.low.bigEndian, port, scope: 0)
    }

    /// Without the port; nil for a Unix path.
    package var ip: IPAddress? {
        switch form {
        case .v4(let address, _): return IPAddress(v4: address)
        case .v6(let high, let low, _, _): return IPAddress(high: UInt64(bigEndian: high), low: UInt64(bigEndian: low))
        case .unix: return nil
        }
    }

    package func with(port: UInt16) -> SocketAddress {
        switch form {
        case .v4(let address, _): return SocketAddress(.v4(address, port))
        case .v6(let high, let low, _, let scope): return SocketAddress(.v6(high, low, port, scope: scope))
        case .unix: return self
        }
    }

    // MARK: The system's form

    var family: Int32 {
        switch form {
        case .v4: return AF_INET
        case .v6: return AF_INET6
        case .unix: return AF_UNIX
        }
    }

    /// The longest path that the system takes (sun_path with its end).
    package static let unixPathBytesMax = 107

    /// nil when it can be used; else what's wrong with it.
    var fault: NetError? {
        guard case .unix(let path) = form, path.utf8.count > Self.unixPathBytesMax || path.isEmpty else { return nil }
        return NetError(number: ENAMETOOLONG, description: "\(self): a socket's path has 1 to \(Self.unixPathBytesMax) bytes")
    }

    func withSocketAddress<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
        var storage = sockaddr_storage()
        return withUnsafeMutableBytes(of: &storage) { bytes in
            guard let base = bytes.baseAddress else { preconditionFailure("a socket address without memory") }
            let length: Int
            switch form {
            case .v4(let address, let port):
                var v4 = sockaddr_in()
                v4.sin_family = sa_family_t(AF_INET)
                v4.sin_port = port.bigEndian
                v4.sin_addr.s_addr = address.bigEndian
                base.storeBytes(of: v4, as: sockaddr_in.self)
                length = MemoryLayout<sockaddr_in>.size
            case .v6(let high, let low, let port, let scope):
                var v6 = sockaddr_in6()
                v6.sin6_family = sa_family_t(AF_INET6)
                v6.sin6_port = port.bigEndian
                v6.sin6_scope_id = scope
                withUnsafeMutableBytes(of: &v6.sin6_addr) {
                    $0.storeBytes(of: high, as: UInt64.self)
                    $0.storeBytes(of: low, toByteOffset: 8, as: UInt64.self)
                }
                base.storeBytes(of: v6, as: sockaddr_in6.self)
                length = MemoryLayout<sockaddr_in6>.size
            case .unix(let path):
                base.storeBytes(of: sa_family_t(AF_UNIX), as: sa_family_t.self)
                var place = MemoryLayout<sa_family_t>.size
                for byte in path.utf8.prefix(Self.unixPathBytesMax) {
                    base.storeBytes(of: byte, toByteOffset: place, as: UInt8.self)
                    place += 1
                }
                length = place + 1
            }
            return body(UnsafeRawPointer(base).assumingMemoryBound(to: sockaddr.self), socklen_t(length))
        }
    }

    /// What `getsockname`, `getpeername` or `getaddrinfo` filled in; nil when the call failed or the family is none of ours.
    static func read(_ fill: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32) -> SocketAddress? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutableBytes(of: &storage) { bytes in
            guard let base = bytes.baseAddress, fill(base.assumingMemoryBound(to: sockaddr.self), &length) == 0 else { return nil }
            return SocketAddress(system: UnsafeRawPointer(base))
        }
    }

    /// `system` points to a whole `sockaddr_in`, `sockaddr_in6` or `sockaddr_un`.
    init?(system: UnsafeRawPointer) {
        switch Int32(system.load(as: sa_family_t.self)) {
        case AF_INET:
            let v4 = system.loadUnaligned(as: sockaddr_in.self)
            form = .v4(UInt32(bigEndian: v4.sin_addr.s_addr), UInt16(bigEndian: v4.sin_port))
        case AF_INET6:
            let v6 = system.loadUnaligned(as: sockaddr_in6.self)
            let words = withUnsafeBytes(of: v6.sin6_addr) {
                ($0.loadUnaligned(as: UInt64.self), $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
            }
            form = .v6(words.0, words.1, UInt16(bigEndian: v6.sin6_port), scope: v6.sin6_scope_id)
        case AF_UNIX:
            let path = UnsafeRawBufferPointer(start: system + MemoryLayout<sa_family_t>.size, count: Self.unixPathBytesMax)
            form = .unix(String(decoding: path.prefix { $0 != 0 }, as: UTF8.self))
        default: return nil
        }
    }
}
