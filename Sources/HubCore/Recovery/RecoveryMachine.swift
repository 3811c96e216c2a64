import HubBase
import HubWire

/// Joins subscribers to the channels that the node carries, each exactly where its own past ends: nothing missing, nothing twice.
///
/// How: loops get deliveries and answers through one mailbox each, in order. The machine knows what was handed to them last (a channel's
/// *tip*); an answer brings a subscriber from its position to the tip, and the subscriber hears everything behind the answer. What lies
/// between comes from memory, else from history; a page of history may end before the tip or behind it, as deliveries go on meanwhile:
/// what passed is bridged from memory, what is still to pass is cut off.
///
/// A machine: no clock, no I/O. Its owner hands out `actions` after each call, before anything else goes to a loop.
package final class RecoveryMachine {
    package enum Action: Sendable {
        case subscribe(Name, serial: UInt64)
        case unsubscribe(Name)
        case read(Name, HistoryQuery, key: UInt64)
        case readMarks(Name, user: Name, limit: Int, key: UInt64)
        case answer(Result<JoinAnswer, WireError>, loop: Int, tag: UInt64)
    }

    /// How many are in a channel, where that's known: told to those who join.
    package var occupancy: (Name) -> UInt64? = { _ in nil }

    package struct Limits: Sendable {
        /// What all channels remember together, in bytes.
        package var memory = 16 * 1024 * 1024
        /// Deliveries that a channel remembers, and while somebody recovers.
        package var recent = 64
        package var recentPinned = 8_192
        /// Read marks handed to a subscriber beside its own, and kept for all channels together.
        package var marks = 50
        package var marksKept = 200_000
        /// A subscriber that isn't answered by then is told to try again.
        package var patience: Span = .seconds(8)
        /// Readings for one subscriber; beyond them it gets what there is, and asks for more.
        package var readings = 4

        package init() {}
    }

    /// How subscribers with a position were answered.
    package struct Numbers: Sendable, Equatable {
        package var nothingMissed: UInt64 = 0
        package var fromMemory: UInt64 = 0
        package var fromHistory: UInt64 = 0
        package var lost: UInt64 = 0
        package var failed: UInt64 = 0
        /// Readings of read marks that failed.
        package var marksMissing: UInt64 = 0
        /// How often a subscriber was looked at, whether all is there for its answer.
        package var looks: UInt64 = 0

        package init() {}
    }

    /// One subscriber of one channel until it's answered. A class: it's looked up for every step of its way, and a copy counts six references.
    final class Recovery {
        let slot: Int
        /// The feed's id: a slot is used again.
        let feed: UInt32
        let channel: Name
        let loop: Int
        let tag: UInt64
        let user: Name
        let position: Position?
        let limit: Int
        let readBytes: Int
        let budget: PageBudget
        let company: Company
        var wantsMarks: Bool
        var marks: [ReadMark]?
        var isReading = false
        var isAskingMarks = false
        /// Whether the channel's `waiting` has it.
        var isWaiting = false
        /// What history said, until it's joined to the tip.
        var page: HistoryPage?
        var failure: RecoveryFailure?
        /// History has confirmed the position, and the node's own deliveries haven't come as far.
        var isAhead = false
        var readings = 0

        init(
            slot: Int, feed: UInt32, tag: UInt64, _ item: JoinBatch.Item, of batch: JoinBatch, readBytes: Int, budget: PageBudget,
            company: Company
        ) {
            self.slot = slot
            self.feed = feed
            channel = item.channel
            loop = batch.loop
            self.tag = tag
            user = batch.user
            position = item.position
            limit = batch.limit
            self.readBytes = readBytes
            self.budget = budget
            self.company = company
            wantsMarks = batch.wantsMarks
        }
    }

    /// One reading of history, for all that ask for the same.
    struct Reading {
        let slot: Int
        let feed: UInt32
        let query: HistoryQuery
        var recoveries: [UInt64]
    }

    package var actions: [Action] = []
    package internal(set) var numbers = Numbers()
    let limits: Limits
    var feeds: FeedTable
    var recoveries: [UInt64: Recovery] = [:]
    var readings: [UInt64: Reading] = [:]
    /// Whom a reading of marks is for, and whether it loads the channel's.
    var markReadings: [UInt64: (slot: Int, feed: UInt32, recovery: UInt64, isLoad: Bool)] = [:]
    var marksKept = 0
    private var deadlines = Queue<(at: Instant, recovery: UInt64)>()
    private var lastKey: UInt64 = 0
    /// By namespace; "" for all others. What isn't kept as history isn't handed out from memory either.
    private var retentions: [[UInt8]: Span] = [:]
    private var now = Instant(nanoseconds: 0)

    package init(limits: Limits = Limits()) {
        self.limits = limits
        feeds = FeedTable(bytes: limits.memory, kept: limits.recent, keptPinned: limits.recentPinned)
    }

    func makeKey() -> UInt64 {
        lastKey += 1
        return lastKey
    }

    /// What namespaces keep from now on. Cost: a look at every channel.
    package func setNamespaces(_ namespaces: [String: HistoryOptions]) {
        retentions = [:]
        for (name, options) in namespaces { retentions[[UInt8](name.utf8)] = options.size > 0 ? options.ttl : .zero }
        for slot in feeds.all {
            feeds[slot].retention = retention(of: feeds[slot].channel)
            if feeds[slot].retention == .zero { feeds.forget(slot) }
        }
    }

    private func retention(of channel: Name) -> Span {
        retentions[[UInt8](channel.namespace)] ?? retentions[[]] ?? HistoryOptions().ttl
    }

    // MARK: Loops

    package func join(_ batch: JoinBatch, at now: Instant) {
        self.now = max(self.now, now)
        let budget = PageBudget(batch)
        let readBytes = PageBudget.readBytes(batch)
        let company = Company()
        for item in batch.items {
            let slot = feeds.insert(item.channel)
            feeds[slot].carriers |= 1 << UInt64(batch.loop)
            feeds[slot].retention = retention(of: item.channel)
            if feeds[slot].tip == nil && feeds[slot].asked == 0 {
                feeds[slot].asked = makeKey()
                actions.append(.subscribe(item.channel, serial: feeds[slot].asked))
            }
            if item.position != nil { feeds[slot].pins += 1 }
            let key = makeKey()
            recoveries[key] = Recovery(
                slot: slot, feed: feeds[slot].id, tag: item.tag, item, of: batch, readBytes: readBytes, budget: budget, company: company)
            deadlines.append((now + limits.patience, key))
            company.keys.append(key)
        }
        for key in company.keys { proceed(key) }
    }

    /// `loop` wants nothing of the channel any more, nor an answer.
    package func drop(_ channel: Name, loop: Int) {
        guard let slot = feeds.slot(of: channel) else { return }
        feeds[slot].carriers &= ~(1 << UInt64(loop))
        guard feeds[slot].carriers == 0 else { return }
        if let marks = feeds[slot].marks { marksKept -= marks.marks.count }
        let waiting = feeds[slot].takeWaiting() + (feeds[slot].marks?.waiting ?? [])
        feeds.remove(slot)
        actions.append(.unsubscribe(channel))
        for key in waiting { fail(key, Self.givenUp) }
    }

    /// Which loops carry the channel: a bit each.
    package func carriers(of channel: Name) -> UInt64 {
        feeds.slot(of: channel).map { feeds[$0].carriers } ?? 0
    }

    package var channelCount: Int { feeds.count }
    package var bytes: Int { feeds.bytes }
    /// Subscribers that wait for an answer.
    package var waitingCount: Int { recoveries.count }

    // MARK: The broker

    package func subscribed(_ channel: Name, _ result: Result<Position, WireError>, serial: UInt64) {
        guard let slot = feeds.slot(of: channel), feeds[slot].asked == serial else { return }
        feeds[slot].asked = 0
        switch result {
        case .success(let position):
            feeds[slot].tip = position
            // Nobody can have read what never was: a channel that hasn't begun isn't asked for read marks. Those of an inbox are the rule.
            if position.isOrigin, position != .start, feeds[slot].marks == nil { feeds[slot].marks = .empty }
            wake(slot)
        case .failure(let error):
            for key in feeds[slot].takeWaiting() { fail(key, error) }
        }
    }

    /// A publication that its owner hands to `carriers` now. Cost: one lookup; no allocation once the channel's memory is full.
    package func delivered(_ delivery: DurableDelivery, at slot: Int) {
        feeds.keep(delivery, at: slot, until: now + feeds[slot].retention)
        if feeds[slot].hasWaiting { wake(slot) }
    }

    /// Where `delivered` finds the channel, and who carries it; nil: nobody wants it.
    package func carried(_ channel: Name) -> (slot: Int, carriers: UInt64)? {
        guard let slot = feeds.slot(of: channel), feeds[slot].tip != nil else { return nil }
        return (slot, feeds[slot].carriers)
    }

    /// From `position` on the order holds again; nothing before it can be bridged over.
    package func resync(_ channel: Name, to position: Position, reason: ResyncReason) {
        guard let slot = feeds.slot(of: channel), feeds[slot].tip != nil else { return }
        feeds.forget(slot)
        feeds[slot].tip = position
        if reason == .epochChanged { forgetMarks(slot) }
        wake(slot)
    }

    package func historyRead(_ result: Result<HistoryPage, WireError>, key: UInt64) {
        guard let reading = readings.removeValue(forKey: key) else { return }
        if feeds[reading.slot].id == reading.feed { feeds[reading.slot].changeReadings { $0.removeAll { $0 == key } } }
        for key in reading.recoveries {
            guard recoveries[key] != nil else { continue }
            recoveries[key]?.isReading = false
            switch result {
            case .failure(let error): fail(key, error)
            case .success(let page):
                if case .broken(let failure) = page.continuity {
                    recoveries[key]?.failure = failure
                } else {
                    recoveries[key]?.page = page
                }
                proceed(key)
            }
        }
    }

    // MARK: Time

    /// Gives up what wasn't answered in time.
    package func tick(at now: Instant) {
        self.now = max(self.now, now)
        var late: [UInt64] = []
        // Those in front that were answered need no longer wait for their time.
        while let first = deadlines.first, first.at <= now || recoveries[first.recovery] == nil {
            if recoveries[first.recovery] != nil { late.append(first.recovery) }
            _ = deadlines.popFirst()
        }
        // Who only waited for others is answered once those are given up.
        for key in late where !isReady(key) {
            fail(key, WireError(.unavailable, "the channel's history didn't come in time: try again", retryAfter: 1_000))
        }
    }

    // MARK: Inside

    /// Something happened to the channel: those who wait for it look again.
    private func wake(_ slot: Int) {
        let waiting = feeds[slot].takeWaiting()
        for key in waiting { recoveries[key]?.isWaiting = false }
        for key in waiting { proceed(key) }
    }

    func wait(_ key: UInt64) {
        guard let recovery = recoveries[key], !recovery.isWaiting else { return }
        recoveries[key]?.isWaiting = true
        feeds[recovery.slot].wait(key)
    }

    /// Answers one that can be answered now, and all that were asked for with it; else sees to it that somebody wakes it.
    func proceed(_ key: UInt64) {
        prepare(key)
        if let company = recoveries[key]?.company, isReady(key) { answerTogether(company) }
    }

    /// Asks for what is missing for an answer.
    func prepare(_ key: UInt64) {
        guard let recovery = recoveries[key], !recovery.isReading, !recovery.isAskingMarks else { return }
        let slot = recovery.slot
        guard feeds[slot].id == recovery.feed else { return fail(key, Self.givenUp) }
        if feeds[slot].recentCount > 0 && feeds[slot].keptUntil <= now { feeds.forget(slot) }
        guard let tip = feeds[slot].tip else { return wait(key) }
        if let position = recovery.position { follow(key, recovery, position, tip) }
        if recovery.wantsMarks { readMarks(key) }
    }

    func read(_ key: UInt64, _ position: Position) {
        guard let recovery = recoveries[key] else { return }
        guard recovery.readings < limits.readings else {
            return fail(key, WireError(.unavailable, "the channel moves faster than its history can be read: try again", retryAfter: 1_000))
        }
        recoveries[key]?.readings += 1
        recoveries[key]?.isReading = true
        recoveries[key]?.isAhead = false
        let query = HistoryQuery(after: .position(position), limit: recovery.limit, bytesMax: max(recovery.readBytes, 1))
        // Many come back from the same place at once: one reading serves them.
        if let same = feeds[recovery.slot].readings.suffix(32).first(where: { readings[$0]?.query == query }) {
            readings[same]?.recoveries.append(key)
            return
        }
        let number = makeKey()
        readings[number] = Reading(slot: recovery.slot, feed: recovery.feed, query: query, recoveries: [key])
        feeds[recovery.slot].changeReadings { $0.append(number) }
        actions.append(.read(recovery.channel, query, key: number))
    }

    func fail(_ key: UInt64, _ error: WireError) {
        guard let recovery = end(key) else { return }
        numbers.failed += 1
        actions.append(.answer(.failure(error), loop: recovery.loop, tag: recovery.tag))
        answerTogether(recovery.company)
    }

    func complete(_ key: UInt64, _ answer: JoinAnswer) {
        guard let recovery = end(key) else { return }
        var answer = answer
        answer.occupancy = occupancy(recovery.channel)
        actions.append(.answer(.success(answer), loop: recovery.loop, tag: recovery.tag))
    }

    private func end(_ key: UInt64) -> Recovery? {
        guard let recovery = recoveries.removeValue(forKey: key) else { return nil }
        if recovery.position != nil, feeds[recovery.slot].id == recovery.feed { feeds[recovery.slot].pins -= 1 }
        return recovery
    }

    private static let givenUp = WireError(.unavailable, "the subscription was given up meanwhile: try again", retryAfter: 1_000)
}
