/// An IPv4, IPv6 or Unix-domain address, ready for the system. A value; 28 bytes or a path.
package struct SocketAddress: Sendable, Hashable, CustomStringConvertible {
    /// A literal address and port: "127.0.0.1:8080", "[::1]:8080". nil when it isn't one (names need `Resolver`).
    package init?(_ text: String) { fatalError("skeleton") }
    package init(unixPath: String) { fatalError("skeleton") }
    package var description: String { fatalError("skeleton") }
    package var port: Int { fatalError("skeleton") }
    package var isLoopback: Bool { fatalError("skeleton") }
}

/// Names to addresses, on a small thread of its own (getaddrinfo blocks).
package enum Resolver {
    /// Blocks; for start-up and tools.
    package static func resolve(host: String, port: Int) throws(NetError) -> [SocketAddress] { fatalError("skeleton") }
    /// Answers on the resolver's thread.
    package static func resolve(host: String, port: Int, _ done: @escaping @Sendable (Result<[SocketAddress], NetError>) -> Void) { fatalError("skeleton") }
}
