import HubBase
import HubCore
import HubWire

/// What this node wants to hear and what it hears: the desired set of pub/sub channels and, for each, how far the subscriber link has got.
/// A machine: commands that must go out are taken from it, replies and losses go in. It never trusts an increment: after each loss it
/// begins from the desired set.
///
/// One command for a channel is under way at a time; the opposite wish waits for its reply. So an UNSUBSCRIBE can't overtake the
/// SUBSCRIBE that follows it, in either direction.
package struct SubscriptionSet {
    /// One SUBSCRIBE names this many channels at most (redis-design §5).
    package static let batch = 512
    /// How long a channel stays subscribed after its last subscriber.
    package static let linger: Span = .seconds(30)
    /// How often an idle channel is compared with its tip: a history that goes back is found within this time.
    package static let tipCheck: Span = .seconds(30)
    /// What all channels together may hold; beyond it messages are let go and read from history instead.
    package static let heldBytesMax = 32 << 20

    private var table: ByteTable
    private var entries: [Entry?] = []
    /// Indexes to be subscribed, read and unsubscribed. What's in them is only a hint: each is judged anew when it's taken.
    private var toSubscribe = LaneQueue()
    private var toRead = LaneQueue()
    private var toUnsubscribe = LaneQueue()
    /// Indexes whose history is to be read.
    private var toFill = LaneQueue()
    private var lingering = Ring<Int>()
    /// Whose waiters' time ends when, in that order. Hints like the others: a place may mean another channel by then.
    private var patience = Queue<(index: Int, deadline: Instant)>()
    /// Wanted entries that aren't live; in all, and of each lane.
    package private(set) var unready = 0
    private var unreadyOfLane = [Int](repeating: 0, count: Lane.count)
    /// What messages weigh that wait for a hole before them to be filled.
    package private(set) var heldBytes = 0
    private var tipWalk: Patrol?
    private let tipCheck: Span

    /// `tipCheck`: how long a lost last message of an idle channel may go unnoticed.
    package init(seed: UInt64, tipCheck: Span = SubscriptionSet.tipCheck) {
        table = ByteTable(seed: seed)
        self.tipCheck = tipCheck
    }

    package var count: Int { table.count }
    package var isReady: Bool { unready == 0 }
    package var hasCommands: Bool { !toSubscribe.isEmpty || !toUnsubscribe.isEmpty }
    package var hasLingering: Bool { !lingering.isEmpty }

    package func isReady(in lanes: LaneSet) -> Bool { unready == 0 || lanes.allSatisfy { unreadyOfLane[$0] == 0 } }

    // What each message and each confirmation asks. `mutating`, though nothing is changed: an object that owns the set would ask a copy, and
    // count a reference for each of its parts.

    /// Whether commands are due, or may become due by time alone.
    mutating func mayWrite() -> Bool { hasCommands || hasLingering }
    package mutating func find(_ name: UnsafeRawBufferPointer) -> Int? { table.find(name) { entries[$0]?.subject.tail ?? [] } }
    package mutating func find(_ name: [UInt8]) -> Int? { name.withUnsafeBytes { find($0) } }
    package mutating func name(_ index: Int) -> [UInt8] { table.name(index, tail: self[index].subject.tail) }
    /// The place of a channel whose lane is among `lanes`.
    mutating func place(of name: UnsafeRawBufferPointer, in lanes: LaneSet) -> Int? {
        guard let index = find(name), let lane = entries[index]?.lane, lanes.contains(lane) else { return nil }
        return index
    }
    mutating func isAt(_ state: State, _ index: Int) -> Bool { entries[index]?.state == state }
    mutating func subject(of index: Int) -> Subject { self[index].subject }
    mutating func position(of index: Int) -> Position? { self[index].chain.position }
    mutating func generation(of index: Int) -> UInt32 { self[index].generation }

    /// Lent: who looks at one field counts none of its references.
    package subscript(index: Int) -> Entry {
        _read {
            precondition(entries[index] != nil, "that subscription is gone")
            yield entries[index]!
        }
    }

    /// Whether `index` still means what it meant when `generation` was noted.
    package mutating func isCurrent(_ index: Int, _ generation: UInt32) -> Bool {
        index < entries.count && entries[index]?.generation == generation
    }

    // MARK: Wishes

    /// Wants a channel. Returns its index.
    package mutating func want(_ name: [UInt8], _ subject: @autoclosure () -> Subject) -> Int {
        if let index = find(name) {
            change(index) {
                $0.isWanted = true
                $0.isExpired = false
            }
            switch self[index].state {
            case .absent: queueSubscribe(index)
            // Its place may have been refused.
            case .unread: toRead.append(index, lane: self[index].lane)
            case .subscribing, .reading, .live, .unsubscribing: break
            }
            return index
        }
        // A reused index must not be taken for what it meant before.
        let entry = Entry(subject: subject(), generation: nextGeneration())
        let index = enter(name, entry.subject.tail)
        if index == entries.count {
            entries.append(entry)
        } else {
            entries[index] = entry
        }
        count(entry, by: 1)
        queueSubscribe(index)
        return index
    }

    /// Doesn't want it any more: it's let go when nobody has wanted it again for `linger`.
    package mutating func unwant(_ index: Int, at now: Instant) {
        guard self[index].isWanted else { return }
        change(index) {
            $0.isWanted = false
            $0.linger(until: now + SubscriptionSet.linger)
        }
        if !self[index].isLingering {
            entries[index]?.isLingering = true
            lingering.append(index)
        }
    }

    package mutating func wait(_ index: Int, _ waiter: Waiter) {
        entries[index]?.changeWaiters { $0.append(waiter) }
        patience.append((index, waiter.deadline))
    }

    package mutating func takeWaiters(_ index: Int) -> [Waiter] {
        guard entries[index]?.waiters.isEmpty == false else { return [] }
        defer { entries[index]?.changeWaiters { $0 = [] } }
        return self[index].waiters
    }

    /// Takes the waiters whose deadline has passed, from entries that aren't live; each with its subject.
    package mutating func takeOverdue(at now: Instant) -> [(Subject, RequestTag)] {
        var overdue: [(Subject, RequestTag)] = []
        // Those in front that nobody waits for any more needn't wait for their time.
        while let (index, deadline) = patience.first, deadline <= now || entries[index]?.isAwaited != true {
            _ = patience.popFirst()
            guard let entry = entries[index], entry.waiters.contains(where: { $0.deadline <= now }) else { continue }
            overdue += entry.waiters.filter { $0.deadline <= now }.map { (entry.subject, $0.tag) }
            entries[index]?.changeWaiters { $0.removeAll { $0.deadline <= now } }
            // Nobody was told that it's subscribed, so nobody will unsubscribe it.
            if entry.chain.position == nil && self[index].waiters.isEmpty { unwant(index, at: now) }
        }
        return overdue
    }

    // MARK: Commands

    /// Indexes for one SUBSCRIBE on the link that has `lanes`; empty: none is due. `ofOneLane`: a command of sharded pub/sub names channels
    /// of one slot.
    package mutating func takeSubscribes(in lanes: LaneSet = .all, ofOneLane: Bool = false) -> [Int] {
        var taken: [Int] = []
        var lanes = lanes
        while taken.count < SubscriptionSet.batch, let index = toSubscribe.removeFirst(in: lanes) {
            guard entries[index] != nil, self[index].isQueued else { continue }
            entries[index]?.isQueued = false
            guard self[index].state == .absent, self[index].isWanted else { continue }
            change(index) { $0.state = .subscribing }
            taken.append(index)
            if ofOneLane { lanes = LaneSet(self[index].lane) }
        }
        return taken
    }

    package mutating func takeUnsubscribes(at now: Instant, in lanes: LaneSet = .all, ofOneLane: Bool = false) -> [Int] {
        expireLingering(at: now)
        var taken: [Int] = []
        var lanes = lanes
        while taken.count < SubscriptionSet.batch, let index = toUnsubscribe.removeFirst(in: lanes) {
            guard let entry = entries[index], !entry.isWanted, entry.isExpired else { continue }
            switch entry.state {
            case .absent: remove(index)
            case .unread, .reading, .live:
                // Where the channel stood counts no more: what's published from now on isn't heard.
                heldBytes -= entry.feed.heldBytes
                change(index) {
                    $0.state = .unsubscribing
                    $0.feed = ChannelFeed()
                }
                taken.append(index)
                if ofOneLane { lanes = LaneSet(entry.lane) }
            // The reply decides.
            case .subscribing, .unsubscribing: continue
            }
        }
        return taken
    }

    private mutating func expireLingering(at now: Instant) {
        while let index = lingering.first {
            guard entries[index] != nil, self[index].isLingering else {
                _ = lingering.removeFirst()
                continue
            }
            // Times were given in order; one that was prolonged goes to the back.
            if self[index].isWanted {
                _ = lingering.removeFirst()
                entries[index]?.isLingering = false
                entries[index]?.linger(until: .distantFuture)
            } else if self[index].lingerUntil <= now {
                _ = lingering.removeFirst()
                entries[index]?.isLingering = false
                entries[index]?.isExpired = true
                toUnsubscribe.append(index, lane: self[index].lane)
            } else if lingering.count > 1, self[index].lingerUntil > self.lingerTime(at: 1) {
                _ = lingering.removeFirst()
                lingering.append(index)
            } else {
                break
            }
        }
    }

    private func lingerTime(at place: Int) -> Instant { entries[lingering[place]]?.lingerUntil ?? .distantFuture }

    /// The next entry whose position is to be read.
    package mutating func takeRead(in lanes: LaneSet = .all) -> Int? {
        while let index = toRead.removeFirst(in: lanes) {
            guard entries[index]?.state == .unread else { continue }
            change(index) { $0.state = .reading }
            return index
        }
        return nil
    }

    // MARK: Replies and losses

    package mutating func subscribed(_ index: Int) {
        guard self[index].state == .subscribing else { return }
        guard self[index].subject.hasPosition else {
            change(index) { $0.state = .live }
            return
        }
        change(index) { $0.state = .unread }
        toRead.append(index, lane: self[index].lane)
        if self[index].isExpired { toUnsubscribe.append(index, lane: self[index].lane) }
    }

    /// Also when we didn't ask for it: then it's subscribed again.
    package mutating func unsubscribed(_ index: Int) {
        let generation = nextGeneration()
        change(index) {
            $0.state = .absent
            $0.generation = generation
        }
        if self[index].isWanted { queueSubscribe(index) } else { remove(index) }
    }

    /// The position couldn't be read: it's tried again.
    package mutating func readFailed(_ index: Int, _ generation: UInt32) {
        guard isCurrent(index, generation), self[index].state == .reading else { return }
        change(index) { $0.state = .unread }
        toRead.append(index, lane: self[index].lane)
    }

    package mutating func isLive(_ index: Int, _ generation: UInt32) -> Bool { isCurrent(index, generation) && self[index].state == .live }

    /// The position can't be read by anybody: what's there isn't a hub's. True if nobody was told of a place in that channel; then it's let go
    /// like one that nobody wants, and whoever wants it next has it read anew.
    package mutating func refuse(_ index: Int, at now: Instant) -> Bool {
        guard self[index].state == .reading, self[index].chain.position == nil else { return false }
        change(index) { $0.state = .unread }
        unwant(index, at: now)
        return true
    }

    /// The position was read. nil: it no longer matters, a message has set it, or the link has changed. A channel that isn't there fills the
    /// hole, or its tip was checked and isn't what it should be.
    package mutating func read(_ index: Int, _ generation: UInt32, _ position: Position, pings: UInt64) -> ReadOutcome? {
        guard isCurrent(index, generation) else { return nil }
        guard self[index].state == .reading else {
            guard self[index].state == .live, self[index].quiet > 0 else { return nil }
            guard case .channel = self[index].subject else {
                return entries[index]?.chain.check(position, pings: pings).map { ReadOutcome(missed: $0) }
            }
            compare(index, position, .gap, pings)
            return nil
        }
        change(index) { $0.state = .live }
        guard case .channel = self[index].subject else {
            return ReadOutcome(missed: entries[index]?.chain.read(position, pings: pings) ?? nil)
        }
        compare(index, position, .linkLost, pings)
        return ReadOutcome()
    }

    package struct ReadOutcome: Equatable {
        /// Of a partition's feed.
        package var missed: ResyncReason?
    }

    /// Whether a message that comes now is the first word on where its channel is: then those who wait begin before it. Not while the
    /// subscription is being made or given up: what comes then isn't followed by what comes next.
    package mutating func beginsWithMessage(_ index: Int) -> Bool {
        switch self[index].state {
        case .unread, .reading, .live: self[index].chain.position == nil
        case .absent, .subscribing, .unsubscribing: false
        }
    }

    /// A message of a channel came: it says itself where the channel is, so nothing needs to be read any more.
    package mutating func judge(_ index: Int, _ next: Position, previous: Mark, pongs: UInt64) -> ChannelFeed.Verdict {
        guard wasHeard(index) else { return .drop }
        return entries[index]?.feed.judge(next, previous: previous, pongs: pongs) ?? .drop
    }

    /// A message of a partition's feed came.
    package mutating func judgeFeed(_ index: Int, _ next: Position, previous: Mark, pongs: UInt64) -> Chain.Verdict {
        guard wasHeard(index) else { return .drop }
        return entries[index]?.chain.judge(next, previous: previous, pongs: pongs) ?? .drop
    }

    /// One of this node's publications was acknowledged at `position`.
    package mutating func acknowledged(_ index: Int, at position: Position) { entries[index]?.feed.acknowledged(at: position) }

    /// The command link that has `lanes` is lost. Cost: a look at every channel.
    package mutating func commandsLost(in lanes: LaneSet = .all) {
        for index in entries.indices {
            if let lane = entries[index]?.lane, lanes.contains(lane) { entries[index]?.feed.commandsLost() }
        }
    }

    private mutating func wasHeard(_ index: Int) -> Bool {
        switch self[index].state {
        // Nobody wanted it when it was let go; whoever wants it again begins after the next SUBSCRIBE.
        case .absent, .subscribing, .unsubscribing: return false
        case .live: break
        case .unread, .reading: change(index) { $0.state = .live }
        }
        entries[index]?.quiet = 0
        return true
    }

    // MARK: Holes

    /// Keeps a message that `judge` said to hold, until what's before it is read.
    package mutating func hold(_ index: Int, _ message: Heard) {
        let isShort = heldBytes + message.weight > SubscriptionSet.heldBytesMax
        changeFeed(index) { $0.hold(message, reason: .gap, isShort: isShort) }
    }

    private mutating func compare(_ index: Int, _ position: Position, _ reason: ResyncReason, _ pings: UInt64) {
        changeFeed(index) { $0.read(position, reason: reason, pings: pings) }
    }

    /// The next channel whose history is to be read, and from where.
    package mutating func takeFill(in lanes: LaneSet = .all) -> (index: Int, from: Position)? {
        while let index = toFill.removeFirst(in: lanes) {
            guard let position = entries[index]?.feed.takeRead() else { continue }
            return (index, position)
        }
        return nil
    }

    /// A page of it was read. What subscribers are to be told.
    package mutating func filled(_ index: Int, _ generation: UInt32, _ page: StreamPage, pings: UInt64) -> [ChannelFeed.Told] {
        guard isCurrent(index, generation) else { return [] }
        return changeFeed(index) { $0.filled(page, pings: pings) }
    }

    package mutating func fillFailed(_ index: Int, _ generation: UInt32, isLasting: Bool, pings: UInt64) -> [ChannelFeed.Told] {
        guard isCurrent(index, generation) else { return [] }
        return changeFeed(index) { $0.readFailed(isLasting: isLasting, pings: pings) }
    }

    @discardableResult
    private mutating func changeFeed<Result>(_ index: Int, _ body: (inout ChannelFeed) -> Result) -> Result {
        guard var entry = entries[index].take() else { preconditionFailure("subscription \(index) is gone") }
        let (before, neededRead) = (entry.feed.heldBytes, entry.feed.needsRead)
        let result = body(&entry.feed)
        heldBytes += entry.feed.heldBytes - before
        if entry.feed.needsRead && !neededRead { toFill.append(index, lane: entry.lane) }
        entries[index] = entry
        return result
    }

    /// Channels and feeds that were idle since they were looked at last, some of them with each call: their tips are to be read.
    package mutating func takeTipChecks(at now: Instant) -> [Int] {
        guard tipWalk != nil else {
            tipWalk = Patrol(period: tipCheck.scaled(by: 0.5), stepsMax: 256, at: now)
            return []
        }
        var due: [Int] = []
        for _ in 0..<(tipWalk?.steps(over: entries.count, at: now) ?? 0) {
            guard let index = tipWalk?.next(of: entries.count), let entry = entries[index], entry.state == .live,
                entry.subject.hasPosition, !entry.feed.isFilling
            else { continue }
            // Every other look, so that neither a message just before one nor one just after it makes the check late.
            let quiet = entry.quiet == 2 ? 1 : entry.quiet + 1
            entries[index]?.quiet = quiet
            if quiet == 2 { due.append(index) }
        }
        return due
    }

    /// Whether its position may be read now, because there's news of it: as if it had been idle.
    package mutating func looks(_ index: Int) -> Bool {
        guard self[index].state == .live, !self[index].feed.isFilling else { return false }
        entries[index]?.quiet = 1
        return true
    }

    /// The link that had `lanes` is lost, or others have them now: all that's wanted is to be subscribed anew, all else is forgotten.
    package mutating func linkLost(in lanes: LaneSet = .all) {
        toSubscribe.removeAll(in: lanes)
        toRead.removeAll(in: lanes)
        toUnsubscribe.removeAll(in: lanes)
        toFill.removeAll(in: lanes)
        if lanes == .all { lingering.removeAll() }
        for index in entries.indices {
            guard let lane = entries[index]?.lane, lanes.contains(lane) else { continue }
            guard entries[index]?.isWanted == true else {
                remove(index)
                continue
            }
            let generation = nextGeneration()
            changeFeed(index) { $0.linkLost() }
            change(index) {
                $0.state = .absent
                $0.generation = generation
                $0.isQueued = false
                $0.isLingering = false
                $0.linger(until: .distantFuture)
            }
            queueSubscribe(index)
        }
    }

    // MARK: Upkeep

    private var generations: UInt32 = 0

    private mutating func nextGeneration() -> UInt32 {
        generations &+= 1
        return generations
    }

    private mutating func queueSubscribe(_ index: Int) {
        guard self[index].isQueued == false else { return }
        entries[index]?.isQueued = true
        toSubscribe.append(index, lane: self[index].lane)
    }

    private mutating func remove(_ index: Int) {
        count(self[index], by: -1)
        heldBytes -= self[index].feed.heldBytes
        takeOut(index)
        entries[index] = nil
    }

    // The table asks for the names' tails while it's changed.

    private mutating func enter(_ name: [UInt8], _ tail: [UInt8]) -> Int {
        let entries = entries
        return table.insert(name, tail: tail) { entries[$0]?.subject.tail ?? [] }
    }

    private mutating func takeOut(_ index: Int) {
        let entries = entries
        table.remove(index) { entries[$0]?.subject.tail ?? [] }
    }

    private mutating func count(_ entry: Entry, by step: Int) {
        guard entry.isWanted && entry.state != .live else { return }
        unready += step
        unreadyOfLane[entry.lane] += step
    }

    private mutating func change(_ index: Int, _ body: (inout Entry) -> Void) {
        guard var entry = entries[index].take() else { preconditionFailure("subscription \(index) is gone") }
        count(entry, by: -1)
        body(&entry)
        count(entry, by: 1)
        entries[index] = entry
    }
}
