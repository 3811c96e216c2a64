import CHubShims
import Glibc

/// A listening socket; closed when it goes out of use.
package struct ListenSocket: ~Copyable {
    package let descriptor: Int32
    /// What it's bound to, with the port that the kernel chose for port 0: "127.0.0.1:43211".
    package private(set) var address: SocketAddress

    private init(descriptor: Int32, address: SocketAddress) {
        self.descriptor = descriptor
        self.address = address
    }

    /// Opens one listener for each of `count` loops on the same address. Listeners share the port among loops (`SO_REUSEPORT`), so a first
    /// bind without it finds out whether another process has the port: that's an error, not a share.
    ///
    /// Listeners of a Unix path share one socket; a path that exists is an error ("Address already in use").
    package static func open(_ address: SocketAddress, count: Int) throws(NetError) -> [ListenSocketBox] {
        precondition(count >= 1, "no listener asked for")
        if let fault = address.fault { throw fault }
        if address.family == AF_UNIX { return try openUnix(address, count: count) }
        let bound: SocketAddress
        do {
            // Bound, not listening, and closed again: nothing is accepted on it.
            let probe = try bind(address, shared: false)
            bound = probe.address
        }
        var boxes: [ListenSocketBox] = []
        for _ in 0..<count {
            let socket = try bind(bound, shared: true)
            let result = System.listen(socket.descriptor)
            guard result == 0 else { throw System.error(result, "listen \(bound)") }
            boxes.append(ListenSocketBox(socket))
        }
        return boxes
    }

    private static func bind(_ address: SocketAddress, shared: Bool) throws(NetError) -> ListenSocket {
        var socket = ListenSocket(descriptor: try System.openSocket(address.family), address: address)
        // Connections of a former process in TIME_WAIT don't hold the port; a listener does.
        _ = hub_set_reuse_address(socket.descriptor)
        if shared { _ = hub_set_reuse_port(socket.descriptor) }
        if address.family == AF_INET6 { _ = hub_set_only_ipv6(socket.descriptor) }
        let result = System.bind(socket.descriptor, address)
        guard result == 0 else { throw System.error(result, "bind \(address)") }
        guard address.port == 0 else { return socket }
        guard let chosen = System.localAddress(socket.descriptor) else { throw System.error(errno, "getsockname \(address)") }
        socket.address = chosen
        return socket
    }

    private static func openUnix(_ address: SocketAddress, count: Int) throws(NetError) -> [ListenSocketBox] {
        let socket = ListenSocket(descriptor: try System.openSocket(AF_UNIX), address: address)
        var result = System.bind(socket.descriptor, address)
        guard result == 0 else { throw System.error(result, "bind \(address)") }
        result = System.listen(socket.descriptor)
        guard result == 0 else { throw System.error(result, "listen \(address)") }
        var boxes: [ListenSocketBox] = []
        for _ in 0..<count {
            boxes.append(ListenSocketBox(ListenSocket(descriptor: try System.duplicate(socket.descriptor), address: address)))
        }
        return boxes
    }

    deinit { System.close(descriptor) }
}

/// Carries one `ListenSocket` to its loop: arrays can't hold values that can't be copied.
package final class ListenSocketBox {
    private var socket: ListenSocket?
    package let address: SocketAddress
    /// Of a listener that a loop serves: its connections begin with TLS.
    var isSecure = false

    init(_ socket: consuming ListenSocket) {
        address = socket.address
        self.socket = consume socket
    }

    /// Traps when taken twice.
    package func take() -> ListenSocket {
        guard let socket = socket.take() else { preconditionFailure("the listener on \(address) was taken before") }
        return socket
    }

    /// Of a socket that is still in the box.
    var descriptor: Int32 {
        guard let descriptor = socket?.descriptor else { preconditionFailure("the listener on \(address) was taken before") }
        return descriptor
    }
}
