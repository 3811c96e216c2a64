import CHubShims
import Glibc
import HubBase

/// The client's side (swarm, tools): connect, opening handshake, then a connection like any other.
extension NetLoop {
    /// Connects to a WebSocket server. `opened`, or `closed` with why not, follows; neither is called before this returns.
    package func connect(_ endpoint: SocketAddress, _ opening: ClientOpening) -> ConnectionID {
        guard let index = state.pointee.table.take() else { preconditionFailure("more than 2^22 connections in one loop") }
        let connection = state.pointee.table[index]
        let id = ConnectionID(index: index, generation: connection.pointee.generation)
        connection.pointee.phase = .connecting
        connection.pointee.flags = [.isClient, .owesReport]
        connection.pointee.lastInbound = state.pointee.now.nanoseconds
        let nonce = (UInt64.random(in: .min ... .max), UInt64.random(in: .min ... .max))
        connection.pointee.dialogue = ClientDialogue.make(endpoint, opening, nonce: nonce)
        state.pointee.deadlines.arm(index, at: state.pointee.now + opening.deadline)
        do throws(NetError) {
            connection.pointee.descriptor = try Self.startConnecting(endpoint, from: opening.source, for: opening)
            let data = EventTag(.connection, index: index, generation: id.generation).data
            let result = System.watch(
                epoll, EPOLL_CTL_ADD, connection.pointee.descriptor, events: Readiness.output, data: data)
            guard result == 0 else { throw System.error(result, "epoll_ctl") }
        } catch {
            lose(index, connection, error.description)
        }
        return id
    }

    /// A socket whose connect is under way, or done.
    static func startConnecting(
        _ endpoint: SocketAddress, from source: SocketAddress?, for opening: ClientOpening? = nil
    ) throws(NetError) -> Int32 {
        if let fault = endpoint.fault { throw fault }
        let descriptor = try System.openSocket(endpoint.family)
        do throws(NetError) {
            if endpoint.family != AF_UNIX { _ = hub_set_nodelay(descriptor) }
            // Before the connection is made: the window is agreed on then.
            if let bytes = opening?.receiveBuffer { System.set(descriptor, SOL_SOCKET, SO_RCVBUF, bytes) }
            if let bytes = opening?.segmentBytes { System.set(descriptor, Int32(IPPROTO_TCP), TCP_MAXSEG, bytes) }
            if let source {
                // The port is chosen at connect, where the other end counts too: else 28,000 connections from one address were all.
                _ = hub_set_late_port(descriptor)
                let result = System.bind(descriptor, source)
                guard result == 0 else { throw System.error(result, "bind \(source)") }
            }
            let result = System.connect(descriptor, endpoint)
            guard result == 0 || result == EINPROGRESS else { throw System.error(result, "connect \(endpoint)") }
            return descriptor
        } catch {
            System.close(descriptor)
            throw error
        }
    }

    /// Has a client's connection read nothing any more, or read again. What comes waits in the kernel until its window is full, and pings stay
    /// without an answer: so a swarm plays the slow and the half-dead.
    package func setReading(_ isReading: Bool, on id: ConnectionID) {
        guard let connection = state.pointee.table.find(id), connection.pointee.flags.contains(.isClient) else { return }
        if isReading { resumeLater(id.index, connection) } else { pause(id.index, connection) }
    }

    /// Whether the peer has ended its side: what a client that doesn't read could know all the same. Cost: a system call.
    package func hasPeerEnded(_ id: ConnectionID) -> Bool {
        guard let connection = state.pointee.table.find(id), connection.pointee.flags.contains(.isClient) else { return false }
        return System.hasPeerEnded(connection.pointee.descriptor)
    }

    func clientConnected(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        guard let dialogue = connection.pointee.dialogue else { return }
        let number = hub_socket_error(connection.pointee.descriptor)
        guard number == 0 else {
            lose(index, connection, System.error(number, "connect \(dialogue.pointee.endpoint)").description)
            return
        }
        connection.pointee.phase = .opening
        updateInterest(index, connection)
        guard connection.pointee.phase == .opening else { return }
        if let peer = dialogue.pointee.opening.tls {
            beginSecuring(index, connection, to: peer)
        } else {
            beginOpening(index, connection)
        }
    }

    /// Sends the opening handshake.
    func beginOpening(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        guard let dialogue = connection.pointee.dialogue else { return }
        connection.pointee.phase = .opening
        let start = state.pointee.arena.count
        do throws(NetError) {
            try dialogue.pointee.handshake.writeRequest(dialogue.pointee.opening, into: &state.pointee.arena)
            connection.pointee.flags.insert(.carriesHTTP)
            queue(index, connection, from: start)
        } catch {
            lose(index, connection, error.description)
        }
    }

    /// The server's answer; what follows a 101 are frames (a greeting may come in the same segment).
    func workOffOpening(
        _ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ bytes: UnsafeMutableRawBufferPointer
    ) -> Progress {
        guard let dialogue = connection.pointee.dialogue else { return Progress(consumed: bytes.count, wanted: 0) }
        let opening = dialogue.pointee.opening
        switch dialogue.pointee.handshake.judge(UnsafeRawBufferPointer(bytes), opening, limits: options.limits) {
        case .needMore: return Progress(consumed: 0, wanted: 0)
        case .failed(let status, let reason):
            if status > 0 {
                let body = dialogue.pointee.handshake.refusalBody(UnsafeRawBufferPointer(bytes))
                report(index, connection, .refused(status: status, reason), reason: String(decoding: body, as: UTF8.self))
            }
            lose(index, connection, reason)
            return Progress(consumed: bytes.count, wanted: 0)
        case .open(let length, _, let deflates):
            ClientDialogue.free(&connection.pointee.dialogue)
            connection.pointee.phase = .open
            connection.pointee.decoder = FrameDecoder(role: .client, allowsCompression: deflates)
            armPing(index, connection)
            if let server { server.opened(ConnectionID(index: index, generation: connection.pointee.generation)) }
            return Progress(consumed: length, wanted: 0)
        }
    }
}
