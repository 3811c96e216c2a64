import CHubShims
import Glibc
import HubBase

/// One event loop: an epoll instance on a thread of its own, sole owner of its connections, listeners, streams and timers.
///
/// A turn: wait, read the clock once, take what sockets brought (each message goes to the handler at once), fire due timers, call
/// `woken` when somebody posted, call `turnEnding`, then flush: all that a connection got in this turn leaves in one system call.
/// Everything but `wake`, `stop` and `init` may only be called on the loop's thread (before `run`: on the thread that will run it).
///
/// Handlers may call anything from within their callbacks, on any connection, the current one too. `closed` and `streamEnded` are never
/// called from within a call that the handler itself made.
package final class NetLoop {
    package struct Options: Sendable {
        package var name: String
        /// Core to run on; nil: wherever the kernel likes.
        package var core: Int?
        /// The loop takes a turn at least this often, for handlers that need `turnEnding` regularly; nil: only when something happens.
        package var tick: Span?
        package var limits: NetLimits
        /// Whose PROXY headers and `X-Forwarded-For` are believed; nil: nobody's.
        package var proxies: TrustedProxies?

        package init(name: String, core: Int? = nil, tick: Span? = nil, limits: NetLimits = NetLimits(), proxies: TrustedProxies? = nil) {
            self.name = name
            self.core = core
            self.tick = tick
            self.limits = limits
            self.proxies = proxies
        }
    }

    private(set) var options: Options
    let epoll: Int32
    /// What other threads may hold on to, to wake or stop this loop.
    package let signal: LoopSignal
    let state: UnsafeMutablePointer<LoopState>
    /// Listeners and the spare descriptor: touched when a client comes, not when one speaks.
    let acceptor: Acceptor

    /// For connections that come from now on to listeners with TLS.
    package var tls: TLSContext?

    /// Not retained. Set before `run`.
    package unowned(unsafe) var handler: (any LoopHandler)?
    package unowned(unsafe) var server: (any ServerHandler)?

    package init(_ options: Options) throws(NetError) {
        self.options = options
        signal = try LoopSignal()
        epoll = try System.makeEpoll()
        acceptor = Acceptor()
        state = .allocate(capacity: 1)
        state.initialize(
            to: LoopState(limits: options.limits, now: System.monotonicNow(), seed: UInt64.random(in: .min ... .max)))
        let result = System.watch(epoll, EPOLL_CTL_ADD, signal.descriptor, events: Readiness.input, data: EventTag.signal.data)
        guard result == 0 else { throw System.error(result, "epoll_ctl") }
    }

    deinit {
        for index in 0..<state.pointee.table.count { tearDown(index) }
        state.pointee.streams.closeAll()
        state.deinitialize(count: 1)
        state.deallocate()
        System.close(epoll)
    }

    /// Other limits from now on: for messages and requests that begin, deadlines that are set. What is under way keeps what it began with.
    package func change(_ limits: NetLimits) {
        options.limits = limits
        state.pointee.limits = limits
        state.pointee.frameLimits = FrameLimits(limits)
    }

    package var limits: NetLimits { options.limits }

    /// The clock as read at the start of this turn.
    package var now: Instant { state.pointee.now }

    /// Any thread: makes `woken` be called in the next turn. One eventfd write for a batch: while a wake is pending it costs one atomic.
    /// A thread that can't hold the loop holds its `signal`.
    package func wake() { signal.wake() }

    /// Any thread: `run` returns after the current turn; sockets are closed, and the handler is told `closed` for its connections.
    package func stop() { signal.stop() }

    // MARK: Turns

    /// Runs turns on the calling thread until `stop`.
    package func run() {
        if let core = options.core { _ = hub_pin_thread(Int32(truncatingIfNeeded: core)) }
        let events = UnsafeMutablePointer<epoll_event>.allocate(capacity: Self.eventsMax)
        defer { events.deallocate() }
        while !signal.shouldStop { takeTurn(events) }
        endAll()
    }

    private static let eventsMax = 512

    private func takeTurn(_ events: UnsafeMutablePointer<epoll_event>) {
        let count = System.wait(epoll, events, Self.eventsMax, milliseconds: patience())
        state.pointee.now = System.monotonicNow()
        state.pointee.herd.begun = 0
        let isWoken = take(events, count)
        fireTimers()
        letIn()
        if isWoken, let handler { handler.woken() }
        tellEndedStreams()
        goOn()
        deliverEnds()
        if let handler { handler.turnEnding() }
        if count > 0 { gather(events) }
        flush()
    }

    /// True when a `wake` was among them.
    private func take(_ events: UnsafeMutablePointer<epoll_event>, _ count: Int) -> Bool {
        var isWoken = false
        for place in 0..<count {
            if take(events[place]) { isWoken = true }
            deliverEnds()
            splitTurn()
        }
        return isWoken
    }

    /// Writes to fewer sockets than that aren't worth another look.
    private static let gatherMin = 32
    /// What one write costs at least, and so what a look may cost that saves one.
    private static let writeNanoseconds: UInt64 = 2_000

    /// Before writes to many sockets: takes what has come meanwhile, so that it leaves with them in the same writes. A turn is made longer by
    /// half of what its writes will take at most, and ends as soon as nothing is there: a message that comes alone waits for nobody.
    private func gather(_ events: UnsafeMutablePointer<epoll_event>) {
        while state.pointee.dirtyCount >= Self.gatherMin {
            let writes = UInt64(state.pointee.dirtyCount)
            guard System.monotonicNow().since(state.pointee.now).nanoseconds < writes * Self.writeNanoseconds else { return }
            let count = System.wait(epoll, events, Self.eventsMax, milliseconds: 0)
            guard count > 0 else { return }
            if take(events, count), let handler { handler.woken() }
            tellEndedStreams()
            deliverEnds()
            if let handler { handler.turnEnding() }
        }
    }

    /// True when it was a `wake`.
    private func take(_ event: epoll_event) -> Bool {
        let tag = EventTag(data: event.data.u64)
        switch tag.kind {
        case .connection: connectionEvent(tag.index, generation: tag.generation, event.events)
        case .stream: streamEvent(tag.index, generation: tag.generation, event.events)
        case .listener: acceptClients(Int(tag.index))
        case .signal: return signal.take()
        }
        return false
    }

    /// Ends a turn that has become large, between two sockets.
    func splitTurn() {
        guard state.pointee.turnBytes > LoopState.arenaSplit else { return }
        endTurn()
        state.pointee.now = System.monotonicNow()
    }

    private func endTurn() {
        if let handler { handler.turnEnding() }
        flush()
    }

    /// Splits a turn that has become large: what's queued leaves now. Frames made before may not be sent afterwards. For handlers that
    /// work off a long batch; `queuedInTurn` tells how large the turn is.
    package func flushEarly() { flush() }

    /// Bytes encoded in this turn so far.
    package var queuedInTurn: Int { state.pointee.turnBytes }

    private func fireTimers() {
        while let index = state.pointee.deadlines.popDue(state.pointee.now) {
            deadlinePassed(index)
            deliverEnds()
        }
        while let fired = state.pointee.timers.popDue(state.pointee.now) {
            switch fired.owner {
            case .handler: if let handler { handler.timerFired(kind: fired.kind, value: fired.value) }
            case .stream: streamDeadlinePassed(fired.value)
            case .listeners: resumeAccepting()
            case .arrivals: state.pointee.herd.isTimed = false
            case .withheld: withheldDue()
            }
            deliverEnds()
        }
    }

    /// How long the next wait may be, in milliseconds; -1: for ever.
    private func patience() -> Int32 {
        if !state.pointee.ends.isEmpty || !state.pointee.resumes.isEmpty || state.pointee.streams.hasEnded || state.pointee.herd.isPressing
        {
            return 0
        }
        var wait = Span(nanoseconds: .max)
        let now = System.monotonicNow()
        if let next = state.pointee.deadlines.nextDeadline { wait = min(wait, next.since(now)) }
        if let next = state.pointee.timers.nextDeadline { wait = min(wait, next.since(now)) }
        if let tick = options.tick { wait = min(wait, tick) }
        if wait.nanoseconds == .max { return -1 }
        // Rounded up: a wait that ends too early would only be repeated.
        let milliseconds = wait.nanoseconds / 1_000_000 + (wait.nanoseconds % 1_000_000 == 0 ? 0 : 1)
        return Int32(min(milliseconds, 60_000))
    }

    // MARK: Timers

    /// Fires `timerFired(kind, value)` once. Resolution 10 ms, never early; no closure, no allocation once warm.
    package func schedule(after span: Span, kind: UInt32, value: UInt64) -> TimerID {
        state.pointee.timers.schedule(at: state.pointee.now + span, owner: .handler, kind: kind, value: value)
    }

    /// Nothing happens when it has fired before.
    package func cancel(_ timer: TimerID) { state.pointee.timers.cancel(timer) }

    // MARK: Facts

    package var counters: NetCounters { state.pointee.counters }

    /// Open connections of this loop, those in a handshake or closing too.
    package var connectionCount: Int { state.pointee.table.liveCount }
}
