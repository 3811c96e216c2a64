import HubBase
import HubWire

/// One user's record in the embedded store: state, version, and the connections whose leases make the state (redis-design §2, Keys).
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

    let name: Name
    private var listPlace: Int32
    private(set) var status = PresenceStatus.offline
    private(set) var version: UInt64 = 0
    /// Somebody who counts was here once: before that there is nothing to tell of the user, whoever is invisible.
    var wasSeen: Bool { version > 0 }
    /// Milliseconds since 1970: the last change; offline: last seen.
    private(set) var changedAt: UInt64 = 0
    /// Most users have one; it needs no memory of its own.
    private var first: Connection?
    private var others: [Connection] = []
    private var leaving: Leaving?
    /// Oldest first; a few more than are shown.
    private(set) var trail: [PresenceTransition] = []
    var trailEnds = Instant.distantFuture
    /// When an offline user's record goes. Others have no end: in Redis a record's TTL is for the case that no node sweeps, and here that
    /// is the case when there is no store either.
    var ends = Instant.distantFuture
    /// The earliest entry for this user among the partition's deadlines.
    var queuedDue = Instant.distantFuture

    init(name: Name, place: Int) {
        self.name = name
        listPlace = Int32(truncatingIfNeeded: place)
    }

    /// For tests: with nothing queued.
    init(copying other: MemoryUser, place: Int) {
        name = other.name
        listPlace = Int32(truncatingIfNeeded: place)
        status = other.status
        version = other.version
        changedAt = other.changedAt
        first = other.first
        others = other.others
        trail = other.trail
        trailEnds = other.trailEnds
        ends = other.ends
        if let left = other.leaving {
            leave {
                $0.awaited = left.awaited
                $0.goodbye = left.goodbye
                $0.close = left.close
            }
        }
    }

    private final class Leaving {
        var awaited: [Awaited] = []
        var goodbye: Instant?
        var close: (transition: PresenceTransition, at: Instant)?
    }

    /// A connection that counted and ended without a goodbye: it goes on counting until its end.
    struct Awaited {
        var connection: Connection
        var ends: Instant
    }

    /// Of one user, so many that are awaited are told apart.
    static let awaitedMax = 4

    private func leave(_ body: (Leaving) -> Void) {
        let leaving = leaving ?? Leaving()
        body(leaving)
        self.leaving = leaving
        if leaving.awaited.isEmpty && leaving.goodbye == nil { self.leaving = nil }
    }

    var awaited: [Awaited] { leaving?.awaited ?? [] }

    /// Since when the last one's goodbye waits for the next sweep, where others may still have to register again.
    var goodbye: Instant? {
        get { leaving?.goodbye }
        set { if leaving != nil || newValue != nil { leave { $0.goodbye = newValue } } }
    }

    /// The last end, while one is awaited or a goodbye waits; it's gone with them.
    var close: (transition: PresenceTransition, at: Instant)? {
        get { leaving?.close }
        set { if leaving != nil || newValue != nil { leave { $0.close = newValue } } }
    }

    func stay() { leaving = nil }

    /// Beyond what is told apart, one goes that makes no difference to the state any more: the first of its own kind, which this one outlasts,
    /// or else the first of all, which others outlast.
    func wait(for connection: Connection, until ends: Instant) {
        if awaited.count >= MemoryUser.awaitedMax {
            _ = removeEarliest { $0.state == connection.state } || removeEarliest { _ in true }
        }
        leave { $0.awaited.append(Awaited(connection: connection, ends: ends)) }
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
        leave { $0.awaited.remove(at: place) }
        return true
    }

    /// Takes out those whose time is over by `now`; the last one, nil when there was none.
    func removeAwaited(at now: Instant) -> Awaited? {
        let over = awaited.filter { $0.ends <= now }
        guard !over.isEmpty else { return nil }
        leave { $0.awaited.removeAll { $0.ends <= now } }
        return over.max { $0.ends < $1.ends }
    }

    /// Where it stands in the store's list.
    var place: Int {
        get { Int(listPlace) }
        set { listPlace = Int32(truncatingIfNeeded: newValue) }
    }

    /// Cost: an allocation.
    var connections: [Connection] { (first.map { [$0] } ?? []) + others }
    var hasConnections: Bool { first != nil }

    /// For tests: no deadline is later than that.
    func bringNear(_ end: Instant) {
        if let first { self.first?.leaseEnds = min(first.leaseEnds, end) }
        for place in others.indices { others[place].leaseEnds = min(others[place].leaseEnds, end) }
        queuedDue = .distantFuture
        guard leaving != nil else { return }
        leave {
            $0.goodbye = $0.goodbye.map { min($0, end) }
            for place in $0.awaited.indices { $0.awaited[place].ends = min($0.awaited[place].ends, end) }
        }
    }

    var change: PresenceChange { PresenceChange(user: name, status: status, version: version, lastSeen: changedAt) }

    /// What connections say together: online if any is, else away if any is, else offline. Invisible ones don't count.
    static func aggregate(_ connections: some Sequence<Connection>) -> PresenceStatus {
        var status = PresenceStatus.offline
        for connection in connections {
            switch connection.state {
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
        let one = first.map { MemoryUser.aggregate(CollectionOfOne($0)) } ?? .offline
        let more = MemoryUser.aggregate(others)
        return one == .online || more == .offline ? one : more
    }

    /// When something next has to be looked at: the first lease to run out, the end of a grace, a goodbye that waits.
    var nextDue: Instant {
        let due = others.reduce(min(goodbye ?? .distantFuture, first?.leaseEnds ?? .distantFuture)) { min($0, $1.leaseEnds) }
        return awaited.reduce(due) { min($0, $1.ends) }
    }

    func set(_ connection: Connection) {
        if first == nil || first?.connection == connection.connection {
            first = connection
        } else if let place = others.firstIndex(where: { $0.connection == connection.connection }) {
            others[place] = connection
        } else {
            others.append(connection)
        }
    }

    func state(of connection: Name) -> ConnectionState? {
        if let first, first.connection == connection { return first.state }
        return others.first { $0.connection == connection }?.state
    }

    /// nil when there is no such connection.
    func remove(_ connection: Name) -> Connection? {
        if let gone = first, gone.connection == connection {
            first = others.isEmpty ? nil : others.removeFirst()
            return gone
        }
        guard let place = others.firstIndex(where: { $0.connection == connection }) else { return nil }
        return others.remove(at: place)
    }

    func renewLease(of connection: Name, until ends: Instant) -> Bool {
        if first?.connection == connection {
            first?.leaseEnds = ends
            return true
        }
        guard let place = others.firstIndex(where: { $0.connection == connection }) else { return false }
        others[place].leaseEnds = ends
        return true
    }

    /// Drops the connections whose lease ran out by `now`; the one that counted and whose lease ran out last, nil when there was none.
    func removeExpired(at now: Instant) -> Connection? {
        let all = connections
        guard all.contains(where: { $0.leaseEnds <= now }) else { return nil }
        let left = all.filter { $0.leaseEnds > now }
        first = left.first
        others = Array(left.dropFirst())
        return all.filter { $0.leaseEnds <= now && $0.state != .invisible }.max { $0.leaseEnds < $1.leaseEnds }
    }

    func note(_ transition: PresenceTransition, until ends: Instant) {
        if trail.count >= PresenceTransition.kept + 10 { trail.removeFirst(11) }
        trail.append(transition)
        trailEnds = ends
    }

    func forgetTrail() {
        trail = []
        trailEnds = .distantFuture
    }

    /// A new state under `version`.
    func become(_ status: PresenceStatus, at milliseconds: UInt64, version: UInt64) {
        self.status = status
        self.version = version
        changedAt = milliseconds
    }
}
