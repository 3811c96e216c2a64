import HubBase
import HubWire

/// A user whom this node knows: because of connections here, of watchers here, or both. 32 bytes as long as nobody here has watched it.
struct PresenceUser {
    /// What is known of the state below, while somebody watches.
    enum Knowledge: UInt8 {
        /// Must be read before it can be told.
        case none
        /// Current: every later change comes over the feed.
        case current
        /// The record is missing where one should be; it is asked for again when a hold has passed.
        case suspect
        /// That time has come.
        case suspectDue
    }

    var name: Name
    /// The largest version that was ever heard of: the next one of ours is larger.
    var floor: UInt64 = 0
    private var watch: Watch?
    /// Slots in use here, closing ones too.
    var connections: Int32 = 0
    var partition: UInt8

    init(name: Name, partition: UInt8) {
        self.name = name
        self.partition = partition
    }

    /// What only those have whom somebody here has watched.
    private final class Watch {
        var watchers: UInt64 = 0
        var version: UInt64 = 0
        var lastSeen: UInt64 = 0
        var batch: UInt64 = 0
        var suspectedAt = Instant(nanoseconds: 0)
        var status = PresenceStatus.offline
        var knowledge = Knowledge.none
        var isAnswered = false
        var isUnreadable = false
    }

    private mutating func beWatched() -> Watch {
        let watch = watch ?? Watch()
        self.watch = watch
        return watch
    }

    /// The loops with watchers, a bit each.
    var watchers: UInt64 {
        get { watch?.watchers ?? 0 }
        set { if watch != nil || newValue != 0 { beWatched().watchers = newValue } }
    }

    var version: UInt64 {
        get { watch?.version ?? 0 }
        set { if watch != nil || newValue != 0 { beWatched().version = newValue } }
    }

    var lastSeen: UInt64 {
        get { watch?.lastSeen ?? 0 }
        set { if watch != nil || newValue != 0 { beWatched().lastSeen = newValue } }
    }

    /// The read that it waits for, 0: none.
    var batch: UInt64 {
        get { watch?.batch ?? 0 }
        set { if watch != nil || newValue != 0 { beWatched().batch = newValue } }
    }

    var suspectedAt: Instant {
        get { watch?.suspectedAt ?? Instant(nanoseconds: 0) }
        set { if watch != nil || newValue != Instant(nanoseconds: 0) { beWatched().suspectedAt = newValue } }
    }

    var status: PresenceStatus {
        get { watch?.status ?? .offline }
        set { if watch != nil || newValue != .offline { beWatched().status = newValue } }
    }

    var knowledge: Knowledge {
        get { watch?.knowledge ?? Knowledge.none }
        set { if watch != nil || newValue != Knowledge.none { beWatched().knowledge = newValue } }
    }

    /// Some watcher was told a state: later ones must be told too.
    var isAnswered: Bool {
        get { watch?.isAnswered ?? false }
        set { if watch != nil || newValue != false { beWatched().isAnswered = newValue } }
    }

    /// Its record couldn't be read the last time: it holds something else.
    var isUnreadable: Bool {
        get { watch?.isUnreadable ?? false }
        set { if watch != nil || newValue != false { beWatched().isUnreadable = newValue } }
    }

    var isWatched: Bool { watchers != 0 }
    var change: PresenceChange { PresenceChange(user: name, status: status, version: version, lastSeen: lastSeen) }
}

/// All users that the node knows, in dense slots that are used again.
struct PresenceUsers {
    private var slots: [PresenceUser?] = []
    private var free: [Int32] = []
    private var table = PlaceTable()
    private let seed = PlaceTable.secret

    var capacity: Int { slots.count }

    func place(of user: Name) -> Int? { table.find(PlaceTable.hash(user, seed: seed)) { slots[$0]?.name == user } }

    subscript(place: Int) -> PresenceUser {
        _read { yield slots[place]! }
        _modify { yield &slots[place]! }
    }

    func isUsed(_ place: Int) -> Bool { slots[place] != nil }

    /// The user's place; a new one when there was none.
    mutating func insert(_ name: Name) -> Int {
        if let place = place(of: name) { return place }
        let user = PresenceUser(name: name, partition: UInt8(truncatingIfNeeded: Partition.of(name)))
        let place: Int
        if let reused = free.popLast() {
            place = Int(reused)
            slots[place] = user
        } else {
            place = slots.count
            slots.append(user)
        }
        let (slots, seed) = (slots, seed)
        table.insert(place, PlaceTable.hash(name, seed: seed)) { PlaceTable.hash(slots[$0]?.name ?? .empty, seed: seed) }
        return place
    }

    /// Forgets the user if nobody has a reason to keep it.
    mutating func removeIfUnused(_ place: Int) {
        guard let user = slots[place], user.connections == 0, !user.isWatched else { return }
        takeOut(place, user.name)
        slots[place] = nil
        free.append(Int32(place))
    }

    private mutating func takeOut(_ place: Int, _ name: Name) {
        let (slots, seed) = (slots, seed)
        table.remove(place, PlaceTable.hash(name, seed: seed)) { PlaceTable.hash(slots[$0]?.name ?? .empty, seed: seed) }
    }
}
