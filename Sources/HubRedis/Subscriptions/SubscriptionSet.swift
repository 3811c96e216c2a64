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
    /// Who listens.
    package enum Subject: Equatable {
        case channel(Name)
        case feed(Int)
        case probe
        /// Other nodes' words to this one.
        case control

        /// A subject with positions counts as heard only when its position is known.
        package var hasPosition: Bool { self != .probe && self != .control }
    }

    package enum State: Equatable {
        /// Not subscribed, and no command under way.
        case absent
        case subscribing
        /// Confirmed; the position is still to be read, or being read.
        case unread
        case reading
        /// Confirmed and continued from a known position.
        case live
        case unsubscribing
    }

    package struct Waiter: Equatable {
        package var tag: RequestTag
        package var deadline: Instant

        package init(tag: RequestTag, deadline: Instant) {
            self.tag = tag
            self.deadline = deadline
        }
    }

    package struct Entry {
        package var subject: Subject
        package var state: State = .absent
        package var isWanted = true
        /// The time to keep it for the next subscriber is over.
        package var isExpired = false
        /// New whenever what's under way for the entry no longer counts.
        package var generation: UInt32 = 0
        package var chain = Chain()
        package var waiters: [Waiter] = []
        fileprivate var isQueued = false
        fileprivate var isLingering = false
        fileprivate var lingerUntil = Instant.distantFuture
    }

    /// One SUBSCRIBE names this many channels at most (redis-design §5).
    package static let batch = 512
    /// How long a channel stays subscribed after its last subscriber.
    package static let linger: Span = .seconds(30)

    private var table: ByteTable
    private var entries: [Entry?] = []
    /// Indexes to be subscribed, read and unsubscribed. What's in them is only a hint: each is judged anew when it's taken.
    private var toSubscribe = Ring<Int>()
    private var toRead = Ring<Int>()
    private var toUnsubscribe = Ring<Int>()
    private var lingering = Ring<Int>()
    /// Wanted entries that aren't live.
    package private(set) var unready = 0

    package init(seed: UInt64) { table = ByteTable(seed: seed) }

    package var count: Int { table.count }
    package var isReady: Bool { unready == 0 }
    package var hasCommands: Bool { !toSubscribe.isEmpty || !toUnsubscribe.isEmpty }

    package func find(_ name: UnsafeRawBufferPointer) -> Int? { table.find(name) }
    package func find(_ name: [UInt8]) -> Int? { table.find(name) }
    package func name(_ index: Int) -> [UInt8] { table.name(index) }

    package subscript(index: Int) -> Entry {
        guard let entry = entries[index] else { preconditionFailure("subscription \(index) is gone") }
        return entry
    }

    /// Whether `index` still means what it meant when `generation` was noted.
    package func isCurrent(_ index: Int, _ generation: UInt32) -> Bool {
        index < entries.count && entries[index]?.generation == generation
    }

    // MARK: Wishes

    /// Wants a channel. Returns its index.
    package mutating func want(_ name: [UInt8], _ subject: @autoclosure () -> Subject) -> Int {
        if let index = table.find(name) {
            change(index) {
                $0.isWanted = true; $0.isExpired = false
            }
            if self[index].state == .absent { queueSubscribe(index) }
            return index
        }
        let index = table.insert(name)
        // A reused index must not be taken for what it meant before.
        let entry = Entry(subject: subject(), generation: nextGeneration())
        if index == entries.count {
            entries.append(entry)
        } else {
            entries[index] = entry
        }
        unready += 1
        queueSubscribe(index)
        return index
    }

    /// Doesn't want it any more: it's let go when nobody has wanted it again for `linger`.
    package mutating func unwant(_ index: Int, at now: Instant) {
        guard self[index].isWanted else { return }
        change(index) {
            $0.isWanted = false
            $0.lingerUntil = now + SubscriptionSet.linger
        }
        if !self[index].isLingering {
            entries[index]?.isLingering = true
            lingering.append(index)
        }
    }

    package mutating func wait(_ index: Int, _ waiter: Waiter) { entries[index]?.waiters.append(waiter) }

    package mutating func takeWaiters(_ index: Int) -> [Waiter] {
        guard entries[index]?.waiters.isEmpty == false else { return [] }
        defer { entries[index]?.waiters = [] }
        return self[index].waiters
    }

    /// Takes the waiters whose deadline has passed, from entries that aren't live; each with its subject.
    package mutating func takeOverdue(at now: Instant) -> [(Subject, RequestTag)] {
        guard unready > 0 else { return [] }
        var overdue: [(Subject, RequestTag)] = []
        for index in entries.indices {
            guard let entry = entries[index], entry.waiters.contains(where: { $0.deadline <= now }) else { continue }
            overdue += entry.waiters.filter { $0.deadline <= now }.map { (entry.subject, $0.tag) }
            entries[index]?.waiters.removeAll { $0.deadline <= now }
            // Nobody was told that it's subscribed, so nobody will unsubscribe it.
            if entry.chain.position == nil && self[index].waiters.isEmpty { unwant(index, at: now) }
        }
        return overdue
    }

    // MARK: Commands

    /// Indexes for one SUBSCRIBE; empty: none is due.
    package mutating func takeSubscribes() -> [Int] {
        var taken: [Int] = []
        while taken.count < SubscriptionSet.batch, let index = toSubscribe.removeFirst() {
            guard entries[index] != nil, self[index].isQueued else { continue }
            entries[index]?.isQueued = false
            guard self[index].state == .absent, self[index].isWanted else { continue }
            change(index) { $0.state = .subscribing }
            taken.append(index)
        }
        return taken
    }

    package mutating func takeUnsubscribes(at now: Instant) -> [Int] {
        while let index = lingering.first {
            guard entries[index] != nil, self[index].isLingering else {
                _ = lingering.removeFirst()
                continue
            }
            // Times were given in order; one that was prolonged goes to the back.
            if self[index].isWanted {
                _ = lingering.removeFirst()
                entries[index]?.isLingering = false
            } else if self[index].lingerUntil <= now {
                _ = lingering.removeFirst()
                entries[index]?.isLingering = false
                entries[index]?.isExpired = true
                toUnsubscribe.append(index)
            } else if lingering.count > 1, self[index].lingerUntil > self.lingerTime(at: 1) {
                _ = lingering.removeFirst()
                lingering.append(index)
            } else {
                break
            }
        }
        var taken: [Int] = []
        while taken.count < SubscriptionSet.batch, let index = toUnsubscribe.removeFirst() {
            guard let entry = entries[index], !entry.isWanted, entry.isExpired else { continue }
            switch entry.state {
            case .absent: remove(index)
            case .unread, .reading, .live:
                // Where the channel stood counts no more: what's published from now on isn't heard.
                change(index) {
                    $0.state = .unsubscribing
                    $0.chain = Chain()
                }
                taken.append(index)
            // The reply decides.
            case .subscribing, .unsubscribing: continue
            }
        }
        return taken
    }

    private func lingerTime(at place: Int) -> Instant { entries[lingering[place]]?.lingerUntil ?? .distantFuture }

    /// The next entry whose position is to be read.
    package mutating func takeRead() -> Int? {
        while let index = toRead.removeFirst() {
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
        toRead.append(index)
        if self[index].isExpired { toUnsubscribe.append(index) }
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
        toRead.append(index)
    }

    /// The position was read. nil: it no longer matters, a message has set it, or the link has changed.
    package mutating func read(_ index: Int, _ generation: UInt32, _ position: Position, pings: UInt64) -> ReadOutcome? {
        guard isCurrent(index, generation), self[index].state == .reading else { return nil }
        let missed = entries[index]?.chain.read(position, pings: pings) ?? nil
        change(index) { $0.state = .live }
        return ReadOutcome(missed: missed)
    }

    package struct ReadOutcome: Equatable {
        package var missed: ResyncReason?
    }

    /// A message came: it says itself where the channel is, so nothing needs to be read any more.
    package mutating func judge(_ index: Int, _ next: Position, previous: Mark, pongs: UInt64) -> Chain.Verdict {
        switch self[index].state {
        // Nobody wanted it when it was let go; whoever wants it again begins after the next SUBSCRIBE.
        case .absent, .subscribing, .unsubscribing: return .drop
        case .live: break
        case .unread, .reading: change(index) { $0.state = .live }
        }
        return entries[index]?.chain.judge(next, previous: previous, pongs: pongs) ?? .drop
    }

    /// The subscriber link is lost: all that's wanted is to be subscribed anew, all else is forgotten.
    package mutating func linkLost() {
        toSubscribe.removeAll()
        toRead.removeAll()
        toUnsubscribe.removeAll()
        lingering.removeAll()
        for index in entries.indices {
            guard let entry = entries[index] else { continue }
            guard entry.isWanted else {
                remove(index)
                continue
            }
            let generation = nextGeneration()
            change(index) {
                $0.state = .absent
                $0.generation = generation
                $0.isQueued = false
                $0.isLingering = false
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
        toSubscribe.append(index)
    }

    private mutating func remove(_ index: Int) {
        if isUnready(self[index]) { unready -= 1 }
        table.remove(index)
        entries[index] = nil
    }

    private func isUnready(_ entry: Entry) -> Bool { entry.isWanted && entry.state != .live }

    private mutating func change(_ index: Int, _ body: (inout Entry) -> Void) {
        guard var entry = entries[index].take() else { preconditionFailure("subscription \(index) is gone") }
        if isUnready(entry) { unready -= 1 }
        body(&entry)
        if isUnready(entry) { unready += 1 }
        entries[index] = entry
    }
}
