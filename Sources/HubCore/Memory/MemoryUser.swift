import HubBase
import HubWire

/// One user's record in the embedded store: state, version, and the connections whose leases make the state (redis-design §2, Keys).
///
/// Nearly every user has one connection, of this node, and a trail that says only that it came: then all of it is 120 bytes. The connection is
/// its number, its device's name is empty where it's the one that its id makes, and the trail is one byte, what brought it, as all else of that
/// transition is what the record says. Anything more stands in an object of its own (`More`).
final class MemoryUser {
    struct Connection {
        var connection: Name
        var node: Name
        var device: Name
        var state: ConnectionState
        var since: UInt64
        /// When the lease runs out.
        var leaseEnds: Instant
    }

    /// The node whose connections are numbers: the store's, one for all its users.
    final class Own {
        let incarnation: Name
        /// What its operations call it: the first one says so.
        private var name = Name.empty

        init(incarnation: Name) { self.incarnation = incarnation }

        fileprivate func isCalled(_ node: Name) -> Bool {
            if name.isEmpty { name = node }
            return name == node
        }

        fileprivate var node: Name { name }
    }

    let name: Name
    private let own: Own
    // The first connection, if it's one of `own`; `state` is nil where there's none.
    private var number: UInt64 = 0
    private var device = Name.empty
    private var since: UInt64 = 0
    /// Of its lease; where there's none, what `ends` says.
    private var end = Instant.distantFuture
    private(set) var version: UInt64 = 0
    /// Milliseconds since 1970: the last change; offline: last seen.
    private(set) var changedAt: UInt64 = 0
    private var more: More?
    var trailEnds = Instant.distantFuture
    /// The earliest entry for this user among the partition's deadlines.
    var queuedDue = Instant.distantFuture
    private var listPlace: Int32
    private(set) var status = PresenceStatus.offline
    private var state: ConnectionState?
    /// The trail is one transition, the first connection's, to what the record says, made by this.
    private var cause: PresenceCause?

    /// Somebody who counts was here once: before that there is nothing to tell of the user, whoever is invisible.
    var wasSeen: Bool { version > 0 }

    /// What few have.
    private final class More {
        var others: [Connection] = []
        var awaited: [Awaited] = []
        var goodbye: Instant?
        var close: (transition: PresenceTransition, at: Instant)?
        var trail: [PresenceTransition] = []

        init() {}

        init(copying other: More) {
            others = other.others
            awaited = other.awaited
            goodbye = other.goodbye
            close = other.close
            trail = other.trail
        }

        var isNothing: Bool { others.isEmpty && awaited.isEmpty && goodbye == nil && close == nil && trail.isEmpty }
    }

    /// A connection that counted and ended without a goodbye, or with one that was told late: it goes on counting until its end.
    struct Awaited {
        var connection: Connection
        var ends: Instant
        /// Of its end: `lost` or `left`.
        var cause: PresenceCause
    }

    init(name: Name, own: Own, place: Int) {
        self.name = name
        self.own = own
        listPlace = Int32(truncatingIfNeeded: place)
    }

    /// For tests: with nothing queued.
    init(copying other: MemoryUser, place: Int) {
        name = other.name
        own = other.own
        (number, device, since, end, state) = (other.number, other.device, other.since, other.end, other.state)
        status = other.status
        version = other.version
        changedAt = other.changedAt
        more = other.more.map { More(copying: $0) }
        cause = other.cause
        trailEnds = other.trailEnds
        listPlace = Int32(truncatingIfNeeded: place)
    }

    private func add<Result>(_ body: (More) -> Result) -> Result {
        let more = more ?? More()
        self.more = more
        defer { if more.isNothing { self.more = nil } }
        return body(more)
    }

    /// Where it stands in the store's list.
    var place: Int {
        get { Int(listPlace) }
        set { listPlace = Int32(truncatingIfNeeded: newValue) }
    }

    var change: PresenceChange { PresenceChange(user: name, status: status, version: version, lastSeen: changedAt) }

    /// When an offline user's record goes. Others have no end: in Redis a record's TTL is for the case that no node sweeps, and here that
    /// is the case when there is no store either.
    var ends: Instant {
        get { state == nil ? end : .distantFuture }
        set { if state == nil { end = newValue } }
    }

    // MARK: Leaving

    /// Of one user, so many that are awaited are told apart.
    static let awaitedMax = 4

    var awaited: [Awaited] { more?.awaited ?? [] }

    /// From when on a sweep may tell of the last one's end, where others may still have to register again; until then nobody is declared offline.
    var goodbye: Instant? {
        get { more?.goodbye }
        set { if more != nil || newValue != nil { add { $0.goodbye = newValue } } }
    }

