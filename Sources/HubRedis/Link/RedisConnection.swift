import HubBase
import HubCore
import HubNet

/// What uses a connection: the command link or the subscriber link.
protocol ConnectionOwner: AnyObject {
    /// Authenticated and on the right database.
    func opened()
    /// `reply` is valid during the call only.
    func received(_ reply: borrowing Reply)
    /// The connection is lost, or couldn't be made; another attempt follows by itself.
    func ended(_ reason: String)
}

/// Makes a connection to Redis and makes it again: resolves, connects, greets, waits between attempts. Lives on the backplane's loop.
///
/// Generic, so that a reply reaches its owner by a direct call. Every phase has a deadline; `advance` judges them.
final class RedisConnection<Owner: ConnectionOwner>: StreamHandler {
    private enum State {
        case idle
        case waiting(until: Instant)
        case resolving(deadline: Instant)
        case connecting(ByteStream)
        /// Replies to the greeting that are still owed.
        case greeting(ByteStream, Greeting, deadline: Instant)
        case open(ByteStream, since: Instant)
    }

    private struct Greeting {
        var steps: [Step]
        var answered = 0
        enum Step { case authenticate, select, name }
    }

    /// For each of: connecting, greeting, resolving.
    static var phaseDeadline: Span { .seconds(3) }

    private let loop: NetLoop
    private let url: RedisURL
    private let password: Secret?
    /// CLIENT SETNAME: letters and digits only.
    private let name: [UInt8]
    private var chance: Chance
    unowned(unsafe) var owner: Owner?
    private var state = State.idle
    private var backoff = Backoff()
    private let reader = ReplyReader()
    private var attempt = 0
    private let resolved = Mailbox<Result<[SocketAddress], NetError>>()
    private var resolvedBatch: [Result<[SocketAddress], NetError>] = []
    /// Commands of this turn; they leave together when `flush` hands them to the stream.
    var out = ByteBuffer(capacity: 16 * 1024)

    init(loop: NetLoop, url: RedisURL, password: Secret?, name: [UInt8], chance: Chance) {
        self.loop = loop
        self.url = url
        self.password = password ?? url.password
        self.name = name
        self.chance = chance
    }

    var isOpen: Bool {
        if case .open = state { return true }
        return false
    }

    func start(at now: Instant) {
        guard case .idle = state else { return }
        connect(at: now)
    }

    /// Ends for good; `ended` isn't called.
    func stop() {
        stream?.close()
        state = .idle
        out.removeAll()
    }

    /// Gives the connection up; the next attempt comes after the backoff.
    func drop(_ reason: String) { lose(reason, at: loop.now) }

    func advance(at now: Instant) {
        switch state {
        case .idle, .connecting: break
        case .waiting(let until):
            if until <= now { connect(at: now) }
        case .resolving(let deadline):
            takeResolved(at: now)
            if case .resolving = state, deadline <= now { lose("the name isn't resolved within \(Self.phaseDeadline)", at: now) }
        case .greeting(_, _, let deadline):
            if deadline <= now { lose("no answer to the greeting within \(Self.phaseDeadline)", at: now) }
        case .open(_, let since):
            if now.since(since) >= Backoff.settled { backoff.reset() }
        }
        flush()
    }

    /// Hands this turn's commands to the stream.
    func flush() {
        guard out.count > 0, let stream else { return }
        stream.write(out.bytes)
        out.removeAll()
        out.trim(above: 1 << 20)
    }

    private var stream: ByteStream? {
        switch state {
        case .idle, .waiting, .resolving: nil
        case .connecting(let stream), .greeting(let stream, _, _), .open(let stream, _): stream
        }
    }

    // MARK: Attempts

    private func connect(at now: Instant) {
        reader.reset()
        out.removeAll()
        attempt &+= 1
        switch url.place {
        case .unix(let path): open(SocketAddress(unixPath: path))
        case .host(let host, let port):
            let isV6 = host.utf8.contains(UInt8(ascii: ":"))
            if let address = SocketAddress(isV6 ? "[\(host)]:\(port)" : "\(host):\(port)") {
                open(address)
            } else {
                state = .resolving(deadline: now + Self.phaseDeadline)
                let (resolved, signal) = (resolved, loop.signal)
                Resolver.resolve(host: host, port: port) {
                    resolved.post($0)
                    signal.wake()
                }
            }
        }
    }

    private func takeResolved(at now: Instant) {
        resolved.take(into: &resolvedBatch)
        defer { resolvedBatch.removeAll() }
        // The latest counts: an earlier attempt's answer may have come late.
        guard let last = resolvedBatch.last else { return }
        switch last {
        case .success(let addresses) where !addresses.isEmpty: open(addresses[attempt % addresses.count])
        case .success: lose("the name has no address", at: now)
        case .failure(let error): lose(error.description, at: now)
        }
    }

    private func open(_ address: SocketAddress) {
        state = .connecting(loop.openStream(to: address, connectDeadline: Self.phaseDeadline, handler: self))
    }

    private func lose(_ reason: String, at now: Instant) {
        switch state {
        case .idle, .waiting: return
        case .resolving, .connecting, .greeting, .open: break
        }
        stream?.close()
        out.removeAll()
        state = .waiting(until: now + backoff.delay(&chance))
        owner?.ended("\(url): \(reason)")
    }

    // MARK: Greeting

    private func greet(_ stream: ByteStream) {
        var steps: [Greeting.Step] = []
        if let password {
            steps.append(.authenticate)
            out.command(url.user == nil ? 2 : 3)
            out.argument("AUTH")
            if let user = url.user { out.argument(user) }
            out.argument(password.bytes)
        }
        if url.database != 0 {
            steps.append(.select)
            out.command(2)
            out.argument("SELECT")
            out.argument(decimal: UInt64(url.database))
        }
        steps.append(.name)
        out.command(3)
        out.argument("CLIENT")
        out.argument("SETNAME")
        out.argument(name)
        state = .greeting(stream, Greeting(steps: steps), deadline: loop.now + Self.phaseDeadline)
        flush()
    }

    private func greeted(_ reply: borrowing Reply, _ stream: ByteStream, _ greeting: Greeting, deadline: Instant) {
        var greeting = greeting
        let step = greeting.steps[greeting.answered]
        greeting.answered += 1
        // A name is for people; who may not set one goes on without.
        if reply.isError && step != .name {
            lose("\(step == .select ? "SELECT" : "AUTH") is refused: \(reply.errorText)", at: loop.now)
        } else if greeting.answered == greeting.steps.count {
            state = .open(stream, since: loop.now)
            owner?.opened()
        } else {
            state = .greeting(stream, greeting, deadline: deadline)
        }
    }

    // MARK: StreamHandler

    package func streamOpened(_ stream: ByteStream) {
        guard case .connecting(let current) = state, current === stream else { return }
        greet(stream)
    }

    package func streamReceived(_ stream: ByteStream, _ bytes: UnsafeRawBufferPointer) {
        guard self.stream === stream else { return }
        reader.feed(bytes)
        while true {
            switch reader.next() {
            case .incomplete: return
            case .failed(let text): return lose("not what Redis answers: \(text)", at: loop.now)
            case .reply:
                if case .greeting(let stream, let greeting, let deadline) = state {
                    greeted(reader.reply, stream, greeting, deadline: deadline)
                } else {
                    owner?.received(reader.reply)
                }
            }
            // The owner may have dropped it.
            guard self.stream === stream else { return }
        }
    }

    package func streamEnded(_ stream: ByteStream, _ reason: NetError) {
        guard self.stream === stream else { return }
        lose(reason.description, at: loop.now)
    }
}
