import HubBase
import HubNet
import HubWire

/// The command link: pipelined, so that many calls are under way on one connection; replies come in the order of calls.
///
/// A publication whose outcome isn't known (the link was lost, Redis was silent) is sent again, with the same message id, for 30 s: the
/// dedup key makes that safe. All other calls are answered `unavailable` then; their callers repeat the current state, not old operations.
final class RedisLink: ConnectionOwner {
    /// Calls under way or waiting to be made again, and the bytes of publications in them.
    static let callLimit = 10_000
    static let byteLimit = 64 << 20
    static let deadline: Span = .seconds(3)
    static let pingInterval: Span = .seconds(5)
    static let retryFor: Span = .seconds(30)
    /// Calls are made again after so many NOSCRIPTs; whoever flushes faster than that gets `unavailable`.
    static let reloadLimit = 5

    private struct Pending {
        var call: Call
        /// Replies that are still owed.
        var replies: Int
        var sent: Instant
        /// How often it was made again after a NOSCRIPT.
        var reloads = 0
        /// The order in which calls were first made.
        var sequence: UInt64 = 0
    }

    private struct Held {
        var call: Call
        var reloads: Int
        var sequence: UInt64
    }

    private let connection: RedisConnection<RedisLink>
    private let keys: KeySpace
    private let loop: NetLoop
    /// Owns this link, so it's there as long as it.
    private unowned(unsafe) let owner: RedisBackend
    private var pending = Ring<Pending>()
    private var owedReplies = 0
    private var publishedBytes = 0
    /// To be made again, in the order of their sequence numbers, when the link or the scripts are back.
    private var held: [Held] = []
    private var sequence: UInt64 = 0
    private var scripts = ScriptTable()
    private var isReloading = false
    private var lastPing = Instant(nanoseconds: 0)
    private(set) var isUp = false

    init(connection: RedisConnection<RedisLink>, keys: KeySpace, loop: NetLoop, owner: RedisBackend) {
        self.connection = connection
        self.keys = keys
        self.loop = loop
        self.owner = owner
        connection.owner = self
    }

    func start(at now: Instant) { connection.start(at: now) }

    func stop() {
        isUp = false
        connection.stop()
        failPending()
        let calls = held
        held.removeAll()
        for waiting in calls { fail(waiting.call, .redisAway) }
    }

    /// Hands what was written to the stream.
    func flush() { connection.flush() }

    /// Whether another call, or a publication of some bytes, may be made; the error otherwise.
    func refusal(replies: Int = 1, bytes: Int = 0) -> WireError? {
        guard isUp else { return .redisAway }
        guard owedReplies + held.count + replies <= RedisLink.callLimit, publishedBytes + bytes <= RedisLink.byteLimit else {
            return .redisFull
        }
        return nil
    }

    /// Makes a call; it must not have been refused. It leaves at the end of the turn.
    func send(_ call: Call) {
        if case .publish(let publish) = call { publishedBytes += publish.publication.payload.count }
        sequence += 1
        if isReloading && call.isScript {
            held.append(Held(call: call, reloads: 0, sequence: sequence))
        } else {
            write(call, reloads: 0, sequence)
        }
    }

    private func write(_ call: Call, reloads: Int, _ sequence: UInt64) {
        var replies = 1
        if case .states(let states) = call { replies = states.replies }
        owedReplies += replies
        pending.append(Pending(call: call, replies: replies, sent: loop.now, reloads: reloads, sequence: sequence))
        owner.write(call, into: &connection.out, scripts: scripts)
    }

    func advance(at now: Instant) {
        if let first = pending.first, now.since(first.sent) >= RedisLink.deadline {
            connection.drop("no answer within \(RedisLink.deadline)")
        }
        if isUp && now.since(lastPing) >= RedisLink.pingInterval {
            lastPing = now
            send(.ping)
        }
        giveUp(at: now)
        connection.advance(at: now)
    }

    /// Publications whose time is over; their outcome stays unknown.
    private func giveUp(at now: Instant) {
        guard !isUp, !held.isEmpty else { return }
        func isOver(_ waiting: Held) -> Bool {
            if case .publish(let publish) = waiting.call { return publish.retryUntil <= now }
            return false
        }
        let over = held.filter(isOver)
        guard !over.isEmpty else { return }
        held.removeAll(where: isOver)
        for waiting in over { fail(waiting.call, .redisAway) }
    }

    private func fail(_ call: Call, _ error: WireError) {
        forget(call)
        owner.failed(call, error)
    }

    private func forget(_ call: Call) {
        if case .publish(let publish) = call { publishedBytes -= publish.publication.payload.count }
    }

