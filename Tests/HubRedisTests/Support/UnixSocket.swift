import Glibc

/// A stream socket by its path, for tests' own clients and servers.
enum UnixSocket {
    static func make() -> Int32 { socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0) }

    /// Calls `body`, `bind` or `connect`, with the address of `path`, which is cut if it's too long for one.
    static func withAddress(_ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { target in
            for (place, byte) in path.utf8.enumerated() where place < target.count - 1 { target[place] = byte }
        }
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
        }
    }

    /// False when nobody listens there.
    static func connect(_ descriptor: Int32, to path: String) -> Bool { withAddress(path) { Glibc.connect(descriptor, $0, $1) } == 0 }

    /// Listens at a path where nothing is yet.
    static func listen(at path: String) -> Int32 {
        let descriptor = make()
        precondition(withAddress(path) { bind(descriptor, $0, $1) } == 0 && Glibc.listen(descriptor, 16) == 0, "can't listen at \(path)")
        return descriptor
    }
}
