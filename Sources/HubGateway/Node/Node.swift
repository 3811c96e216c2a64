import Glibc
import HubBase
import HubCore
import HubNet
import HubRedis
import HubWire
import Synchronization

/// A running node: its loops, its backplane, its listeners. Started, reconfigured and stopped from the main thread.
package final class Node {
    private let configuration: Configuration
    private let log: Log
    private let state: NodeState
    private let threads: [LoopThread]
    private let wakers: [LoopWaker]
    private let mailboxes: [Mailbox<LoopMessage>]
    private let backplaneWaker: LoopWaker
    private let keySetReader: KeySetReader?
    private let asker: AskShell
    private let journal: RevocationJournal?
    private let backplaneMailbox: Mailbox<BackplaneMessage>
    /// What the loops serve TLS with; the main thread changes it.
    private var tls: NodeTLS?
    /// What it listens on, with the ports that the kernel chose.
    package let addresses: [SocketAddress]
    /// Those of them where TLS is spoken.
    package let secureAddresses: [SocketAddress]
    package let name: String
    package let loopCount: Int
    /// `limits.connections`, or what there are descriptors for.
    package let connectionsMax: Int

    /// Opens the listeners, starts the threads and returns. Readiness follows when the first probe is back.
    ///
    /// `descriptors`: how many the process may have; they bound the connections.
    package init(_ configuration: Configuration, log: Log, descriptors: Int = .max) throws(NetError) {
        self.configuration = configuration
        self.log = log
        var system = SystemRandomNumberGenerator()
        let loopCount = configuration.loops > 0 ? configuration.loops : min(sysconf(Int32(_SC_NPROCESSORS_ONLN)), Backplane.loopsMax)
        self.loopCount = loopCount
        let identity = NodeIdentity(
            name: Name(validating: configuration.node ?? Node.hostName()) ?? "node",
            incarnation: Name(trusted: Array("\(Mark(chance: system.next()))\(Mark(chance: system.next()))".utf8.prefix(12))))
        name = "\(identity.name)"
        let state = NodeState(loops: loopCount)
        self.state = state

        let tls = try NodeTLS(configuration.tls)
        self.tls = tls
        let plainListeners = try Node.listen(configuration.listen, count: loopCount)
        let secureListeners = try Node.listen(configuration.tls.listen, count: loopCount)
        addresses = (plainListeners + secureListeners).map { $0[0].address }
        secureAddresses = secureListeners.map { $0[0].address }

        let usesRedis = configuration.redis.isUsed
        var base = NetLimits()
        base.admission = state.admission
        let kept = Node.descriptorsKept(loops: loopCount, listeners: addresses.count)
        let ceiling = max(descriptors - kept - ConnectionBudget.reserve, 1)
        base.connections = ConnectionBudget(limit: configuration.limits.connections, ceiling: ceiling)
        let limits = Node.limits(configuration, over: base)
        connectionsMax = base.connections.limit
        var nets: [NetLoop] = []
        for number in 0..<loopCount {
            let core = configuration.pin.map { $0 + number }
            let hostsBackplane = !usesRedis && number == 0
            nets.append(
                try NetLoop(
                    NetLoop.Options(
                        name: "hub-loop-\(number)", core: core, tick: .milliseconds(hostsBackplane ? 50 : 250), limits: limits,
                        proxies: TrustedProxies(configuration.proxy))))
            nets[number].tls = tls?.context
        }
        let backplaneNet =
            usesRedis
            ? try NetLoop(NetLoop.Options(name: "hub-backplane", core: configuration.pin, tick: .milliseconds(50), limits: limits))
            : nets[0]
        let wakers = nets.map(LoopWaker.init)
        let backplaneWaker = LoopWaker(backplaneNet)
        let backplaneMailbox = Mailbox<BackplaneMessage>()

        let streamKeys = StreamKeys(secret: Secret((0..<32).map { _ in UInt8.random(in: .min ... .max, using: &system) }))
        let gateways = nets.enumerated().map { number, net in
            GatewayLoop(
                number: number, net: net, node: identity, state: state, log: log, configuration: configuration, seed: system.next(),
                streamKeys: streamKeys, backplaneMailbox: backplaneMailbox, backplaneWaker: backplaneWaker)
        }
        mailboxes = gateways.map(\.mailbox)
        let targets = zip(mailboxes, wakers).map { (mailbox: $0, waker: $1) }
        let seed = system.next()
        keySetReader = try KeySetReader(configuration, log: log) { keys in
            for target in targets {
                target.mailbox.post(.keySet(keys))
                target.waker.wake()
            }
        }
        asker = AskShell(configuration, log: log, clock: state.sharedClock) { reply, loop, tag in
            targets[loop].mailbox.post(.asked(Boxed(reply), tag: tag))
            targets[loop].waker.wake()
        }
        for gateway in gateways {
            gateway.keySetReader = keySetReader
            gateway.asker = asker
        }

        let snapshots = try SnapshotKeeper.open(configuration, log: log, state: state, at: Node.monotonicNow())
        let journal = snapshots?.0.journal
        self.journal = journal
        try journal?.start { entries, error in
            backplaneMailbox.post(.journaled(entries, error))
            backplaneWaker.wake()
        }
        var threads: [LoopThread] = []
        if usesRedis {
            let backend: RedisBackend
            do throws(RedisBackend.Problem) {
                backend = try RedisBackend(
                    loop: backplaneNet, redis: configuration.redis, timers: configuration.presence,
                    namespaces: configuration.brokerNamespaces,
                    incarnation: identity.incarnation, node: identity.name, feeds: configuration.presenceFeeds,
                    chance: Chance(seed: seed &+ 1))
            } catch { throw NetError(number: 0, description: error.description) }
            let parts = SendOnce((backplaneNet, backend, configuration, identity, targets, asker))
            threads.append(
                try LoopThread(name: "hub-backplane") {
                    let (net, backend, configuration, identity, targets, asker) = parts.value
                    let start = Node.monotonicNow()
                    let queue = RedisHookQueue(backend)
                    let backplane = Backplane(
                        node: identity, state: state, log: log, broker: RedisBroker(backend), store: RedisPresenceStore(backend),
                        rates: RedisRateStore(backend),
                        memberStore: RedisMemberStore(backend),
                        hooks: HookShell(
                            queue: queue, configuration: configuration, log: log, mailbox: backplaneMailbox, waker: backplaneWaker,
                            chance: Chance(seed: seed &+ 2), at: start),
                        timers: configuration.presence, recovery: Node.recoveryLimits(configuration),
                        namespaces: configuration.namespaces, postBytesMax: configuration.limits.messageBytes, chance: Chance(seed: seed),
                        mailbox: backplaneMailbox,
                        loops: targets, ownLoop: nil, at: start)
                    queue.hookDelegate = backplane
                    backplane.logsPersonal = configuration.logPersonal
                    backplane.asker = asker
                    let handler = BackplaneLoop(backplane: backplane, net: net)
                    net.handler = handler
                    backplane.start(at: start)
                    net.run()
                    withExtendedLifetime((handler, queue, backend)) {}
                })
        }
        for (number, gateway) in gateways.enumerated() {
            let parts = SendOnce(
                (
                    gateway, plainListeners.map { $0[number] }, secureListeners.map { $0[number] }, configuration, identity, targets,
                    number == 0 ? snapshots : nil
                ))
            let hostsBackplane = !usesRedis && number == 0
            threads.append(
                try LoopThread(name: "hub-loop-\(number)") {
                    let (gateway, plainListeners, secureListeners, configuration, identity, targets, snapshots) = parts.value
                    let start = Node.monotonicNow()
                    var embedded: MemoryBroker?
                    if hostsBackplane {
                        let broker = MemoryBroker(
                            namespaces: configuration.brokerNamespaces, chance: Chance(seed: seed &+ 1), node: identity.incarnation)
                        if case (_, .snapshot(let channels, let generation, let keepsEpochs))? = snapshots {
                            broker.restore(channels, generation: generation, keepsEpochs: keepsEpochs, at: start)
                        }
                        broker.keeper = snapshots?.0
                        embedded = broker
                        let wallClock = WallClock.milliseconds()
                        let queue = MemoryHookQueue(wallClockAtStart: wallClock, startedAt: start)
                        let store = MemoryPresenceStore(
                            timers: configuration.presence, node: identity.incarnation, nodeName: identity.name,
                            wallClockAtStart: wallClock, startedAt: start)
                        let members = MemoryMembers(timers: configuration.presence, wallClockAtStart: wallClock, startedAt: start)
                        (store.hooks, members.hooks) = (queue, queue)
                        let backplane = Backplane(
                            node: identity, state: state, log: log,
                            broker: broker,
                            store: store, rates: MemoryRateStore(),
                            memberStore: MemoryMemberStore(members, node: identity.incarnation),
                            hooks: HookShell(
                                queue: queue, configuration: configuration, log: log, mailbox: backplaneMailbox, waker: backplaneWaker,
                                chance: Chance(seed: seed &+ 2), at: start),
                            timers: configuration.presence, recovery: Node.recoveryLimits(configuration),
                            namespaces: configuration.namespaces, postBytesMax: configuration.limits.messageBytes,
                            chance: Chance(seed: seed), mailbox: backplaneMailbox,
                            loops: targets, ownLoop: 0, at: start)
                        queue.hookDelegate = backplane
                        backplane.logsPersonal = configuration.logPersonal
                        backplane.asker = gateway.asker
                        if let journal { backplane.keep(in: journal) }
                        gateway.backplane = backplane
                        backplane.start(at: start)
                    }
                    gateway.net.handler = gateway
                    gateway.net.server = gateway
                    for listener in plainListeners { gateway.net.serve(listener.take()) }
                    for listener in secureListeners { gateway.net.serve(listener.take(), isSecure: true) }
                    gateway.net.run()
                    // Where the loop ended before it was told to stop the broker.
                    if let embedded { embedded.keeper?.stopping(embedded, at: Node.monotonicNow()) }
                    withExtendedLifetime(gateway) {}
                })
        }
        self.threads = threads
        self.wakers = wakers
        self.backplaneWaker = backplaneWaker
        self.backplaneMailbox = backplaneMailbox
    }

    /// Applies what can change live; it's in force when this returns (a thread that stands still is waited for a second).
    package func reconfigure(_ configuration: Configuration) {
        let renewed: NodeTLS?
        do throws(NetError) { renewed = try tls?.changed(to: configuration.tls) } catch {
            // It was found usable when it was read: only memory can be short now. What serves goes on.
            log.error("tls.refused", ["message": error.description])
            renewed = nil
        }
        if let renewed {
            tls = renewed
            for name in renewed.context.names.repeated { log.warning("tls.repeatedName", ["name": name]) }
        }
        asker.adopt(configuration)
        let adoptions = state.adoptions + mailboxes.count + 1
        for (mailbox, waker) in zip(mailboxes, wakers) {
            if let renewed { mailbox.post(.secured(renewed.context)) }
            mailbox.post(.reconfigured(configuration))
            waker.wake()
        }
        backplaneMailbox.post(.reconfigured(configuration))
        backplaneWaker.wake()
        keySetReader?.readSoon()
        let deadline = Node.monotonicNow() + .seconds(1)
        while state.adoptions < adoptions && Node.monotonicNow() < deadline { usleep(500) }
    }

    /// Stops in order: not ready any more, listeners closed, every connection closed with 1001, presence told, loops ended. `impatient` is
    /// asked meanwhile: true ends the waiting at once. Returns what went wrong: a snapshot of the end that couldn't be written.
    package func stop(impatient: () -> Bool) -> String? {
        state.enter(.stopping)
        for (mailbox, waker) in zip(mailboxes, wakers) {
            mailbox.post(.shutDown)
            waker.wake()
        }
        let deadline = Node.monotonicNow() + configuration.deadlines.shutdown
        // The loops' numbers are told every 200 ms; presence gets a moment after the last connection, to leave the node's users in grace.
        var settledAt: Instant?
        var isLeaving = false
        let halfTime = Node.monotonicNow() + configuration.deadlines.shutdown.scaled(by: 0.5)
        while Node.monotonicNow() < deadline {
            if impatient() { break }
            // What a loop told before it knew of it may leave out who came since.
            let loops = state.loopNumbers
            let hasClosed = loops.allSatisfy { $0.isStopping && $0.connections == 0 }
            if hasClosed && settledAt == nil { settledAt = Node.monotonicNow() }
            // One that doesn't end keeps the others' from being told no longer than half the time.
            if !isLeaving && (hasClosed || Node.monotonicNow() >= halfTime) {
                isLeaving = true
                backplaneMailbox.post(.leave)
                backplaneWaker.wake()
            }
            if let settledAt, state.hasLeft, Node.monotonicNow().since(settledAt) > .milliseconds(500) { break }
            for waker in wakers { waker.wake() }
        }
        // The goodbye is written in the backplane's turn; another one later it has left.
        backplaneMailbox.post(.stop)
        backplaneWaker.wake()
        _ = impatient()
        keySetReader?.stop()
        asker.stop()
        journal?.stop()
        for waker in wakers { waker.stop() }
        backplaneWaker.stop()
        for thread in threads { thread.join() }
        return state.unsaved
    }

    package static func monotonicNow() -> Instant {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Instant(nanoseconds: UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec))
    }

    private static func hostName() -> String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard gethostname(&buffer, buffer.count - 1) == 0 else { return "node" }
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    private static func listen(_ texts: [String], count: Int) throws(NetError) -> [[ListenSocketBox]] {
        var all: [[ListenSocketBox]] = []
        for text in texts { all.append(try ListenSocket.open(try ListenAddress.resolve(text), count: count)) }
        return all
    }

    /// Descriptors that connections may not take: what each loop has (epoll, eventfd, spare and listeners), and what the node needs at any time
    /// for its links, logs, secrets and name look-ups.
    private static func descriptorsKept(loops: Int, listeners: Int) -> Int { 24 + (loops + 1) * (3 + listeners) }

    private static func recoveryLimits(_ configuration: Configuration) -> RecoveryMachine.Limits {
        var limits = RecoveryMachine.Limits()
        limits.memory = configuration.limits.recoveryMemory
        return limits
    }

    static func limits(_ configuration: Configuration, over base: NetLimits) -> NetLimits {
        var limits = base
        limits.headBytes = configuration.limits.headBytes
        limits.bodyBytes = configuration.limits.bodyBytes
        limits.messageBytes = configuration.limits.messageBytes
        limits.outboundBytes = configuration.limits.outboundBytes
        limits.sendMemory.limit = configuration.limits.sendMemory
        limits.connections.limit = configuration.limits.connections
        limits.connectionsPerAddress = configuration.limits.connectionsPerAddress
        limits.connectsPerAddress = Paces(configuration.limits)[.addressConnects]
        limits.admissionsPerSecond = configuration.limits.acceptsPerSecond
        limits.tlsDeadline = configuration.deadlines.tls
        limits.deflate.level = configuration.deflate.level
        limits.deflate.windowBits = configuration.deflate.windowBits
        limits.deflate.minimumBytes = configuration.deflate.minimumBytes
        limits.deflate.contexts.limit = configuration.deflate.contextBudget
        limits.headDeadline = configuration.deadlines.head
        limits.keepAlive = configuration.deadlines.idle
        limits.closeDeadline = configuration.deadlines.close
        limits.ping = configuration.ping
        limits.pong = configuration.deadlines.pong
        return limits
    }
}

/// The backplane on a loop of its own.
final class BackplaneLoop: LoopHandler {
    private let backplane: Backplane
    private let net: NetLoop

    init(backplane: Backplane, net: NetLoop) {
        self.backplane = backplane
        self.net = net
    }

    func woken() {}
    func timerFired(kind: UInt32, value: UInt64) {}
    func turnEnding() { backplane.turn(at: net.now) }
}

/// Hands values to a new thread that alone uses them from then on.
///
/// `@unchecked Sendable`: made before the thread starts, read once inside it; the maker keeps no use of what may not be shared.
private final class SendOnce<Value>: @unchecked Sendable {
    let value: Value
    init(_ value: Value) { self.value = value }
}

extension ListenAddress {
    /// What `--listen` names: a literal address, or a name of this machine, which is looked up.
    static func resolve(_ text: String) throws(NetError) -> SocketAddress {
        if let literal = SocketAddress(text) { return literal }
        guard let (host, portText) = split(text), let port = Int(portText) else {
            throw NetError(number: 0, description: "listen: \"\(text)\" isn't HOST:PORT")
        }
        guard let first = try Resolver.resolve(host: host, port: port).first else {
            throw NetError(number: 0, description: "listen: \(text) has no address")
        }
        return first
    }
}