    /// The last end of a connection that counted, until the user is offline or somebody comes, whose own end is later.
    var close: (transition: PresenceTransition, at: Instant)? {
        get { more?.close }
        set { if more != nil || newValue != nil { add { $0.close = newValue } } }
    }

    func stay() {
        guard more != nil else { return }
        add {
            $0.awaited = []
            $0.goodbye = nil
        }
    }

    /// Beyond what is told apart, one goes that makes no difference to the state any more: the first of its own kind, which this one outlasts,
    /// or else the first of all, which others outlast.
    func wait(for connection: Connection, until ends: Instant, cause: PresenceCause) {
        if awaited.count >= MemoryUser.awaitedMax {
            _ = removeEarliest { $0.state == connection.state } || removeEarliest { _ in true }
        }
        add { $0.awaited.append(Awaited(connection: connection, ends: ends, cause: cause)) }
    }

    /// One that comes ends the waiting for one: of its device, and of a state that it has itself.
    func comeBack(_ device: Name, as state: ConnectionState) {
        func remove(_ wanted: ConnectionState) -> Bool {
            removeEarliest { other in
                other.state == wanted && (other.device == device || DeviceName.isStandard(other.device) && DeviceName.isStandard(device))
            }
        }
        _ = state == .online && remove(.online) || remove(.away)
    }

    private func removeEarliest(where matches: (Connection) -> Bool) -> Bool {
        let places = awaited.indices.filter { matches(awaited[$0].connection) }
        guard let place = places.min(by: { awaited[$0].ends < awaited[$1].ends }) else { return false }
        add { _ = $0.awaited.remove(at: place) }
        return true
    }

    /// Takes out those whose time is over by `now`; the last one, nil when there was none.
    func removeAwaited(at now: Instant) -> Awaited? {
        let over = awaited.filter { $0.ends <= now }
        guard !over.isEmpty else { return nil }
        add { $0.awaited.removeAll { $0.ends <= now } }
        return over.max { $0.ends < $1.ends }
    }

    // MARK: Connections

    private var others: [Connection] { more?.others ?? [] }

    private var first: Connection? {
        guard let state else { return nil }
        let connection = ConnectionKey.connection(number, node: own.incarnation)
        return Connection(
            connection: connection, node: own.node, device: device.isEmpty ? DeviceName.standard(of: connection) : device, state: state,
            since: since, leaseEnds: end)
    }

    /// Cost: allocations.
    var connections: [Connection] { (first.map { [$0] } ?? []) + others }
    var hasConnections: Bool { state != nil || more?.others.isEmpty == false }

    /// The first connection's number, if it's that one.
    private func isFirst(_ connection: Name) -> Bool {
        state != nil && ConnectionKey.number(of: connection, node: own.incarnation) == number
    }

    func state(of connection: Name) -> ConnectionState? {
        isFirst(connection) ? state : others.first { $0.connection == connection }?.state
    }

    func since(of connection: Name) -> UInt64? {
        isFirst(connection) ? since : others.first { $0.connection == connection }?.since
    }

    func set(_ connection: Connection) {
        if isFirst(connection.connection) {
            put(connection, number)
        } else if let place = others.firstIndex(where: { $0.connection == connection.connection }) {
            add { $0.others[place] = connection }
        } else if !hasConnections, let number = ownNumber(of: connection) {
            put(connection, number)
        } else {
            add { $0.others.append(connection) }
        }
    }

    /// nil where it can't be the first: then it's kept whole.
    private func ownNumber(of connection: Connection) -> UInt64? {
        guard !connection.device.isEmpty, let number = ConnectionKey.number(of: connection.connection, node: own.incarnation) else {
            return nil
        }
        return own.isCalled(connection.node) ? number : nil
    }

    private func put(_ connection: Connection, _ number: UInt64) {
        let device = connection.device == DeviceName.standard(of: connection.connection) ? Name.empty : connection.device
        if device != self.device || number != self.number { writeTrailDown() }
        self.number = number
        self.device = device
        since = connection.since
        end = connection.leaseEnds
        state = connection.state
    }

    private func removeFirst() {
        writeTrailDown()
        state = nil
        device = .empty
        end = .distantFuture
        guard let next = others.first, let number = ownNumber(of: next) else { return }
        add { _ = $0.others.removeFirst() }
        put(next, number)
    }

    /// nil when there is no such connection.
    func remove(_ connection: Name) -> Connection? {
        if isFirst(connection) {
            let gone = first
            removeFirst()
            return gone
        }
        guard let place = others.firstIndex(where: { $0.connection == connection }) else { return nil }
        return add { $0.others.remove(at: place) }
    }

