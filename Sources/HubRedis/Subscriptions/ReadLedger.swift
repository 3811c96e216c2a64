import HubBase
import HubCore
import HubWire

/// The read positions that this node knows of: those that it acknowledged, and those that passed on channels that it carries. Redis may come back
/// without the latest of them; a channel's epoch doesn't show that, since it is about messages. So when a command link is lost they're in doubt,
/// and are moved again on the next one (`read.lua` takes the larger of two), before anything else of that reader (decision 0320). A machine.
///
/// Bounded: the latest 16,384 to 32,768 readers of channels, for an hour; about 250 bytes each.
package struct ReadLedger {
    package struct Entry: Equatable {
        package var channel: Name
        package var user: Name
        package var device: Name
        package var offset: UInt64
        /// Offsets mean something in one epoch only. `none`: of a channel that has nothing.
        package var epoch: Mark
        /// Of the `read` itself, ms since 1970.
        package var time: UInt64
        /// When this node heard of it.
        package var at: Instant

        package init(channel: Name, user: Name, device: Name, offset: UInt64, epoch: Mark, time: UInt64, at: Instant) {
            self.channel = channel
            self.user = user
            self.device = device
            self.offset = offset
            self.epoch = epoch
            self.time = time
            self.at = at
        }

        var key: Key { Key(channel: channel, user: user) }
    }

    struct Key: Hashable {
        let channel: Name
        let user: Name
    }

    package static let span = AckLedger.span
    /// Moved again in one go; other calls wait behind them.
    package static let window = 128
    /// After one that failed.
    package static let pause: Span = .seconds(1)

    /// What wasn't heard of while as many others were is let go, all at once: an order of all of them would cost more on the way of each.
    private let generation: Int
    private var newer: [Key: Entry] = [:]
    private var older: [Key: Entry] = [:]
    private var doubts: [Key: Entry] = [:]
    private var queue = LaneRings<Key>()
    private var underWay = 0
    private var pausedUntil = Instant(nanoseconds: 0)

    package init(generation: Int = 16_384) { self.generation = generation }

    package var count: Int { newer.count + older.count }
    package var doubtful: Int { doubts.count }

    // MARK: What's known

    /// Cost: two look-ups, and of the tables' memory only.
    package mutating func note(_ entry: Entry) {
        let key = entry.key
        if let known = newer[key] ?? older[key], known.epoch == entry.epoch, known.offset > entry.offset { return }
        if newer.count >= generation, newer[key] == nil {
            swap(&newer, &older)
            newer.removeAll(keepingCapacity: true)
        }
        newer[key] = entry
    }

    /// The command link that has `lanes` is lost, or others have them now. Cost: a look at all that's kept.
    package mutating func doubt(in lanes: LaneSet = .all, at now: Instant) {
        for (key, entry) in older where newer[key] == nil && lanes.contains(Partition.of(key.channel)) { doubt(entry, at: now) }
        for (key, entry) in newer where lanes.contains(Partition.of(key.channel)) { doubt(entry, at: now) }
        older = older.filter { !lanes.contains(Partition.of($0.key.channel)) }
        newer = newer.filter { !lanes.contains(Partition.of($0.key.channel)) }
    }

    /// One that was moved at a server that has the channel no more.
    package mutating func doubt(_ entry: Entry, at now: Instant) {
        let key = entry.key
        guard now.since(entry.at) < ReadLedger.span else { return }
        if let doubtful = doubts[key] {
            if doubtful.epoch == entry.epoch, doubtful.offset > entry.offset { return }
            doubts[key] = entry
        } else if doubts.count < 2 * generation {
            doubts[key] = entry
            queue.append(key, lane: Partition.of(entry.channel))
        }
    }

    // MARK: Moving them again

    /// The next one to be moved.
    package mutating func take(in lanes: LaneSet = .all, at now: Instant) -> Entry? {
        guard !queue.isEmpty, pausedUntil <= now else { return nil }
        while underWay < ReadLedger.window, let key = queue.removeFirst(in: lanes) {
            // One that was taken by name is done with.
            guard let entry = doubts.removeValue(forKey: key), now.since(entry.at) < ReadLedger.span else { continue }
            underWay += 1
            return entry
        }
        return nil
    }

    /// That reader's, if it's in doubt: it goes before what they say now.
    package mutating func take(of user: Name, in channel: Name) -> Entry? {
        guard !doubts.isEmpty, let entry = doubts.removeValue(forKey: Key(channel: channel, user: user)) else { return nil }
        underWay += 1
        return entry
    }

    /// What is known to count more than what was read from Redis, for as long as it isn't moved again. `own` is told though Redis has nothing of it.
    package func raise(_ marks: inout [ReadMark], of channel: Name, own: Name, epoch: Mark) {
        guard !doubts.isEmpty else { return }
        func known(_ user: Name) -> UInt64? {
            doubts[Key(channel: channel, user: user)].flatMap { $0.epoch == epoch ? $0.offset : nil }
        }
        for place in marks.indices { marks[place].offset = max(marks[place].offset, known(marks[place].user) ?? 0) }
        if !marks.contains(where: { $0.user == own }), let offset = known(own) { marks.insert(ReadMark(user: own, offset: offset), at: 0) }
    }

    /// It was moved, or stands: this counts now.
    package mutating func ended(_ entry: Entry?) {
        underWay -= 1
        if let entry { note(entry) }
    }

    /// It couldn't be moved. `isLasting`: it would fail again.
    package mutating func failed(_ entry: Entry, isLasting: Bool, at now: Instant) {
        underWay -= 1
        guard !isLasting else { return }
        doubt(entry, at: now)
        pausedUntil = now + ReadLedger.pause
    }
}
