import HubBase
import HubCore
import HubNet
import HubWire

/// The command link to one master: pipelined, so that many calls are under way on one connection; replies come in the order of calls.
///
/// What happens to calls when the link is lost, or keys are elsewhere, is `CommandLinks`' business: they go back there.
final class RedisLink: ConnectionOwner {
    /// Calls under way or waiting to be made again, and the bytes of publications in them.
    static let callLimit = 10_000
    static let byteLimit = 64 << 20
    static let deadline: Span = .seconds(3)
    static let silence = Silence(after: deadline)
    static let pingInterval: Span = .seconds(5)
    static let retryFor: Span = .seconds(30)
    /// How long a publication waits for another server where one says that it takes nothing: longer than a failover that has been decided
    /// takes to be told.
    static let refusedFor: Span = .seconds(5)
    /// Calls are made again after so many NOSCRIPTs; whoever flushes faster than that gets `unavailable`.
    static let reloadLimit = 5

    private struct Pending {
        var waiting: Waiting
        /// Replies that are still owed.
        var replies: Int
        var sent: Instant
    }

    private let connection: RedisConnection<RedisLink>
    private let keys: KeySpace
    private let loop: NetLoop
    private let isSharded: Bool
    /// Outlives this link.
    private unowned(unsafe) let owner: CommandLinks
    private var pending = Ring<Pending>()
    private(set) var owedReplies = 0
    /// Calls of each kind of upkeep among those under way.
    private var upkeep = [Int](repeating: 0, count: Call.Upkeep.allCases.count)
    /// To be made again when the scripts are back.
    private(set) var held: [Waiting] = []
    private var scripts = ScriptTable()
    private var isReloading = false
    private var lastPing = Instant(nanoseconds: 0)
    /// When an answer came last.
    private var heard = Instant(nanoseconds: 0)
    private(set) var isUp = false
    private(set) var problem: String?

    init(connection: RedisConnection<RedisLink>, keys: KeySpace, loop: NetLoop, isSharded: Bool, owner: CommandLinks) {
        self.connection = connection
        self.keys = keys
        self.loop = loop
        self.isSharded = isSharded
        self.owner = owner
        connection.owner = self
    }

    var place: RedisURL.Place? { connection.place }
    var isIdle: Bool { pending.isEmpty && held.isEmpty }

    /// Whether another call of that kind may be made now.
    func hasRoom(for kind: Call.Upkeep) -> Bool { isUp && !isReloading && upkeep[kind.rawValue] < Call.Upkeep.window }

    func start(at now: Instant) { connection.start(at: now) }

    func stop() {
        isUp = false
        connection.stop()
        giveBack()
    }

    func drop(_ reason: String) { connection.drop(reason) }

    /// Goes to another server, at once.
    func move(to place: RedisURL.Place?, because reason: String) { connection.move(to: place, because: reason) }

    /// Hands what was written to the stream.
    func flush() { connection.flush() }

    /// Makes a call. It leaves at the end of the turn.
    func send(_ waiting: Waiting) {
        if isReloading && waiting.call.isScript { held.append(waiting) } else { write(waiting) }
    }

    private func write(_ waiting: Waiting) {
        let replies = waiting.call.replies
        owedReplies += replies
        if let kind = waiting.call.upkeep { upkeep[kind.rawValue] += 1 }
        pending.append(Pending(waiting: waiting, replies: replies, sent: loop.now))
        owner.write(waiting.call, into: &connection.out, scripts: scripts)
    }

    func advance(at now: Instant) {
        if let first = pending.first, let limit = RedisLink.silence.exceeded(asked: first.sent, heard: heard, at: now) {
            connection.drop("no answer within \(limit)")
        }
        if isUp && now.since(lastPing) >= RedisLink.pingInterval {
            lastPing = now
            write(Waiting(call: .ping, lane: Lane.several, sequence: 0, since: now))
        }
        connection.advance(at: now)
    }

    /// Whether it's up and brings nothing while an answer has been owed for so long. (What is down is known to be, and holds up no other.)
    func isSilent(for span: Span, at now: Instant) -> Bool {
        guard isUp, let first = pending.first else { return false }
        return now.since(first.sent) >= span && now.since(heard) >= span
    }

