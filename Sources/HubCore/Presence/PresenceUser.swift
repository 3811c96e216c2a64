import HubBase
import HubWire

/// A user whom this node knows: because of connections here, of watchers here, or both.
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
    /// The loops with watchers, a bit each.
    var watchers: UInt64 = 0
    var version: UInt64 = 0
    var lastSeen: UInt64 = 0
    /// The largest version that was ever heard of: the next one of ours is larger.
    var floor: UInt64 = 0
    /// The read that it waits for, 0: none.
    var batch: UInt64 = 0
    var suspectedAt = Instant(nanoseconds: 0)
    /// Slots in use here, closing ones too.
    var connections: Int32 = 0
    var partition: UInt8
    var status = PresenceStatus.offline
    var knowledge = Knowledge.none
    /// Some watcher was told a state: later ones must be told too.
    var isAnswered = false
    /// Its record couldn't be read the last time: it holds something else.
    var isUnreadable = false

    var isWatched: Bool { watchers != 0 }
    var change: PresenceChange { PresenceChange(user: name, status: status, version: version, lastSeen: lastSeen) }
}

/// All users that the node knows, in dense slots that are used again.
struct PresenceUsers {
    private var slots: [PresenceUser?] = []
    private var free: [Int32] = []
    private var places: [Name: Int32] = [:]

    var capacity: Int { slots.count }

    func place(of user: Name) -> Int? { places[user].map(Int.init) }

    subscript(place: Int) -> PresenceUser {
        _read { yield slots[place]! }
        _modify { yield &slots[place]! }
    }

    func isUsed(_ place: Int) -> Bool { slots[place] != nil }

    /// The user's place; a new one when there was none.
    mutating func insert(_ name: Name) -> Int {
        if let place = places[name] { return Int(place) }
        let user = PresenceUser(name: name, partition: UInt8(truncatingIfNeeded: Partition.of(name)))
        let place: Int
        if let reused = free.popLast() {
            place = Int(reused)
            slots[place] = user
        } else {
            place = slots.count
            slots.append(user)
        }
        places[name] = Int32(place)
        return place
    }

    /// Forgets the user if nobody has a reason to keep it.
    mutating func removeIfUnused(_ place: Int) {
        guard let user = slots[place], user.connections == 0, !user.isWatched else { return }
        places[user.name] = nil
        slots[place] = nil
        free.append(Int32(place))
    }
}
