import HubBase
import HubWire

/// One connection of this node as the presence machine keeps it: what it should be in the store, and what the store is known to hold.
///
/// There are as many of these as connections, so it stays within 56 bytes (tested); its id is put together when it's needed
/// (`PresenceConnections.name`), its device's name is shared with whoever passed it, and empty where the client named none.
struct PresenceConnection {
    enum Phase: UInt8 {
        case open
        /// Left cleanly: no grace.
        case leaving
        /// The same, which the store couldn't be told at once: the user may be back elsewhere by now, so there's grace.
        case left
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
        /// Where it has ended meanwhile, it stands in line for the next one already.
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

    /// Of its id (`ConnectionKey`).
    fileprivate(set) var number: UInt64
    var device: Name
    var cameAt: Instant
    /// Once it's closed: when that was.
    var lastActivity: Instant
    var user: Int32
    /// Where it stands among its partition's leases; below 0: not there, and `hadLease` once it's closed, if the store had acknowledged it.
    var leasePlace: Int32 = -1
    static let hadLease: Int32 = -2
    /// Tells a reused slot from the one that was meant.
    var generation: UInt32
    /// When the store acknowledged its state, in seconds, rounded up; 0: never, or it's no longer of interest.
    fileprivate var acknowledgedSecond: UInt32 = 0
    var phase = Phase.open
    var asked = Payload.Status.online
    /// Away by itself.
    var isIdle = false
    var stored = Stored.never
    var errand = Errand.none
    var proof = Proof.fine
    /// A change went out less than `PresenceMachine.pace` ago, or anything was refused.
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

    var acknowledgedAt: Instant? {
        get { acknowledgedSecond == 0 ? nil : Instant(nanoseconds: UInt64(acknowledgedSecond) * 1_000_000_000) }
        set { acknowledgedSecond = newValue.map { UInt32(clamping: $0.nanoseconds / 1_000_000_000 + 1) } ?? 0 }
    }

    var needsOperation: Bool { phase != .open || stored != .holds(state) || proof == .given }
    /// Its next operation only writes again what the store held.
    var restores: Bool { phase == .open && proof == .given && stored == .holds(state) }
    /// The operation under way is such a one.
    var isRestoring: Bool {
        guard case .up(let state) = errand else { return false }
        return proof == .given && stored == .holds(state)
    }
}

/// All connections of the node, in dense slots that are used again.
struct PresenceConnections {
    private var slots: [PresenceConnection?] = []
    private var free: [Int32] = []
    private var table = PlaceTable()
    /// Those whose ids aren't this node's: there are none but in tests.
    private var strangers: [Name: Int32] = [:]
    private var strangerNames: [Int32: Name] = [:]
    private var lastGeneration: UInt32 = 0
    private let seed = PlaceTable.secret
    private let node: Name

    init(node: Name) { self.node = node }

    /// Slots ever used: for walks.
    var capacity: Int { slots.count }

    func place(of connection: Name) -> Int? {
        guard let number = ConnectionKey.number(of: connection, node: node) else { return strangers[connection].map(Int.init) }
        return table.find(PlaceTable.hash(number, seed: seed)) { slots[$0]?.number == number }
    }

    subscript(place: Int) -> PresenceConnection {
        _read { yield slots[place]! }
        _modify { yield &slots[place]! }
    }

    func isUsed(_ place: Int) -> Bool { slots[place] != nil }
    /// Connections that have ended, and whose end isn't acknowledged yet. Cost: a look at each slot.
    var hasEnding: Bool { slots.contains { $0.map { $0.phase != .open } ?? false } }
    func isUsed(_ place: Int, generation: UInt32) -> Bool { slots[place].map { $0.generation == generation } ?? false }

    /// Its id. Cost: an allocation.
    func name(_ place: Int) -> Name {
        strangerNames[Int32(place)] ?? ConnectionKey.connection(self[place].number, node: node)
    }

    mutating func insert(connection: Name, device: Name, user: Int, at now: Instant) -> Int {
        lastGeneration &+= 1
        let number = ConnectionKey.number(of: connection, node: node)
        let entry = PresenceConnection(
            number: number ?? 0, device: device, cameAt: now, lastActivity: now, user: Int32(user), generation: lastGeneration)
        let place: Int
        if let reused = free.popLast() {
            place = Int(reused)
            slots[place] = entry
        } else {
            place = slots.count
            slots.append(entry)
        }
        if let number {
            let (slots, seed) = (slots, seed)
            table.insert(place, PlaceTable.hash(number, seed: seed)) { PlaceTable.hash(slots[$0]?.number ?? 0, seed: seed) }
        } else {
            strangers[connection] = Int32(place)
            strangerNames[Int32(place)] = connection
        }
        return place
    }

    mutating func remove(_ place: Int) {
        if let stranger = strangerNames.removeValue(forKey: Int32(place)) {
            strangers[stranger] = nil
        } else {
            takeOut(place)
        }
        slots[place] = nil
        free.append(Int32(place))
    }

    private mutating func takeOut(_ place: Int) {
        let (slots, seed) = (slots, seed)
        table.remove(place, PlaceTable.hash(slots[place]?.number ?? 0, seed: seed)) { PlaceTable.hash(slots[$0]?.number ?? 0, seed: seed) }
    }
}