    private func makeHeld() {
        let calls = held.sorted { $0.sequence < $1.sequence }
        held.removeAll()
        for waiting in calls { write(waiting) }
    }

    // MARK: Setting up

    func opened() {
        if owner.hasConfiguration(self) { checkConfiguration() }
        load { .load($0) }
        connection.flush()
    }

    /// The deployment is fixed to what stands there; who comes first writes it.
    func checkConfiguration() {
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
    }

    func checkConfigurationIfUp() { if isUp { checkConfiguration() } }

    private func expect(_ step: Call.SetUp) {
        owedReplies += 1
        let waiting = Waiting(call: .setUp(step), lane: Lane.several, sequence: 0, since: loop.now)
        pending.append(Pending(waiting: waiting, replies: 1, sent: loop.now))
    }

    /// `name`: theirs alone, nil for the texts that all nodes share.
    private func load(as name: [UInt8]? = nil, _ step: (Script) -> Call.SetUp) {
        for script in Script.allCases {
            connection.out.load(script, isSharded: isSharded, as: name)
            expect(step(script))
        }
    }

    private func askForRights() {
        connection.out.call(.rights, scripts, keys: 0, arguments: 2)
        connection.out.argument(key: keys.partitions[0], KeySpace.Kind.meta)
        connection.out.argument(key: keys.partitions[0], KeySpace.Kind.live)
        expect(.rights)
        connection.flush()
    }

    /// The master may lack what was acknowledged before it took over: the script sees to what that means, once for all nodes.
    private func passFailover(_ number: UInt64) {
        connection.out.call(.failover, scripts, keys: 1 + keys.partitions.count, arguments: 1)
        connection.out.argument(keys.failover)
        for prefix in keys.partitions { connection.out.argument(key: prefix, KeySpace.Kind.generation) }
        connection.out.argument(decimal: number)
        expect(.failover)
        connection.flush()
    }

    private func cameUp() {
        isUp = true
        problem = nil
        lastPing = loop.now
        owner.linkUp(self)
    }

    private func setUp(_ step: Call.SetUp, _ reply: borrowing Reply) {
        // The keys beside the partitions are elsewhere in the meantime; who has them checks.
        if case .elsewhere? = fault(reply), owner.isCluster, step.isOfConfiguration {
            return owner.configurationMoved(redirect(reply))
        }
        switch step {
        case .claim:
            // nil when it's there already. A full Redis doesn't look before it refuses; what's there is read next.
            if reply.isError, fault(reply) != .full { connection.drop(RedisFault.advice(reply.errorText)) }
        case .check:
            guard let value = reply.string(0), !reply.isError, value.equals(KeySpace.configurationValue) else {
                let name = String(decoding: keys.configuration, as: UTF8.self)
                if fault(reply) == .foreign { return connection.drop("\(name) holds something that isn't a hub's; \(RedisLink.elsewhere)") }
                if reply.isError { return connection.drop(RedisFault.advice(reply.errorText)) }
                guard let found = reply.string(0).map({ String(decoding: $0.prefix(100), as: UTF8.self) }) else {
                    return connection.drop("\(name) isn't there and can't be written: Redis is out of memory")
                }
                return connection.drop("\(name) holds \(found), this version needs \(KeySpace.configurationValue); \(RedisLink.elsewhere)")
            }
        case .load(let script), .reloaded(let script):
            guard let digest = reply.string(0), !reply.isError, scripts.loaded(script, digest: digest) else {
                return connection.drop("SCRIPT LOAD \(script): \(RedisFault.advice(reply.errorText))")
            }
            if case .reloaded = step {
                isReloading = false
                makeHeld()
            } else if script == Script.allCases.last && !isReloading {
                askForRights()
            }
        case .rights:
            if reply.isError { return connection.drop(RedisFault.advice(reply.errorText)) }
            if let failover = owner.failover { passFailover(failover) } else { cameUp() }
        case .failover:
            if fault(reply) == .foreign {
                let name = String(decoding: keys.failover, as: UTF8.self)
                return connection.drop("\(name) holds something that isn't a hub's; \(RedisLink.elsewhere)")
            }
            if reply.isError { return connection.drop(RedisFault.advice(reply.errorText)) }
            cameUp()
        }
    }

    private static let elsewhere = "a hub needs a prefix of its own (redis.prefix)"

