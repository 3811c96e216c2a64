import HubBase
import HubWire

/// What the node knows of one channel that it carries: who wants it, where it stands, and what passed last.
///
/// A value in `FeedTable`'s array: an event of a channel touches one place in it.
struct ChannelFeed {
    var channel = Name.empty
    /// Which feed it is, as places are used again; 0: a free place.
    var id: UInt64 = 0
    /// Which of the node's loops carry it: a bit each.
    var carriers: UInt64 = 0
    /// Which `subscribe` of ours the broker's answer must carry; 0: none is under way.
    var asked: UInt64 = 0
    /// What was handed to the loops last; nil until the broker has confirmed the subscription.
    var tip: Position?
    /// The latest deliveries, without a hole, the last one at `tip`.
    var recent = Queue<DurableDelivery>()
    /// How long after the last delivery they may be handed out, as history would be; zero: not at all.
    var retention = HistoryOptions().ttl
    var keptUntil = Instant(nanoseconds: 0)
    var recentBytes = 0
    /// Recoveries under way: what passes while they read must be there to bridge to.
    var pins = 0
    /// Recoveries that go on once something happens to the channel: it's confirmed, or moves.
    var waiting: [UInt64] = []
    /// Readings of history under way.
    var readings: [UInt64] = []
    var marks: ReadMarks?
    /// Neighbours by the time of the last delivery, in `FeedTable`.
    var older: Int32 = -1
    var newer: Int32 = -1

    /// The place in `recent` that follows `position`: everything from there to the tip is what somebody at `position` missed. nil: it can't
    /// be told from memory.
    func place(after position: Position) -> Int? {
        guard let tip else { return nil }
        // Whoever is at the origin of no generation is for the broker to judge.
        guard position != .start else { return nil }
        if position == tip { return recent.count }
        guard let first = recent.first?.publication else { return nil }
        if position.isOrigin { return position.isContinued(by: first.position, previous: first.previous) ? 0 : nil }
        guard position.epoch == first.position.epoch, position.offset + 1 >= first.position.offset, position.offset < tip.offset else {
            return nil
        }
        let place = Int(position.offset + 1 - first.position.offset)
        if place == 0 { return first.previous == position.tag ? 0 : nil }
        guard place <= recent.count else { return nil }
        return recent[place - 1].publication.position == position ? place : nil
    }

    /// What a kept delivery is taken to weigh: its payload, and its fields with their array headers.
    static func cost(_ delivery: DurableDelivery) -> Int { delivery.publication.publication.payload.count + 256 }

    /// Keeps it, and of what's kept `limit` at most. Answers by how much the bytes changed.
    mutating func keep(_ delivery: DurableDelivery, limit: Int) -> Int {
        let before = recentBytes
        let next = delivery.publication
        let follows =
            recent.isEmpty ? true : tip.map { $0.epoch == next.position.epoch && $0.offset + 1 == next.position.offset } ?? false
        if !follows { forget() }
        recent.append(delivery)
        recentBytes += Self.cost(delivery)
        while recent.count > limit { dropOldest() }
        tip = next.position
        return recentBytes - before
    }

    mutating func dropOldest() {
        if let oldest = recent.popFirst() { recentBytes -= Self.cost(oldest) }
    }

    /// The memory goes too.
    mutating func forget() {
        recent.removeAll()
        recentBytes = 0
    }
}
