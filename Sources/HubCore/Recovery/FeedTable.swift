import HubBase
import HubWire

/// The channels that the node carries, and a budget for what they remember together.
///
/// When the budget is short the channel that has been quiet longest forgets, whole: what it remembers helps those who come back soon after.
struct FeedTable {
    private var table = PlaceTable()
    private var feeds: [ChannelFeed] = []
    private var free: [Int] = []
    private let seed = PlaceTable.secret
    /// Ends of the list of feeds that remember something, by their last delivery.
    private var oldest: Int32 = -1
    private var newest: Int32 = -1
    private(set) var bytes = 0
    private var lastId: UInt32 = 0
    private let limit: Int
    /// Deliveries that one channel keeps, and keeps while a recovery reads.
    private let kept: Int
    private let keptPinned: Int

    init(bytes limit: Int, kept: Int, keptPinned: Int) {
        self.limit = limit
        self.kept = kept
        self.keptPinned = keptPinned
    }

    var count: Int { table.count }
    /// Cost: a look at every place.
    var all: [Int] { feeds.indices.filter { feeds[$0].id != 0 } }

    /// `mutating`, though nothing is changed: its owner is an object, and would ask a copy otherwise.
    mutating func slot(of channel: Name) -> Int? {
        table.find(PlaceTable.hash(channel, seed: seed)) { feeds[$0].channel == channel }
    }

    subscript(slot: Int) -> ChannelFeed {
        _read { yield feeds[slot] }
        _modify { yield &feeds[slot] }
    }

    mutating func insert(_ channel: Name) -> Int {
        if let slot = slot(of: channel) { return slot }
        let slot = free.popLast() ?? feeds.count
        if slot == feeds.count { feeds.append(ChannelFeed()) }
        lastId = lastId == .max ? 1 : lastId + 1
        feeds[slot].id = lastId
        feeds[slot].channel = channel
        let (feeds, seed) = (feeds, seed)
        table.insert(slot, PlaceTable.hash(channel, seed: seed)) { PlaceTable.hash(feeds[$0].channel, seed: seed) }
        return slot
    }

    mutating func remove(_ slot: Int) {
        forget(slot)
        takeOut(slot)
        feeds[slot] = ChannelFeed()
        free.append(slot)
    }

    private mutating func takeOut(_ slot: Int) {
        let (feeds, seed) = (feeds, seed)
        table.remove(slot, PlaceTable.hash(feeds[slot].channel, seed: seed)) { PlaceTable.hash(feeds[$0].channel, seed: seed) }
    }

    /// A delivery that was handed to the loops. Cost: no allocation once the channel's memory is full.
    mutating func keep(_ delivery: DurableDelivery, at slot: Int, until: Instant) {
        guard limit > 0, feeds[slot].retention > .zero else {
            feeds[slot].tip = delivery.publication.position
            return
        }
        bytes += feeds[slot].keep(delivery, limit: feeds[slot].pins > 0 ? keptPinned : kept, until: until)
        if newest != Int32(truncatingIfNeeded: slot) {
            unlink(slot)
            link(slot)
        }
        while bytes > limit, oldest >= 0 {
            let quiet = Int(oldest)
            if quiet == slot {
                // Alone: it keeps what fits.
                let before = feeds[slot].recentBytes
                feeds[slot].dropOldest()
                bytes -= before - feeds[slot].recentBytes
                if feeds[slot].recentCount == 0 { forget(slot) }
            } else {
                forget(quiet)
            }
        }
    }

    mutating func forget(_ slot: Int) {
        bytes -= feeds[slot].recentBytes
        feeds[slot].forget()
        unlink(slot)
    }

    // MARK: The list

    private mutating func link(_ slot: Int) {
        let place = Int32(truncatingIfNeeded: slot)
        feeds[slot].older = newest
        feeds[slot].newer = -1
        if newest >= 0 { feeds[Int(newest)].newer = place } else { oldest = place }
        newest = place
    }

    private mutating func unlink(_ slot: Int) {
        let place = Int32(truncatingIfNeeded: slot)
        let (older, newer) = (feeds[slot].older, feeds[slot].newer)
        guard older >= 0 || newer >= 0 || oldest == place else { return }
        if older >= 0 { feeds[Int(older)].newer = newer } else { oldest = newer }
        if newer >= 0 { feeds[Int(newer)].older = older } else { newest = older }
        feeds[slot].older = -1
        feeds[slot].newer = -1
    }
}
