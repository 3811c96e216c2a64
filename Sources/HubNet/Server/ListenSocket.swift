/// A listening socket; closed when it goes out of use.
package struct ListenSocket: ~Copyable {
    package let descriptor: Int32
    /// What it's bound to, with the port that the kernel chose for port 0: "127.0.0.1:43211".
    package let address: SocketAddress

    /// Opens one listener for each of `count` loops on the same address. Listeners share the port among loops (`SO_REUSEPORT`), so a first
    /// bind without it finds out whether another process has the port: that's an error, not a share.
    package static func open(_ address: SocketAddress, count: Int) throws(NetError) -> [ListenSocketBox] { fatalError("skeleton") }

    deinit { fatalError("skeleton") }
}

/// Carries one `ListenSocket` to its loop: arrays can't hold values that can't be copied.
package final class ListenSocketBox {
    private var socket: ListenSocket?
    package let address: SocketAddress
    init(_ socket: consuming ListenSocket) { fatalError("skeleton") }
    /// Traps when taken twice.
    package func take() -> ListenSocket { fatalError("skeleton") }
}
