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
/// Where to can change: a failover names another server, and until one is named it waits.
///
/// Generic, so that a reply reaches its owner by a direct call. Every phase has a deadline; `advance` judges them.
final class RedisConnection<Owner: ConnectionOwner>: StreamHandler {
    private enum State {
        case idle
        /// Nobody has said where the server is.
        case unplaced
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
        enum Step { case authenticate, select, name, role }
    }

    /// For each of: connecting (TLS handshake included), greeting, resolving.
    static var phaseDeadline: Span { .seconds(3) }

    private let loop: NetLoop
    /// The next attempt goes there; `move` goes there at once.
    var place: RedisURL.Place?
    private let access: RedisAccess
    private var chance: Chance
    unowned(unsafe) var owner: Owner?
    private var state = State.idle
    private var backoff = Backoff()
    private let reader = ReplyReader()
    private var attempt = 0
    private let resolved = Mailbox<ResolvedName>()
    private var resolvedBatch: [ResolvedName] = []

    /// Commands of this turn; they leave together when `flush` hands them to the stream.
    var out = ByteBuffer(capacity: 16 * 1024)

    init(loop: NetLoop, place: RedisURL.Place?, access: RedisAccess, chance: Chance) {
        self.loop = loop
        self.place = place
        self.access = access
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

    /// Goes to another server from now on, at once. What was under way with the old one is over.
    func move(to place: RedisURL.Place?, because reason: String) {
        guard self.place != place else { return }
        if case .idle = state {
            self.place = place
            return
        }
        lose(reason, at: loop.now)
        self.place = place
        backoff.reset()
        state = .waiting(until: loop.now)
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
        case .idle, .unplaced, .connecting: break
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
        case .idle, .unplaced, .waiting, .resolving: nil
        case .connecting(let stream), .greeting(let stream, _, _), .open(let stream, _): stream
        }
    }

    // MARK: Attempts

    private func connect(at now: Instant) {
        reader.reset()
        out.removeAll()
        attempt &+= 1
        switch place {
        case nil: state = .unplaced
        case .unix(let path): open(SocketAddress(unixPath: path))
        case .host(let host, let port):
            let isV6 = host.utf8.contains(UInt8(ascii: ":"))
            if let address = SocketAddress(isV6 ? "[\(host)]:\(port)" : "\(host):\(port)") {
                open(address)
            } else {
                state = .resolving(deadline: now + Self.phaseDeadline)
                let (resolved, signal, attempt) = (resolved, loop.signal, attempt)
                Resolver.resolve(host: host, port: port) {
                    resolved.post(ResolvedName(attempt: attempt, result: $0))
                    signal.wake()
                }
            }
        }
    }

    private func takeResolved(at now: Instant) {
        resolved.take(into: &resolvedBatch)
        defer { resolvedBatch.removeAll() }
        // An earlier attempt's answer may have come late, and be of another name.
        guard let last = resolvedBatch.last(where: { $0.attempt == attempt }) else { return }
        switch last.result {
        case .success(let addresses) where !addresses.isEmpty: open(addresses[attempt % addresses.count])
        case .success: lose("the name has no address", at: now)
        case .failure(let error): lose(error.description, at: now)
        }
    }

    private func open(_ address: SocketAddress) {
        state = .connecting(
            loop.openStream(to: address, connectDeadline: Self.phaseDeadline, tls: access.peer(at: place), handler: self))
    }

    private func lose(_ reason: String, at now: Instant) {
        switch state {
        case .idle, .unplaced, .waiting: return
        case .resolving, .connecting, .greeting, .open: break
        }
        stream?.close()
        out.removeAll()
        state = .waiting(until: now + backoff.delay(&chance))
        // The system's own words begin with the address.
        let name = place?.description ?? "Redis"
        owner?.ended(reason.hasPrefix(name) ? reason : "\(name): \(reason)")
    }

    // MARK: Greeting

    private func greet(_ stream: ByteStream) {
        var steps: [Greeting.Step] = []
        if let password = access.password {
            steps.append(.authenticate)
            out.command(access.user == nil ? 2 : 3)
            out.argument("AUTH")
            if let user = access.user { out.argument(user) }
            out.argument(password.bytes)
        }
        if access.database != 0 {
            steps.append(.select)
            out.command(2)
            out.argument("SELECT")
            out.argument(decimal: UInt64(access.database))
        }
        steps.append(.name)
        out.command(3)
        out.argument("CLIENT")
        out.argument("SETNAME")
        out.argument(access.name)
        if access.mustBeMaster {
            steps.append(.role)
            out.command(1)
            out.argument("ROLE")
        }
        state = .greeting(stream, Greeting(steps: steps), deadline: loop.now + Self.phaseDeadline)
        flush()
    }

    private func greeted(_ reply: borrowing Reply, _ stream: ByteStream, _ greeting: Greeting, deadline: Instant) {
        var greeting = greeting
        let step = greeting.steps[greeting.answered]
        greeting.answered += 1
        if let problem = refusal(reply, of: step) { return lose(problem, at: loop.now) }
        if greeting.answered == greeting.steps.count {
            state = .open(stream, since: loop.now)
            owner?.opened()
        } else {
            state = .greeting(stream, greeting, deadline: deadline)
        }
    }

    private func refusal(_ reply: borrowing Reply, of step: Greeting.Step) -> String? {
        let advice = reply.isError ? RedisFault.advice(reply.errorText) : ""
        switch step {
        case .authenticate: return reply.isError ? "AUTH is refused: \(advice)" : nil
        case .select: return reply.isError ? "SELECT \(access.database) is refused: \(advice)" : nil
        // A name is for people; who may not set one goes on without.
        case .name: return nil
        case .role:
            if reply.isError { return "ROLE is refused: \(advice)" }
            return reply.string(1)?.equals("master") == true ? nil : "this server says that it isn't a master"
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
            case .failed(let text): return lose("not what Redis answers: \(text)\(wrongScheme("", bytes))", at: loop.now)
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
        lose(reason.description + wrongScheme(reason.description, nil), at: loop.now)
    }

    /// What to look at when a server doesn't speak as it's spoken to: TLS and no TLS don't meet, and neither says so. `bytes`: what came
    /// instead of an answer; nil: the end.
    private func wrongScheme(_ reason: String, _ bytes: UnsafeRawBufferPointer?) -> String {
        switch state {
        case .connecting where access.tls != nil && reason.contains("speak TLS"):
            return " (a server without TLS has a URL that begins with redis://, not rediss://)"
        // An alert (RFC 8446 §6), or the end instead of an answer to the first command.
        case .greeting(_, let greeting, _) where access.tls == nil && greeting.answered == 0 && (bytes == nil || bytes?.first == 0x15):
            return "; does it want TLS? (Then its URL begins with rediss://, not redis://)"
        default: return ""
        }
    }
}

/// A resolver's answer, and which attempt asked.
private struct ResolvedName: Sendable {
    var attempt: Int
    var result: Result<[SocketAddress], NetError>
}