    func renewLease(of connection: Name, until ends: Instant) -> Bool {
        if isFirst(connection) {
            end = ends
            return true
        }
        guard let place = others.firstIndex(where: { $0.connection == connection }) else { return false }
        add { $0.others[place].leaseEnds = ends }
        return true
    }

    /// Drops the connections whose lease ran out by `now`; the one that counted and whose lease ran out last, nil when there was none.
    func removeExpired(at now: Instant) -> Connection? {
        var over = others.filter { $0.leaseEnds <= now }
        if !over.isEmpty { add { $0.others.removeAll { $0.leaseEnds <= now } } }
        if state != nil, end <= now, let first {
            over.insert(first, at: 0)
            removeFirst()
        }
        return over.filter { $0.state != .invisible }.max { $0.leaseEnds < $1.leaseEnds }
    }

    /// For tests: no deadline is later than that, and none of one that is awaited later than `awaitedEnd`.
    func bringNear(_ end: Instant, awaited awaitedEnd: Instant) {
        if state != nil { self.end = min(self.end, end) }
        for place in others.indices { add { $0.others[place].leaseEnds = min($0.others[place].leaseEnds, end) } }
        queuedDue = .distantFuture
        guard more != nil else { return }
        add {
            $0.goodbye = $0.goodbye.map { min($0, end) }
            for place in $0.awaited.indices { $0.awaited[place].ends = min($0.awaited[place].ends, awaitedEnd) }
        }
    }

    // MARK: The state

    /// What connections say together: online if any is, else away if any is, else offline. Invisible ones don't count.
    static func aggregate(_ connections: some Sequence<Connection>) -> PresenceStatus { aggregate(states: connections.lazy.map(\.state)) }

    private static func aggregate(states: some Sequence<ConnectionState>) -> PresenceStatus {
        var status = PresenceStatus.offline
        for state in states {
            switch state {
            case .online: return .online
            case .away: status = .away
            case .invisible: break
            }
        }
        return status
    }
    /// What others are shown: one that is awaited counts like one that is there; while nobody is there and somebody is awaited, it's what they
    /// were told.
    var aggregate: PresenceStatus {
        let real = real
        if awaited.isEmpty || real == .online { return real }
        if real == .offline { return status }
        return awaited.contains { $0.connection.state == .online } ? .online : real
    }
    /// Without those that are awaited: offline exactly where nobody that counts is there.
    var real: PresenceStatus {
        let one = state.map { MemoryUser.aggregate(states: CollectionOfOne($0)) } ?? .offline
        let rest = MemoryUser.aggregate(others)
        return one == .online || rest == .offline ? one : rest
    }

    /// When something next has to be looked at: the first lease to run out, the end of a grace, a goodbye that waits.
    var nextDue: Instant {
        let lease = state == nil ? Instant.distantFuture : end
        guard let more else { return lease }
        let due = more.others.reduce(min(more.goodbye ?? .distantFuture, lease)) { min($0, $1.leaseEnds) }
        return more.awaited.reduce(due) { min($0, $1.ends) }
    }

    /// A new state under `version`.
    func become(_ status: PresenceStatus, at milliseconds: UInt64, version: UInt64) {
        writeTrailDown()
        self.status = status
        if status == .offline { close = nil }
        self.version = version
        changedAt = milliseconds
    }

    // MARK: The trail

    /// Oldest first; a few more than are shown. Cost: allocations.
    var trail: [PresenceTransition] { cause.flatMap { transition($0) }.map { [$0] } ?? more?.trail ?? [] }

    /// That the record became what it is, by its first connection.
    private func transition(_ cause: PresenceCause) -> PresenceTransition? {
        first.map {
            PresenceTransition(
                status: status, cause: cause, version: version, time: changedAt, sweeper: .empty, connection: $0.connection, node: $0.node,
                device: $0.device)
        }
    }

    /// Before anything changes that the one transition is made of.
    private func writeTrailDown() {
        guard let cause, let only = transition(cause) else { return }
        self.cause = nil
        add { $0.trail = [only] }
    }

    func note(_ transition: PresenceTransition, until ends: Instant) {
        trailEnds = ends
        if cause == nil, more?.trail.isEmpty ?? true, transition == self.transition(transition.cause) {
            cause = transition.cause
            return
        }
        writeTrailDown()
        add {
            if $0.trail.count >= PresenceTransition.kept + 10 { $0.trail.removeFirst(11) }
            $0.trail.append(transition)
        }
    }

    func forgetTrail() {
        cause = nil
        if more != nil { add { $0.trail = [] } }
        trailEnds = .distantFuture
    }
}
