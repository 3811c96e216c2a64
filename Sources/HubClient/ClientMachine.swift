import HubBase
import HubWire

/// One client's connection to a hub, over all the sockets that it takes: when to connect, what to ask for, what an end means.
///
/// A machine: events and the time go in, what the shell must do comes out; it knows no socket, clock or secret. The shell (a loop of the
/// swarm, hubctl's, an SDK's actor) does three things: it reports what the transport did, it calls `deadlinePassed` at `deadline`, and
/// after any event it sends what `nextRequest` hands out until that is nil. Memory: some 300 bytes, and what is subscribed or in flight.
package struct ClientMachine: Sendable {
    package enum State: Sendable, Equatable {
        case idle
        case connecting(until: Instant)
        /// The transport is open, the hub's welcome is awaited.
        case greeting(until: Instant)
        case open(since: Instant)
        case waiting(until: Instant, WaitReason)
        /// The shell was asked for a new token.
        case tokenWanted
        case leaving(until: Instant)
        case closed(ClosedReason)
    }

    /// Why a client isn't connected at the moment, for the application to show.
    package struct WaitReason: Sendable, Equatable {
        package var end: TransportEnd
        /// Ends in a row without a stable connection between them.
        package var failures: Int

        package init(end: TransportEnd, failures: Int) {
            self.end = end
            self.failures = failures
        }
    }

    package struct Options: Sendable, Equatable {
        package var backoff = Backoff()
        /// The token goes in a `connect` envelope, because the transport can't set headers.
        package var connectsByEnvelope = false
        /// For the transport to open.
        package var openDeadline: Span = .seconds(10)
        package var welcomeDeadline: Span = .seconds(10)
        package var requestDeadline: Span = .seconds(10)
        package var closeDeadline: Span = .seconds(5)
        /// A connection that held for so long ends the row of failures.
        package var stableAfter: Span = .seconds(10)
        /// A refused subscription that may succeed later is asked for again after this, unless the hub named a time.
        package var subscribeAgain: Span = .seconds(2)
        package var requestsMax = 1024
        /// Users in one `watch` (docs/protocol.md).
        package var watchMax = 1000
        package var depthMax = 64
        /// Channels in one `subscribe`.
        package var subscribeMax = 100
        /// Unanswered messages that are kept to be sent again, and the bytes of their payloads.
        package var outboxMax = 1_000
        package var outboxBytesMax = 4 * 1024 * 1024

        package init() {}
    }

    package private(set) var state: State = .idle
    package internal(set) var node: Name?
    /// The hub has welcomed us on this connection, which may be on its way out.
    package private(set) var wasWelcomed = false
    let options: Options
    var subscriptions = Subscriptions()
    var pending = PendingRequests()
    var outbox = Outbox()
    var missed: [Missed] = []
    var drainHint: Span?
    private var lastId: UInt64 = 0
    private var failures = 0
    /// A token was renewed and hasn't been seen to work.
    private var isTokenFresh = false
    private var wishes = Wishes()

    /// What is to be said on every new connection, and how much of it was said on this one.
    private struct Wishes: Sendable {
        var isConnectOwed = false
        var status: Payload.Status?
        var isStatusOwed = false
        var watched: [Name] = []
        var watchesSaid = 0
        var unwatches: [Name] = []
        var unsubscribes: [Name] = []

        mutating func reset(byEnvelope: Bool) {
            isConnectOwed = byEnvelope
            isStatusOwed = status != nil
            watchesSaid = 0
            unwatches.removeAll()
            unsubscribes.removeAll()
        }
    }

    package init(_ options: Options = Options()) { self.options = options }

    // MARK: The transport

    /// The shell opens a transport now.
    package mutating func start(now: Instant) {
        guard case .idle = state else { preconditionFailure("started in \(state)") }
        state = .connecting(until: now + options.openDeadline)
    }

    package mutating func transportOpened(now: Instant) {
        guard case .connecting = state else { preconditionFailure("a transport opened in \(state)") }
        state = .greeting(until: now + options.welcomeDeadline)
        wishes.reset(byEnvelope: options.connectsByEnvelope)
    }

    package enum AfterEnd: Sendable, Equatable {
        /// Until `deadline`; then `deadlinePassed` says connect.
        case wait(Span)
        /// Get one and call `tokenRenewed`, or `tokenUnavailable`.
        case fetchToken
        case finished(ClosedReason)
    }

    /// The transport is over. What was in flight has an unknown fate: take it with `nextLost`.
    package mutating func transportEnded(_ end: TransportEnd, now: Instant, chance: inout Chance) -> AfterEnd {
        wasWelcomed = false
        switch state {
        case .closed(let reason): return .finished(reason)
        case .leaving: return finish(.asked)
        case .open(let since) where now.since(since) >= options.stableAfter: failures = 0
        case .open, .connecting, .greeting: break
        case .idle, .waiting, .tokenWanted: preconditionFailure("a transport ended in \(state)")
        }
        subscriptions.reset()
        outbox.reset()
        node = nil
        let rule = ReconnectRule.after(end, drainHint: drainHint)
        drainHint = nil
        switch rule {
        case .never(let reason): return finish(reason)
        case .renewToken where isTokenFresh: return finish(.tokenInvalid)
        case .renewToken:
            state = .tokenWanted
            return .fetchToken
        default:
            let delay = options.backoff.delay(rule, failures: failures, chance: &chance) ?? options.backoff.cap
            failures += 1
            state = .waiting(until: now + delay, WaitReason(end: end, failures: failures))
            return .wait(delay)
        }
    }

    /// The shell has a new token and opens a transport with it now.
    package mutating func tokenRenewed(now: Instant) {
        guard case .tokenWanted = state else { return }
        isTokenFresh = true
        state = .connecting(until: now + options.openDeadline)
    }

    package mutating func tokenUnavailable() {
        if case .tokenWanted = state { _ = finish(.noToken) }
    }

    private mutating func finish(_ reason: ClosedReason) -> AfterEnd {
        state = .closed(reason)
        return .finished(reason)
    }

    package enum AfterStop: Sendable, Equatable {
        /// Close with 1000 and report the end.
        case close
        /// Drop the transport.
        case abort
        case nothing
    }

    /// The application wants no connection any more.
    package mutating func stop(now: Instant) -> AfterStop {
        switch state {
        case .open, .greeting:
            state = .leaving(until: now + options.closeDeadline)
            return .close
        case .connecting:
            state = .closed(.asked)
            return .abort
        case .idle, .waiting, .tokenWanted:
            state = .closed(.asked)
            return .nothing
        case .leaving, .closed: return .nothing
        }
    }

    /// The application wants one again, or has lost its network for a while and finds it again: what it follows is asked for from where it
    /// stood. Only after `stop` has come to its end; the shell opens a transport now.
    package mutating func restart(now: Instant) {
        guard case .closed(.asked) = state else { return }
        subscriptions.reset()
        outbox.reset()
        node = nil
        drainHint = nil
        failures = 0
        wasWelcomed = false
        state = .connecting(until: now + options.openDeadline)
    }

    // MARK: Time

    /// When to call `deadlinePassed`; nil: not before something else happens.
    package var deadline: Instant? {
        switch state {
        case .connecting(let until), .greeting(let until), .waiting(let until, _), .leaving(let until): until
        case .open:
            [pending.deadline, subscriptions.retryAt, outbox.deadline].compactMap { $0 }.min()
        case .idle, .tokenWanted, .closed: nil
        }
    }

    package enum AfterDeadline: Sendable, Equatable {
        /// Also: take timed-out requests and send what `nextRequest` has.
        case nothing
        case connect
        /// Drop the transport and report the end with this.
        case abort(TransportEnd)
    }

    /// Too early a call changes nothing.
    package mutating func deadlinePassed(now: Instant) -> AfterDeadline {
        switch state {
        case .waiting(let until, _) where until <= now:
            state = .connecting(until: now + options.openDeadline)
            return .connect
        case .connecting(let until) where until <= now: return .abort(.failed("no connection within \(options.openDeadline)"))
        case .greeting(let until) where until <= now: return .abort(.unwelcomed(after: options.welcomeDeadline))
        case .leaving(let until) where until <= now: return .abort(.failed("no answer to our close within \(options.closeDeadline)"))
        default: return .nothing
        }
    }

    // MARK: Wishes

    /// Follows a channel on this and every later connection, from `position` on if the application has one.
    package mutating func subscribe(_ channel: Name, from position: Position? = nil) {
        wishes.unsubscribes.removeAll { $0 == channel }
        subscriptions.want(channel, from: position)
    }

    package mutating func unsubscribe(_ channel: Name) {
        guard let index = subscriptions.index(of: channel) else { return }
        let subscription = subscriptions.remove(at: index)
        if case .wanted = subscription.state { return }
        wishes.unsubscribes.append(channel)
    }

    package mutating func watch(_ users: [Name]) {
        var known = Set(wishes.watched)
        for user in users where known.insert(user).inserted { wishes.watched.append(user) }
    }

    package mutating func unwatch(_ users: [Name]) {
        for user in users {
            guard let index = wishes.watched.firstIndex(of: user) else { continue }
            wishes.watched.remove(at: index)
            guard index < wishes.watchesSaid else { continue }
            wishes.watchesSaid -= 1
            wishes.unwatches.append(user)
        }
    }

    /// Asks for this status on every connection from now on.
    package mutating func setStatus(_ status: Payload.Status) {
        wishes.status = status
        wishes.isStatusOwed = true
    }

    /// The next connection asks for no status: it's what connections begin as.
    package mutating func forgetStatus() {
        wishes.status = nil
        wishes.isStatusOwed = false
    }

    /// What is followed, with the last positions: what an application saves and comes back with.
    package var followed: [Subscription] { subscriptions.list }

    // MARK: Requests

    /// What is to be sent next; nil when all is said. Call it until then after every event.
    package mutating func nextRequest(now: Instant) -> ClientRequest? {
        if case .greeting = state, wishes.isConnectOwed {
            wishes.isConnectOwed = false
            return .connect(id: makeRequest(.connect, now))
        }
        guard case .open = state, pending.count < options.requestsMax else { return nil }
        if let channel = wishes.unsubscribes.popLast() {
            return .unsubscribe(id: makeRequest(.unsubscribe, now), channel)
        }
        if let request = nextSubscribe(now) { return request }
        if let index = subscriptions.nextBehind(), let since = subscriptions.list[index].position {
            let id = makeRequest(.history, now)
            subscriptions.set(.behind(request: id), at: index)
            return .history(id: id, subscriptions.list[index].channel, since: since)
        }
        if wishes.isStatusOwed, let status = wishes.status {
            wishes.isStatusOwed = false
            return .presence(id: makeRequest(.presence, now), status)
        }
        if !wishes.unwatches.isEmpty {
            let users = Array(wishes.unwatches.prefix(options.watchMax))
            wishes.unwatches.removeFirst(users.count)
            return .unwatch(id: makeRequest(.watch, now), users)
        }
        if wishes.watchesSaid < wishes.watched.count {
            let users = Array(wishes.watched[wishes.watchesSaid...].prefix(options.watchMax))
            wishes.watchesSaid += users.count
            return .watch(id: makeRequest(.watch, now), users)
        }
        return nextPublish(now)
    }

    private mutating func nextSubscribe(_ now: Instant) -> ClientRequest? {
        let wanted = subscriptions.wanted(now, limit: options.subscribeMax)
        guard let first = wanted.first else { return nil }
        let id = makeRequest(.subscribe, now)
        for index in wanted { subscriptions.set(.asked(request: id), at: index) }
        let subscription = subscriptions.list[first]
        if wanted.count == 1 { return .subscribe(id: id, subscription.channel, position: subscription.position) }
        return .subscribeAll(
            id: id, wanted.map { .init(channel: subscriptions.list[$0].channel, position: subscriptions.list[$0].position) })
    }

    private mutating func nextPublish(_ now: Instant) -> ClientRequest? {
        guard outbox.count > 0 else { return nil }
        var outbox = outbox
        defer { self.outbox = outbox }
        let list = subscriptions
        return outbox.next(now, position: { channel in list.index(of: channel).flatMap { list.list[$0].position } }) { context in
            makeRequest(.outbox, now, context: context)
        }
    }

    /// Publishes a message on this or a later connection, as often as it takes; the answer comes as `acknowledged` or `refused` of a request
    /// of kind `outbox` with its context. False when too much waits already.
    package mutating func publish(_ message: OutgoingMessage) -> Bool {
        outbox.add(message, countMax: options.outboxMax, bytesMax: options.outboxBytesMax)
    }

    /// Registers a request that the shell encodes and sends at once: its id. nil when there's no open connection or too much in flight.
    package mutating func begin(_ kind: PendingRequest.Kind, context: UInt64 = 0, now: Instant) -> UInt64? {
        guard case .open = state, pending.count < options.requestsMax else { return nil }
        return makeRequest(kind, now, context: context)
    }

    /// Requests that were ever made, answered or not.
    package var requestsMade: UInt64 { lastId }

    private mutating func makeRequest(_ kind: PendingRequest.Kind, _ now: Instant, context: UInt64 = 0) -> UInt64 {
        lastId += 1
        pending.add(PendingRequest(id: lastId, kind: kind, context: context, deadline: now + options.requestDeadline))
        return lastId
    }

    /// A request whose answer didn't come in time; a subscription among them is asked for again.
    package mutating func nextTimedOut(now: Instant) -> PendingRequest? {
        guard let request = pending.takeTimedOut(now) else { return nil }
        if let index = subscriptions.index(asked: request.id) { subscriptions.giveUp(at: index, until: now) }
        for index in subscriptions.indexes(asked: request.id) { subscriptions.giveUp(at: index, until: now) }
        if request.kind == .outbox { outbox.retry(request.id, notBefore: now) }
        return request
    }

    /// A request that was in flight when the connection ended: nobody knows whether it was carried out. What the outbox sends again isn't
    /// lost.
    package mutating func nextLost() -> PendingRequest? {
        switch state {
        case .connecting, .greeting, .open, .leaving: return nil
        case .idle, .waiting, .tokenWanted, .closed:
            while let lost = pending.takeAny() {
                if lost.kind != .outbox { return lost }
            }
            return nil
        }
    }

    /// The hub said welcome.
    mutating func becomeOpen(now: Instant) {
        guard case .greeting = state else { return }
        state = .open(since: now)
        isTokenFresh = false
        wasWelcomed = true
    }
}
