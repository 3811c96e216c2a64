import HubBase
import HubClient
import HubNet
import HubWire

/// Drives any number of client machines on one loop: the shell of hubctl (one client) and of the swarm (thousands).
///
/// Holds no decisions but one: a client whose connection failed tries the next address. Not thread-safe: all of it belongs to the thread
/// that calls `run`.
package final class ClientFleet: LoopHandler, ServerHandler {
    /// One address of one of the URLs.
    package struct Route: Sendable {
        package var url: HubURL
        package var address: SocketAddress
        /// nil: without TLS.
        package var tls: TLSPeer?

        package init(url: HubURL, address: SocketAddress, tls: TLSPeer? = nil) {
            self.url = url
            self.address = address
            self.tls = tls
        }
    }

    private struct Client {
        var machine: ClientMachine
        var connection: ConnectionID?
        var route: Int
        var timer: TimerID?
        var timerAt = Instant.distantFuture
    }

    /// Timers of this kind are the fleet's own; the handler's are numbered from 0.
    private static let timerKind = UInt32.max

    package let loop: NetLoop
    package unowned(unsafe) var handler: (any FleetHandler)?
    private let routes: [Route]
    /// What is spoken. Machines read and write JSON: what travels otherwise is rewritten here.
    private let format: WireFormat
    private var rewritten = ByteBuffer(capacity: 16)
    private var received = ByteBuffer(capacity: 16)
    private var clients: [Client] = []
    /// The client of each connection index.
    private var owners: [Int] = []
    private var chance: Chance

    /// Throws when the system gives no loop.
    package init(
        routes: [Route], format: WireFormat = .json, limits: NetLimits = NetLimits(), tick: Span? = nil, seed: UInt64
    ) throws(NetError) {
        precondition(!routes.isEmpty, "a fleet without a destination")
        self.routes = routes
        self.format = format
        self.chance = Chance(seed: seed)
        loop = try NetLoop(NetLoop.Options(name: "clients", tick: tick, limits: limits))
        loop.handler = self
        loop.server = self
    }

    /// Where URLs lead, and whom to believe there. Blocks for the resolver; for start-up.
    package static func routes(to urls: [HubURL], trust: ServerTrust = .system) throws(NetError) -> [Route] {
        let context = urls.contains { $0.isSecure } ? try trust.makeContext() : nil
        var routes: [Route] = []
        for url in urls {
            let peer = url.isSecure ? context.map { TLSPeer($0, name: url.host) } : nil
            for address in try Resolver.resolve(host: url.host, port: url.port) {
                routes.append(Route(url: url, address: address, tls: peer))
            }
        }
        return routes
    }

    /// Takes turns until `loop.stop()`.
    package func run() { loop.run() }

    // MARK: Clients

    package var count: Int { clients.count }

    /// Adds a client that prefers one of the routes; `start` connects it.
    package func add(_ options: ClientMachine.Options, route: Int) -> Int {
        clients.append(Client(machine: ClientMachine(options), route: route % routes.count))
        return clients.count - 1
    }

    package func start(_ client: Int) {
        clients[client].machine.start(now: loop.now)
        connect(client)
    }

    /// Leaves in order: a close with 1000, or nothing where there is no connection.
    package func stop(_ client: Int) {
        let after = clients[client].machine.stop(now: loop.now)
        if let connection = clients[client].connection {
            switch after {
            case .close: loop.close(connection, code: CloseCode.normal.rawValue, reason: "" as StaticString)
            case .abort: drop(client, connection, .failed("given up"))
            case .nothing: break
            }
        }
        settle(client)
    }

    /// Drops the connection without a word, as a network that goes away does; `restart` comes back.
    package func cut(_ client: Int) {
        _ = clients[client].machine.stop(now: loop.now)
        if let connection = clients[client].connection { drop(client, connection, .failed("cut")) }
        settle(client)
    }

    /// Breaks the connection; the client comes back by its own rules.
    package func lose(_ client: Int) {
        if let connection = clients[client].connection { drop(client, connection, .failed("lost")) }
    }

    /// Comes back after `stop` or `cut`. False: it hasn't ended yet, or for another reason.
    package func restart(_ client: Int) -> Bool {
        guard case .closed(.asked) = clients[client].machine.state, clients[client].connection == nil else { return false }
        clients[client].machine.restart(now: loop.now)
        connect(client)
        return true
    }

    /// Whether the client reads what comes; nothing when it has no connection.
    package func setReading(_ isReading: Bool, _ client: Int) {
        if let connection = clients[client].connection { loop.setReading(isReading, on: connection) }
    }

    /// Whether the hub has ended this client's connection, for one that doesn't read.
    package func hasPeerEnded(_ client: Int) -> Bool {
        if let connection = clients[client].connection { loop.hasPeerEnded(connection) } else { false }
    }

    /// Sends bytes as they are, whatever they mean: for clients that misbehave on purpose.
    package func sendRaw(_ client: Int, _ kind: MessageKind, _ bytes: [UInt8]) {
        guard let connection = clients[client].connection else { return }
        loop.sendMessage(kind, to: connection, as: .reply) { buffer in bytes.withUnsafeBytes { buffer.append($0) } }
    }

    package func state(_ client: Int) -> ClientMachine.State { clients[client].machine.state }
    /// Requests that a client ever made, answered or not.
    package func requestsMade(_ client: Int) -> UInt64 { clients[client].machine.requestsMade }
    package func followed(_ client: Int) -> [Subscription] { clients[client].machine.followed }

    /// Changes what a client wants, then asks the hub for it.
    package func change(_ client: Int, _ body: (inout ClientMachine) -> Void) {
        body(&clients[client].machine)
        settle(client)
    }

    /// Sends a publication whose answer comes back with `context`. False when there's no open connection or too much in flight.
    package func publish(
        _ client: Int, _ messageClass: MessageClass, channel: Name, messageId: Name?, payload: UnsafeRawBufferPointer, context: UInt64
    ) -> Bool {
        guard let connection = clients[client].connection,
            let id = clients[client].machine.begin(.publish, context: context, now: loop.now)
        else { return false }
        send(to: connection, as: .publication) { buffer in
            RequestEncoder.publish(messageClass, id: id, channel: channel, messageId: messageId, payload: payload, into: &buffer)
        }
        arm(client)
        return true
    }

    /// Sends a publication that nobody waits for an answer to. False when there's no open connection.
    package func tell(
        _ client: Int, _ messageClass: MessageClass, channel: Name, payload: UnsafeRawBufferPointer
    ) -> Bool {
        guard let connection = clients[client].connection, case .open = clients[client].machine.state else { return false }
        send(to: connection, as: .publication) { buffer in
            RequestEncoder.publish(messageClass, id: nil, channel: channel, messageId: nil, payload: payload, into: &buffer)
        }
        return true
    }

    private func send(to connection: ConnectionID, as sendClass: SendClass, _ body: (inout ByteBuffer) -> Void) {
        guard format != .json else { return loop.sendMessage(.text, to: connection, as: sendClass, body) }
        rewritten.removeAll()
        body(&rewritten)
        let json = rewritten.bytes
        loop.sendMessage(.binary, to: connection, as: sendClass) { buffer in
            // Our own encoder's JSON can always be rewritten. The short form takes names as well as numbers.
            _ = PayloadTranscoder.rewrite(json, from: .json, to: .messagePack, into: &buffer)
        }
    }

    // MARK: What machines want

    private func connect(_ client: Int) {
        let route = routes[clients[client].route]
        guard let handler else { return }
        var opening = handler.opening(for: client, to: route.url)
        opening.tls = route.tls
        let connection = loop.connect(route.address, opening)
        while owners.count <= Int(connection.index) { owners.append(-1) }
        owners[Int(connection.index)] = client
        clients[client].connection = connection
        arm(client)
    }

    /// Sends what the machine has to say, hands out what went unanswered, and sets its timer.
    private func settle(_ client: Int) {
        if let connection = clients[client].connection {
            while let request = clients[client].machine.nextRequest(now: loop.now) {
                // Tokens travel in a header here, so `connect` never occurs.
                send(to: connection, as: .reply) { request.encode(token: "", device: nil, into: &$0) }
            }
        }
        while let lost = clients[client].machine.nextLost() { handler?.unanswered(lost, isTimeout: false, client: client) }
        arm(client)
    }

    /// A timer that is early does no harm and is set anew then; so one in flight is kept unless it would be late.
    private func arm(_ client: Int) {
        guard let deadline = clients[client].machine.deadline, deadline < clients[client].timerAt else { return }
        if let timer = clients[client].timer { loop.cancel(timer) }
        clients[client].timerAt = deadline
        clients[client].timer = loop.schedule(after: deadline.since(loop.now), kind: Self.timerKind, value: UInt64(client))
    }

    private func deadlinePassed(_ client: Int) {
        clients[client].timer = nil
        clients[client].timerAt = .distantFuture
        switch clients[client].machine.deadlinePassed(now: loop.now) {
        case .connect: connect(client)
        case .abort(let end):
            if let connection = clients[client].connection { drop(client, connection, end) }
        case .nothing:
            while let late = clients[client].machine.nextTimedOut(now: loop.now) {
                handler?.unanswered(late, isTimeout: true, client: client)
            }
        }
        settle(client)
    }

    private func drop(_ client: Int, _ connection: ConnectionID, _ end: TransportEnd) {
        clients[client].connection = nil
        loop.abort(connection)
        over(client, end)
    }

    private func over(_ client: Int, _ end: TransportEnd) {
        if case .closed = end {} else { clients[client].route = (clients[client].route + 1) % routes.count }
        let wasOpen = clients[client].machine.wasWelcomed
        let after = clients[client].machine.transportEnded(end, now: loop.now, chance: &chance)
        handler?.ended(end, after, wasOpen: wasOpen, client: client)
        if after == .fetchToken {
            if handler?.renewToken(for: client) == true {
                clients[client].machine.tokenRenewed(now: loop.now)
                connect(client)
            } else {
                clients[client].machine.tokenUnavailable()
            }
        }
        settle(client)
    }

    // MARK: The loop's calls

    package func opened(_ id: ConnectionID) {
        guard let client = owner(id) else { return }
        clients[client].machine.transportOpened(now: loop.now)
        settle(client)
    }

    package func message(_ bytes: UnsafeRawBufferPointer, _ kind: MessageKind, on id: ConnectionID) {
        guard let client = owner(id) else { return }
        guard format != .json else { return message(bytes, of: client, on: id) }
        // Taken out while it's read: what the handler sends meanwhile is written there too.
        var text = ByteBuffer(capacity: 16)
        swap(&text, &received)
        text.removeAll()
        if kind == .binary, EnvelopeAsJSON.rewrite(bytes, isShort: format == .short, into: &text) {
            message(text.bytes, of: client, on: id)
        } else {
            violated(WireError(.malformed, "not an envelope of \(format.subprotocol)"), bytes, client, id)
        }
        swap(&text, &received)
    }

    private func violated(_ error: WireError, _ bytes: UnsafeRawBufferPointer, _ client: Int, _ id: ConnectionID) {
        handler?.received(.violation(error), bytes, client: client)
        loop.close(id, code: CloseCode.protocolError.rawValue, reason: "not an envelope" as StaticString)
    }

    private func message(_ bytes: UnsafeRawBufferPointer, of client: Int, on id: ConnectionID) {
        let received = clients[client].machine.received(bytes, now: loop.now)
        for missed in clients[client].machine.takeMissed() {
            handler?.received(missed.received, missed.range.bytes(in: bytes), client: client)
        }
        handler?.received(received, bytes, client: client)
        switch received {
        case .violation: loop.close(id, code: CloseCode.protocolError.rawValue, reason: "not an envelope" as StaticString)
        case .publication: break  // Changes nothing that a machine has to say.
        default: settle(client)
        }
    }

    package func closed(_ id: ConnectionID, _ end: ConnectionEnd) {
        guard let client = owner(id) else { return }
        clients[client].connection = nil
        over(client, TransportEnd(end, reason: loop.closeReason))
    }

    package func timerFired(kind: UInt32, value: UInt64) {
        if kind == Self.timerKind { deadlinePassed(Int(value)) } else { handler?.timerFired(kind: kind, value: value) }
    }

    package func woken() { handler?.woken() }
    package func turnEnding() { handler?.turnEnding() }

    /// Only servers are asked.
    package func request(_ request: borrowing HTTPRequest, on id: ConnectionID) -> RequestOutcome {
        preconditionFailure("a fleet serves nobody")
    }

    /// nil for a connection that was given up before.
    private func owner(_ id: ConnectionID) -> Int? {
        guard Int(id.index) < owners.count, owners[Int(id.index)] >= 0 else { return nil }
        let client = owners[Int(id.index)]
        return clients[client].connection == id ? client : nil
    }
}

extension TransportEnd {
    init(_ end: ConnectionEnd, reason: String) {
        switch end {
        case .peer(let code): self = .closed(code: code, reason: reason)
        case .refused(let status, _): self = .refused(status: status, retryAfter: nil)
        case .us(let code): self = .closed(code: code, reason: "")
        case .silent(_, let why): self = .failed(why)
        case .lost(let why): self = .failed(why.hasSuffix("doesn't speak TLS there") ? ServerTrust.plainPort : why)
        }
    }
}