    private func fault(_ reply: borrowing Reply) -> RedisFault? {
        guard reply.isError, let text = reply.string(0) else { return nil }
        return RedisFault(text)
    }

    private func redirect(_ reply: borrowing Reply) -> Redirect {
        reply.string(0).flatMap { Redirect($0, asked: place) } ?? .later
    }

    // MARK: Replies

    func received(_ reply: borrowing Reply) {
        heard = loop.now
        guard var next = pending.removeFirst() else { return connection.drop("an answer that nobody asked for") }
        owedReplies -= 1
        next.replies -= 1
        if let kind = next.waiting.call.upkeep { upkeep[kind.rawValue] -= 1 }
        if case .setUp(let step) = next.waiting.call { return setUp(step, reply) }
        if let fault = fault(reply), !next.waiting.call.reads(fault) { return refused(next, fault, reply) }
        if case .states(let states) = next.waiting.call, states.movedLane != nil { return skip(next, states) }
        // More replies of the same call: it stays in front. Only reads of many users have more than one.
        if next.replies > 0 { pending.prepend(next) } else { owner.ended(next.waiting) }
        owner.replied(next.waiting.call, reply)
    }

    private func refused(_ next: Pending, _ fault: RedisFault, _ reply: borrowing Reply) {
        let text = reply.errorText
        let call = next.waiting.call
        switch fault {
        case .noScript where call.isScript && next.waiting.reloads < RedisLink.reloadLimit:
            var waiting = next.waiting
            waiting.reloads += 1
            held.append(waiting)
            // What was sent before the reload finds no script either, and comes here before the reload's own replies do; what's new waits
            // meanwhile. So the order of publications holds. They're loaded under a name of this reload: what is still on its way must not
            // find what another node has loaded anew (decision 0350).
            if !isReloading {
                isReloading = true
                load(as: owner.nameReload()) { $0 == Script.allCases.last ? .reloaded($0) : .load($0) }
            }
        case .elsewhere where owner.isCluster:
            let redirect = redirect(reply)
            guard case .states(let states) = call else { return owner.redirected(next.waiting, redirect, from: self) }
            owner.learn(redirect)
            states.movedLane = states.movedLane ?? states.lane(ofReply: states.seen)
            skip(next, states)
        case .wrongServer, .elsewhere:
            owner.turnedDown(next.waiting)
            connection.drop(RedisFault.advice(text))
        case .noScript, .full, .foreign, .readersFull, .ahead, .late, .other:
            if case .states(let states) = call, next.replies > 0 {
                states.failure = fault.wireError(text, foreign: call.foreignKey)
                states.seen += 1
                pending.prepend(next)
            } else {
                if fault == .foreign { owner.foreign(call, text) }
                owner.failed(next.waiting, fault.wireError(text, foreign: call.foreignKey))
            }
        }
    }

    /// A reply of a read that will be made again.
    private func skip(_ next: Pending, _ states: StatesCall) {
        states.seen += 1
        if next.replies > 0 { pending.prepend(next) } else { owner.redirected(next.waiting, .later, from: self) }
    }

    func ended(_ reason: String) {
        isUp = false
        isReloading = false
        problem = reason
        giveBack()
        owner.linkDown(self)
    }

    /// Calls whose replies won't come on this connection.
    private func giveBack() {
        for waiting in held { owner.interrupted(waiting) }
        held.removeAll()
        owedReplies = 0
        for kind in upkeep.indices { upkeep[kind] = 0 }
        while let lost = pending.removeFirst() { owner.interrupted(lost.waiting) }
    }
}

extension Call {
    /// Whether it takes an error for one of its replies: of many users, one's record may hold something else.
    fileprivate func reads(_ fault: RedisFault) -> Bool { if case .states = self { fault == .foreign } else { false } }
}

extension Call.SetUp {
    fileprivate var isOfConfiguration: Bool {
        switch self {
        case .claim, .check: true
        case .load, .rights, .failover, .reloaded: false
        }
    }
}

extension StatesCall {
    /// Which lane the key of a reply has; TIME's is any.
    fileprivate func lane(ofReply place: Int) -> Int {
        if place == 0 { return partitions[0] }
        if place < heads { return partitions[ofPartition(place).0] }
        let user = place - heads
        return user < users.count ? Partition.of(users[user]) : partitions[0]
    }
}
