import HubBase
import HubCore
import HubWire

/// What this node acknowledged lately, the latest place of each channel, whether it carries the channel or not. Redis replicates behind its
/// answers, and may come back with older data: when a command link is lost, what was acknowledged over it is in doubt, and is looked at on the
/// next one (`renew.lua`). What was taken back is told to everybody then, by a new epoch (decision 0250).
///
/// One place a channel is enough: within the life of a link Redis takes nothing back, so the latest speaks for those before it. A machine.
/// Bounded: of 16,384 channels, for an hour; about 150 bytes each.
package struct AckLedger {
    package struct Entry: Equatable {
        package var channel: Name
        package var position: Position
        package var at: Instant
        /// Whose message that was: its id was remembered along with it, and proves it where the entry is trimmed. nil: the place was read.
        package var message: Message?

        package struct Message: Equatable {
            package var user: Name
            package var id: Name

            package init(user: Name, id: Name) {
                self.user = user
                self.id = id
            }
        }

        package init(channel: Name, position: Position, at: Instant, message: Message?) {
            self.channel = channel
            self.position = position
            self.at = at
            self.message = message
        }
    }

    /// What was found of a place that was in doubt.
    package enum Verdict: Equatable {
        /// It's there; or its epoch is over, which everybody is told by that; or nothing tells.
        case stands
        /// It was taken back, and the channel goes on from here in a new epoch.
        case renewed(Position)
    }

    /// In the order of the latest acknowledgement.
    private struct Link {
        var entry: Entry
        let lane: Int32
        var older: Int32
        var newer: Int32
    }

    package static let span: Span = .seconds(3600)
    /// Looked at in one go; publications wait behind them.
    package static let window = 128
    /// After a look that failed.
    package static let pause: Span = .seconds(1)

    private let capacity: Int
    private var table: ByteTable
    private var links: [Link?] = []
    private var oldest: Int32 = -1
    private var newest: Int32 = -1
    private var doubts = LaneRings<Entry>()
    private var underWay = 0
    private var pausedUntil = Instant(nanoseconds: 0)
    /// Places that were let go because there were too many.
    package private(set) var forgotten: UInt64 = 0

    package init(seed: UInt64, capacity: Int = 16_384) {
        self.capacity = capacity
        table = ByteTable(seed: seed)
    }

    package var count: Int { table.count }
    package var doubtful: Int { doubts.count }

    // MARK: Acknowledgements

    /// Cost: a look-up, and of the table's memory only.
    package mutating func note(_ entry: Entry) {
        if let index = find(entry.channel) {
            guard let known = links[index]?.entry.position else { return }
            // A repeat is answered with the place of the first.
            if known.epoch == entry.position.epoch && known.offset > entry.position.offset { return }
            links[index]?.entry = entry
            guard newest != Int32(truncatingIfNeeded: index) else { return }
            unlink(index)
            append(index)
        } else {
            if table.count >= capacity, let index = Int(exactly: oldest), index >= 0 {
                if let last = links[index]?.entry.at, entry.at.since(last) < AckLedger.span { forgotten += 1 }
                remove(index)
            }
            let index = enter(entry.channel)
            let link = Link(entry: entry, lane: Int32(truncatingIfNeeded: Partition.of(entry.channel)), older: -1, newer: -1)
            if index == links.count { links.append(link) } else { links[index] = link }
            append(index)
        }
    }

    // MARK: Doubts

    /// The command link that has `lanes` is lost, or others have them now. Cost: a look at all that's kept.
    package mutating func doubt(in lanes: LaneSet = .all, at now: Instant) {
        // The latest first: they're the likeliest to be gone.
        var next = newest
        while next >= 0, let link = links[Int(next)] {
            let index = Int(next)
            next = link.older
            guard lanes.contains(Int(link.lane)) else { continue }
            remove(index)
            if now.since(link.entry.at) < AckLedger.span { doubt(link.entry) }
        }
    }

    /// One that was acknowledged by a server that has the channel no more.
    package mutating func doubt(_ entry: Entry) {
        if doubts.count >= capacity {
            forgotten += 1
        } else {
            doubts.append(entry, lane: Partition.of(entry.channel))
        }
    }

    /// The next one to be looked at.
    package mutating func take(in lanes: LaneSet = .all, at now: Instant) -> Entry? {
        guard !doubts.isEmpty, pausedUntil <= now else { return nil }
        while underWay < AckLedger.window, let entry = doubts.removeFirst(in: lanes) {
            guard now.since(entry.at) < AckLedger.span else { continue }
            underWay += 1
            return entry
        }
        return nil
    }

    /// It was looked at.
    package mutating func found(_ verdict: Verdict, of entry: Entry, at now: Instant) {
        underWay -= 1
        switch verdict {
        // Whoever takes over next may lack it still, and an epoch that ended this one's.
        case .stands: if find(entry.channel) == nil { note(entry) }
        // So may this one be taken back.
        case .renewed(let position): note(Entry(channel: entry.channel, position: position, at: now, message: nil))
        }
    }

    /// It couldn't be looked at. `isLasting`: it would fail again.
    package mutating func failed(_ entry: Entry, isLasting: Bool, at now: Instant) {
        underWay -= 1
        guard !isLasting else { return }
        doubt(entry)
        pausedUntil = now + AckLedger.pause
    }

    // MARK: The order

    private mutating func append(_ index: Int) {
        let place = Int32(truncatingIfNeeded: index)
        links[index]?.older = newest
        links[index]?.newer = -1
        if newest >= 0 { links[Int(newest)]?.newer = place } else { oldest = place }
        newest = place
    }

    private mutating func unlink(_ index: Int) {
        guard let link = links[index] else { return }
        if link.older >= 0 { links[Int(link.older)]?.newer = link.newer } else { oldest = link.newer }
        if link.newer >= 0 { links[Int(link.newer)]?.older = link.older } else { newest = link.older }
    }

    private mutating func remove(_ index: Int) {
        unlink(index)
        takeOut(index)
        links[index] = nil
    }

    // MARK: The table, whose names are those of the entries

    private func find(_ channel: Name) -> Int? { table.find(channel.bytes) { links[$0]?.entry.channel.bytes ?? [] } }

    private mutating func enter(_ channel: Name) -> Int {
        let links = links
        return table.insert(channel.bytes, tail: channel.bytes) { links[$0]?.entry.channel.bytes ?? [] }
    }

    private mutating func takeOut(_ index: Int) {
        let links = links
        table.remove(index) { links[$0]?.entry.channel.bytes ?? [] }
    }
}
