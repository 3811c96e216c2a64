import HubBase
import HubWire

/// Delivers what the queues of webhooks hold, for one node. A machine: inputs in, actions out (`takeActions`), no clock, no chance of its own.
///
/// - *At least once, in order.* A partition is delivered by the node that holds its lease, one request at a time, from the queue's head; what
///   was delivered is taken away afterwards. A node that dies or stands still in between is followed by another, which begins at the same
///   head: receivers may get events again, and see them by their ids, but none after a later one of the same user for the first time.
/// - *Shared.* Whoever finds a partition that nobody holds takes it. Who has less than its part of the living nodes asks for others', and who
///   has more lets go of what was asked for, so that no partition waits for somebody who doesn't come: not every node may deliver.
/// - *Trouble of one isn't trouble of all.* A partition whose request fails waits alone, longer each time. When several fail, and nothing
///   succeeds, the receiver is taken to be down: one request at a time, at a growing distance, until one succeeds.
/// - *Nothing is kept here* but numbers: events are read when there is a place for their request, and again after a failure.
package struct HookMachine {
    package struct Limits: Sendable, Equatable {
        /// Events of one request.
        package var batch = 100
        /// Requests under way.
        package var concurrency = 8
        /// Events older than this are given up.
        package var keep = Span.seconds(24 * 3600)
        /// The longest wait between two attempts.
        package var retryMax = Span.seconds(300)
        package var lease = Span.seconds(15)

        package init() {}
    }

    /// How often an event is offered that the receiver refuses for what it is.
    package static let refusalsMax = 8
    /// Partitions that must be failing for the receiver to count as down, and the longest distance between its requests then.
    static let downAt = 4
    static let downWaitMax = Span.seconds(30)
    /// What a receiver may ask for by `Retry-After`.
    static let retryAfterMax = Span.seconds(3600)
    /// Between two looks at what is held, or was asked for, about.
    static let look = Span.seconds(1)
    /// A second event of a partition has so long to go with the first.
    static let gather = Span.milliseconds(20)

    package internal(set) var limits: Limits
    package internal(set) var numbers = HookNumbers()
    let tagSpace: UInt64
    var chance: Chance
    var slots: [Slot]
    var actions: [HookAction] = []
    /// Living nodes; 0 until they are known.
    var nodes = 0
    /// Some of the partitions may be nobody's now.
    var mayBeFree = false
    var isStopped = false
    /// Requests that are under way, and reads whose events will be one.
    var busy = 0
    var lastFlight: UInt64 = 0
    /// Partitions whose last request failed.
    var failing = 0
    var downFailures = 0
    var pausedUntil = Instant(nanoseconds: 0)
    /// What the receiver asked for.
    var waitsUntil = Instant(nanoseconds: 0)
    var isTroubled = false
    /// Where the next look for work begins.
    var turn = 0

    struct Slot {
        enum Holding { case none, ours }
        var holding = Holding.none
        /// By our clock, from when the claim was made.
        var heldUntil = Instant(nanoseconds: 0)
        var nextClaim: Instant
        /// Another node held it when we last looked.
        var isOthers = false
        /// Another node asks for it.
        var isWanted = false
        /// What the next answer says of that may come of a node that has gone since.
        var isWishOld = false
        /// We ask for it so long, and look whether it was let go so long.
        var asksUntil = Instant(nanoseconds: 0)
        var looksUntil = Instant(nanoseconds: 0)

        /// A claim is under way: since when, whether it reads, and how much of what is settled it carries.
        var askedAt: Instant?
        var isReading = false
        var isTaking = false
        var sentSettled = 0
        var sentDropped = 0
        /// Something was appended since it was made.
        var isNoticed = false

        /// What waits, as far as is known.
        var length = 0
        var oldest: UInt64?
        var overflowed: UInt64?
        var lost: UInt64 = 0
        var told: UInt64 = 0
        /// When the store's clock was what.
        var clock: (store: UInt64, ours: Instant)?

        var flight: UInt64?
        var inFlight: [HookEventID] = []
        var lostInFlight: UInt64 = 0
        var settled: [HookEventID] = []
        var dropped: [HookEventID] = []

        var retryAt = Instant(nanoseconds: 0)
        var failures = 0
        /// Offers of the first event that were refused, and how many events are offered one by one to find which it was.
        var refusals = 0
        var singles = 0

        init(nextClaim: Instant) { self.nextClaim = nextClaim }
    }

    /// - Parameter tagSpace: the `high` word of the tags of its claims.
    package init(limits: Limits, tagSpace: UInt64, chance: Chance, at now: Instant) {
        self.limits = limits
        self.tagSpace = tagSpace
        var chance = chance
        slots = (0..<Partition.count).map { _ in Slot(nextClaim: now + chance.span(in: .zero ..< .seconds(1))) }
        self.chance = chance
    }

    package func owns(_ tag: RequestTag) -> Bool { tag.high == tagSpace }

    package mutating func takeActions() -> [HookAction] {
        defer { actions.removeAll(keepingCapacity: true) }
        return actions
    }

    /// The receiver, or what it may get, has changed: nothing that was learnt of the old one counts.
    package mutating func setLimits(_ limits: Limits, at now: Instant) {
        self.limits = limits
        pausedUntil = now
        waitsUntil = now
        failing = 0
        downFailures = 0
        for place in slots.indices {
            slots[place].failures = 0
            slots[place].refusals = 0
            slots[place].singles = 0
            slots[place].retryAt = now
        }
    }

    package mutating func nodesLive(_ count: Int) {
        // Who is gone holds nothing any more, or not for long.
        if count < nodes { mayBeFree = true }
        nodes = count
    }

    /// Another node has let go of what it held.
    package mutating func othersLetGo() { mayBeFree = true }

    /// Something was appended to the partition's queue, or may have been.
    package mutating func noticed(_ partition: Int, at now: Instant) {
        guard slots[partition].holding == .ours else { return }
        if slots[partition].askedAt != nil { slots[partition].isNoticed = true }
        if slots[partition].length == 0 {
            slots[partition].length = 1
            let soon = now + HookMachine.gather
            if slots[partition].retryAt < soon { slots[partition].retryAt = soon }
        }
    }

    package mutating func tick(at now: Instant) {
        guard !isStopped, nodes > 0 else { return }
        if mayBeFree { lookAround(at: now) }
        var held = slots.reduce(0) { $1.holding == .ours ? $0 + 1 : $0 }
        letGo(&held, at: now)
        // Reading first: it settles and renews as well.
        work(at: now)
        renew(at: now)
        if held < share { ask(for: share - held, at: now) }
    }

    /// Lets go of everything, so that others needn't wait for the leases to run out; also of what a claim under way holds or takes, behind
    /// it. Nothing happens afterwards: nobody waits for answers any more.
    package mutating func stop(at now: Instant) {
        guard !isStopped else { return }
        isStopped = true
        for place in slots.indices where slots[place].holding == .ours || slots[place].isTaking {
            claim(place, .letGo, reads: false, at: now)
        }
    }

    // MARK: Claims

    private var isDown: Bool { failing >= HookMachine.downAt }
    private var allowed: Int { isDown ? 1 : limits.concurrency }
    /// Nobody asks for more, and everybody gives what is above. Where it isn't a whole number some have one more: with less than this, somebody
    /// else has more.
    private var share: Int { Partition.count / max(nodes, 1) }

    /// All look at once where one has gone, spread over a second, a bit later than it is known: the first that comes takes.
    private mutating func lookAround(at now: Instant) {
        mayBeFree = false
        for place in slots.indices {
            // What the gone one asked for would be nobody's. Others ask again.
            slots[place].isWanted = false
            slots[place].isWishOld = slots[place].holding == .ours
            guard slots[place].holding != .ours else { continue }
            let soon = now + HookMachine.look.scaled(by: 0.2) + chance.span(in: .zero..<HookMachine.look)
            slots[place].nextClaim = min(slots[place].nextClaim, soon)
        }
    }

    private mutating func letGo(_ held: inout Int, at now: Instant) {
        for place in slots.indices where held > share {
            // Between two requests: what was delivered goes along.
            guard slots[place].isWanted, slots[place].holding == .ours, slots[place].askedAt == nil, slots[place].flight == nil else {
                continue
            }
            claim(place, .letGo, reads: false, at: now)
            held -= 1
        }
    }

    private mutating func renew(at now: Instant) {
        for place in slots.indices {
            if slots[place].holding == .ours, slots[place].heldUntil <= now { lose(place) }
            guard slots[place].askedAt == nil, slots[place].nextClaim <= now else { continue }
            claim(place, slots[place].asksUntil > now ? .want : .take, reads: false, at: now)
        }
    }

    /// Others read it when they renew, and let go if they have more than their share. What wasn't let go in time stays, and others' are asked for.
    private mutating func ask(for count: Int, at now: Instant) {
        var open = count
        for slot in slots where slot.holding != .ours && (slot.isTaking || slot.asksUntil > now) { open -= 1 }
        guard open > 0 else { return }
        // In an order by chance, so that all who have too much are asked alike; an odd step comes by every place.
        let first = Int(truncatingIfNeeded: chance.next() >> 1)
        let step = first >> 16 | 1
        for turn in slots.indices where open > 0 {
            let place = (first &+ turn &* step) & (slots.count - 1)
            guard slots[place].isOthers, slots[place].asksUntil <= now else { continue }
            // Until its holder has renewed it; and what it lets go of then may have been asked for just before.
            slots[place].asksUntil = now + pace + HookMachine.look
            slots[place].looksUntil = slots[place].asksUntil + pace + HookMachine.look + HookMachine.look
            slots[place].nextClaim = now + chance.span(in: .zero..<HookMachine.look)
            open -= 1
        }
    }

    /// How often a lease is renewed, and its queue looked at: not every node hears of what is appended to it (a channel's first member, with feeds
    /// of single users everything).
    private var pace: Span { min(HookMachine.look, Span(nanoseconds: limits.lease.nanoseconds / 3)) }

    /// Reads for the partitions that have something to deliver, as far as requests are allowed.
    private mutating func work(at now: Instant) {
        guard pausedUntil <= now, waitsUntil <= now else { return }
        for step in slots.indices where busy < allowed {
            let place = (turn + step) % slots.count
            let slot = slots[place]
            guard slot.holding == .ours, slot.askedAt == nil, slot.flight == nil, slot.length > 0, slot.retryAt <= now else { continue }
            claim(place, .take, reads: true, at: now)
            turn = (place + 1) % slots.count
        }
    }

    private mutating func claim(_ place: Int, _ holding: HookClaim.Holding, reads: Bool, at now: Instant) {
        let limit = reads ? (slots[place].singles > 0 ? 1 : limits.batch) : 0
        slots[place].askedAt = now
        slots[place].isReading = reads
        slots[place].isTaking = holding != .letGo && slots[place].holding != .ours
        slots[place].isNoticed = false
        slots[place].sentSettled = slots[place].settled.count
        slots[place].sentDropped = slots[place].dropped.count
        if holding == .letGo { lose(place) }
        if reads { busy += 1 }
        let claim = HookClaim(
            holding: holding, lease: limits.lease, settled: slots[place].settled, dropped: slots[place].dropped, told: slots[place].told,
            limit: limit)
        actions.append(.claim(claim, partition: place, tag: RequestTag(high: tagSpace, low: UInt64(place))))
    }

    package mutating func claimed(_ result: Result<HookPage, WireError>, tag: RequestTag, at now: Instant) {
        guard !isStopped, owns(tag), tag.low < UInt64(slots.count) else { return }
        let place = Int(tag.low)
        guard let askedAt = slots[place].askedAt else { return }
        let wasReading = slots[place].isReading
        slots[place].askedAt = nil
        slots[place].isReading = false
        slots[place].isTaking = false
        if wasReading { busy -= 1 }
        switch result {
        case .failure(let error):
            // What is settled stays, and goes with the next one.
            slots[place].nextClaim = now + chance.span(in: error.mayRetry ? .seconds(1) ..< .seconds(2) : .seconds(30) ..< .seconds(60))
            slots[place].retryAt = max(slots[place].retryAt, slots[place].nextClaim)
            if !error.mayRetry { actions.append(.tell(.unreadable(partition: place, error))) }
        case .success(let page):
            slots[place].settled.removeFirst(slots[place].sentSettled)
            slots[place].dropped.removeFirst(slots[place].sentDropped)
            adopt(page, place, askedAt: askedAt, wasReading: wasReading, at: now)
        }
    }

    private mutating func adopt(_ page: HookPage, _ place: Int, askedAt: Instant, wasReading: Bool, at now: Instant) {
        slots[place].isWanted = page.isWanted && !slots[place].isWishOld
        slots[place].isWishOld = false
        slots[place].isOthers = false
        switch page.holder {
        case .us:
            slots[place].asksUntil = now
            slots[place].looksUntil = now
            if slots[place].holding != .ours { slots[place].overflowed = nil }
            slots[place].holding = .ours
            slots[place].heldUntil = askedAt + limits.lease
            slots[place].nextClaim = askedAt + pace.scaled(by: 0.9) + chance.span(in: .zero..<pace.scaled(by: 0.1))
            slots[place].length = page.length
            slots[place].oldest = page.oldest
            slots[place].clock = (page.now, now)
            slots[place].lost = page.lost
            slots[place].told = max(page.told, min(slots[place].told, page.lost))
            if let before = slots[place].overflowed, page.overflowed > before {
                numbers.overflowed &+= page.overflowed - before
                actions.append(.tell(.overflowed(partition: place, count: page.overflowed - before)))
            }
            slots[place].overflowed = page.overflowed
            if slots[place].isNoticed && page.length == 0 { slots[place].length = 1 }
            if wasReading { deliver(page, place, at: now) }
        case .other(let left):
            forget(place)
            slots[place].isOthers = true
            let wait = slots[place].looksUntil > now ? HookMachine.look.scaled(by: 0.5) : left
            slots[place].nextClaim = now + wait + chance.span(in: .zero..<HookMachine.look)
        case .nobody:
            forget(place)
            // Who asked for it has looked by then, or doesn't any more.
            slots[place].nextClaim = now + HookMachine.look.scaled(by: 1.6) + chance.span(in: .zero..<HookMachine.look.scaled(by: 0.3))
        }
    }

    /// The lease is over; what the receiver made of this partition is the next holder's to find out.
    private mutating func lose(_ place: Int) {
        slots[place].holding = .none
        if slots[place].failures > 0 { failing -= 1 }
        slots[place].failures = 0
        slots[place].refusals = 0
        slots[place].singles = 0
    }

    private mutating func forget(_ place: Int) {
        if slots[place].holding == .ours { lose(place) }
        slots[place].length = 0
        slots[place].oldest = nil
        slots[place].clock = nil
        slots[place].overflowed = nil
    }

    // MARK: Numbers

    package var holdsAny: Bool { slots.contains { $0.holding == .ours || $0.isTaking } }

    /// Events that wait in the partitions that this node holds, and how long the oldest does.
    package func backlog(at now: Instant) -> (length: Int, oldest: Span) {
        var length = 0
        var oldest = Span.zero
        for slot in slots where slot.holding == .ours {
            length += slot.length
            guard let since = slot.oldest, let clock = slot.clock, slot.length > 0 else { continue }
            let age = Span.milliseconds(clock.store > since ? clock.store - since : 0) + now.since(clock.ours)
            oldest = max(oldest, age)
        }
        return (length, oldest)
    }
}
