import HubBase
import HubWire

/// One connection of this node as the presence machine keeps it: what it should be in the store, and what the store is known to hold.
///
/// There are as many of these as connections, so it stays within 64 bytes (tested); names are shared with whoever passed them.
struct PresenceConnection {
    enum Phase: UInt8 {
        case open
        /// Left cleanly: no grace.
        case leaving
        /// Closed otherwise: grace.
        case lost
    }

    /// What the store holds of it, as far as we know.
    enum Stored: Equatable {
        case never
        /// An operation went out and wasn't answered, or was refused.
        case unknown
        case holds(ConnectionState)
    }

    /// The operation under way.
    enum Errand: Equatable {
        case none
        /// Waits for its partition's next call.
        case queued
        case up(ConnectionState)
        case down
    }

    /// Whether its lease still stands.
    enum Proof: UInt8 {
        case fine
        /// The store reported it missing, the peer was asked to show itself.
        case missing
        /// The peer did.
        case given
    }

    var connection: Name
    var device: Name
    /// Milliseconds since 1970.
    var since: UInt64
    var lastActivity: Instant
    var user: Int32
    /// Where it stands among its partition's leases; below 0: not there.
    var leasePlace: Int32 = -1
    /// Tells a reused slot from the one that was meant.
    var generation: UInt32
    var phase = Phase.open
    var asked = Payload.Status.online
    /// Away by itself.
    var isIdle = false
    var stored = Stored.never
    var errand = Errand.none
    var proof = Proof.fine
    /// An operation went out less than `PresenceMachine.pace` ago.
    var isCooling = false
    /// A call that it was in was refused for one of its users: it's tried on its own, so that it doesn't keep others out.
    var isAlone = false

    /// What the store should hold while it is open.
    var state: ConnectionState {
        switch asked {
        case .invisible: .invisible
        case .away: .away
        case .online: isIdle ? .away : .online
        }
    }

    var needsOperation: Bool { phase != .open || stored != .holds(state) || proof == .given }
}

/// All connections of the node, in dense slots that are used again.
struct PresenceConnections {
    private(set) var slots: [PresenceConnection?] = []
    private var free: [Int32] = []
    private var places: [Name: Int32] = [:]
    private var lastGeneration: UInt32 = 0

    /// Slots ever used: for walks.
    var capacity: Int { slots.count }

    func place(of connection: Name) -> Int? { places[connection].map(Int.init) }

    subscript(place: Int) -> PresenceConnection {
        _read { yield slots[place]! }
        _modify { yield &slots[place]! }
    }

    func isUsed(_ place: Int) -> Bool { slots[place] != nil }
    func isUsed(_ place: Int, generation: UInt32) -> Bool { slots[place].map { $0.generation == generation } ?? false }

    mutating func insert(connection: Name, device: Name, since: UInt64, user: Int, at now: Instant) -> Int {
        lastGeneration &+= 1
        let entry = PresenceConnection(
            connection: connection, device: device, since: since, lastActivity: now, user: Int32(user), generation: lastGeneration)
        let place: Int
        if let reused = free.popLast() {
            place = Int(reused)
            slots[place] = entry
        } else {
            place = slots.count
            slots.append(entry)
        }
        places[connection] = Int32(place)
        return place
    }

    mutating func remove(_ place: Int) {
        places[slots[place]!.connection] = nil
        slots[place] = nil
        free.append(Int32(place))
    }
}
