/// What lies between a socket and its connection, for those that have something there: TLS, or a client behind a proxy. Plain connections have none.
struct ConnectionEdge: ~Copyable {
    var session: TLSSession?
    /// Whom the connection's PROXY header named.
    var client: SocketAddress?
    /// Whom the header of the latest request named.
    var forwarded: SocketAddress?

    /// The connection's edge, made when it has none.
    static func of(_ connection: UnsafeMutablePointer<Connection>) -> UnsafeMutablePointer<ConnectionEdge> {
        if let present = connection.pointee.edge { return present }
        let edge = UnsafeMutablePointer<ConnectionEdge>.allocate(capacity: 1)
        edge.initialize(to: ConnectionEdge())
        connection.pointee.edge = edge
        return edge
    }

    static func free(_ edge: inout UnsafeMutablePointer<ConnectionEdge>?) {
        guard let memory = edge else { return }
        memory.deinitialize(count: 1)
        memory.deallocate()
        edge = nil
    }
}