    private func makeHeld() {
        let calls = held.sorted { $0.sequence < $1.sequence }
        held.removeAll()
        for waiting in calls { write(waiting.call, reloads: waiting.reloads, waiting.sequence) }
    }

    // MARK: ConnectionOwner

    func opened() {
        connection.out.command(4)
        connection.out.argument("SET")
        connection.out.argument(keys.configuration)
        connection.out.argument(KeySpace.configurationValue)
        connection.out.argument("NX")
        expect(.claim)
        connection.out.command(2)
        connection.out.argument("GET")
        connection.out.argument(keys.configuration)
        expect(.check)
        load { .load($0) }
        connection.flush()
    }

    private func expect(_ step: Call.SetUp) {
        owedReplies += 1
        pending.append(Pending(call: .setUp(step), replies: 1, sent: loop.now))
    }

    private func load(_ step: (Script) -> Call.SetUp) {
        for script in Script.allCases {
            connection.out.load(script)
            expect(step(script))
        }
    }

    func received(_ reply: borrowing Reply) {
        guard var next = pending.removeFirst() else { return connection.drop("an answer that nobody asked for") }
        owedReplies -= 1
        next.replies -= 1
        if case .setUp(let step) = next.call { return setUp(step, reply) }
        if reply.isError, let text = reply.string(0) {
            return refused(next, RedisFault(text), reply.errorText)
        }
        // More replies of the same call: it stays in front. Only reads of many users have more than one.
        if next.replies > 0 { pending.prepend(next) } else { forget(next.call) }
        owner.replied(next.call, reply)
    }

    private func refused(_ next: Pending, _ fault: RedisFault, _ text: String) {
        switch fault {
        case .noScript where next.call.isScript && next.reloads < RedisLink.reloadLimit:
            held.append(Held(call: next.call, reloads: next.reloads + 1, sequence: next.sequence))
            // What was sent before the reload finds no script either, and comes here before the reload's own replies do; what's new waits
            // meanwhile. So the order of publications holds.
            if !isReloading {
                isReloading = true
                load { $0 == Script.allCases.last ? .reloaded($0) : .load($0) }
            }
        case .wrongServer:
            if case .publish = next.call {
                held.append(Held(call: next.call, reloads: 0, sequence: next.sequence))
            } else {
                fail(next.call, .redisAway)
            }
            connection.drop(text)
        case .noScript, .full, .other:
            if case .states(let states) = next.call, next.replies > 0 {
                states.failure = fault.wireError(text)
                states.seen += 1
                pending.prepend(next)
            } else {
                fail(next.call, fault.wireError(text))
            }
        }
    }

    private func setUp(_ step: Call.SetUp, _ reply: borrowing Reply) {
        switch step {
        case .claim:
            // nil when it's there already.
            if reply.isError { connection.drop(reply.errorText) }
        case .check:
            guard let value = reply.string(0), !reply.isError, value.equals(KeySpace.configurationValue) else {
                let found = reply.string(0).map { String(decoding: $0.prefix(100), as: UTF8.self) } ?? "nothing"
                let name = String(decoding: keys.configuration, as: UTF8.self)
                return connection.drop("\(name) holds \(found), this version needs \(KeySpace.configurationValue)")
            }
        case .load(let script), .reloaded(let script):
            guard let digest = reply.string(0), !reply.isError, scripts.loaded(script, digest: digest) else {
                return connection.drop("SCRIPT LOAD \(script): \(reply.errorText)")
            }
            if case .reloaded = step {
                isReloading = false
                makeHeld()
            } else if script == Script.allCases.last && !isReloading {
                giveUp(at: loop.now)
                isUp = true
                lastPing = loop.now
                // First of all: what may have been published before the link was lost.
                makeHeld()
                owner.linkUp()
            }
        }
    }

    func ended(_ reason: String) {
        isUp = false
        isReloading = false
        failPending()
        owner.linkDown(reason)
    }

    /// Calls whose replies won't come on this connection. Publications wait for the next one; the others are over.
    private func failPending() {
        var over: [Call] = []
        var waiting: [Held] = []
        func sort(_ one: Held) {
            if case .publish = one.call { waiting.append(one) } else { over.append(one.call) }
        }
        for one in held { sort(one) }
        while let lost = pending.removeFirst() { sort(Held(call: lost.call, reloads: 0, sequence: lost.sequence)) }
        owedReplies = 0
        held = waiting.sorted { $0.sequence < $1.sequence }
        for index in held.indices { held[index].reloads = 0 }
        for call in over { fail(call, .redisAway) }
    }
}
