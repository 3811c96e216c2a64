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
    /// Where it stands in the store's list.
    var place: Int
    private(set) var status = PresenceStatus.offline
    private(set) var version: UInt64 = 0
    /// Milliseconds since 1970: the last change; offline: last seen.
    private(set) var changedAt: UInt64 = 0
    private(set) var connections: [Connection] = []
    /// While the last connection is gone and nobody was told yet: when it went, and until when that may be undone.
    var grace: (began: Instant, ends: Instant)?
    /// When an offline user's record goes. Others have no end: in Redis a record's TTL is for the case that no node sweeps, and here that
    /// is the case when there is no store either.
    var ends = Instant.distantFuture
    /// The earliest entry for this user among the partition's deadlines.
    var queuedDue = Instant.distantFuture

    init(name: Name, place: Int) {
        self.name = name
        self.place = place
    }

    var change: PresenceChange { PresenceChange(user: name, status: status, version: version, lastSeen: changedAt) }

    /// What the connections say together: online if any is, else away if any is, else offline. Invisible ones don't count.
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
    var aggregate: PresenceStatus { MemoryUser.aggregate(connections) }

    /// When something next has to be looked at: the first lease to run out, or the end of grace.
    var nextDue: Instant {
        connections.reduce(grace?.ends ?? .distantFuture) { min($0, $1.leaseEnds) }
    }

    func set(_ connection: Connection) {
        if let place = connections.firstIndex(where: { $0.connection == connection.connection }) {
            connections[place] = connection
        } else {
            connections.append(connection)
        }
    }

    /// False when there is no such connection.
    func remove(_ connection: Name) -> Bool {
        guard let place = connections.firstIndex(where: { $0.connection == connection }) else { return false }
        connections.remove(at: place)
        return true
    }

    func renewLease(of connection: Name, until ends: Instant) -> Bool {
        guard let place = connections.firstIndex(where: { $0.connection == connection }) else { return false }
        connections[place].leaseEnds = ends
        return true
    }

    /// Drops the connections whose lease ran out by `now`; the latest end among them, nil when there was none.
    func removeExpired(at now: Instant) -> Instant? {
        var latest: Instant?
        connections.removeAll { connection in
            guard connection.leaseEnds <= now else { return false }
            latest = max(latest ?? connection.leaseEnds, connection.leaseEnds)
            return true
        }
        return latest
    }

    /// A new state under the next version: above the stored one, above what the node knew, and not below the clock.
    func become(_ status: PresenceStatus, at milliseconds: UInt64, microseconds: UInt64, floor: UInt64) {
        self.status = status
        version = max(version &+ 1, microseconds, floor &+ 1)
        changedAt = milliseconds
    }
}
