import HubBase
import HubWire

/// What the shell must do for the machine.
package enum HookAction: Sendable, Equatable {
    case claim(HookClaim, partition: Int, tag: RequestTag)
    /// Send these events, and say what became of it by `answered`.
    case deliver(HookDelivery)
    case tell(HookNotice)
}

package struct HookDelivery: Sendable, Equatable {
    package var number: UInt64
    package var partition: Int
    /// One at least.
    package var events: [HookEvent]
    /// Events of the partition that were lost and not told of yet.
    package var lost: UInt64
    /// The store's clock when they were read, just now: milliseconds since 1970.
    package var time: UInt64

    package init(number: UInt64, partition: Int, events: [HookEvent], lost: UInt64, time: UInt64) {
        self.number = number
        self.partition = partition
        self.events = events
        self.lost = lost
        self.time = time
    }
}

package enum HookOutcome: Sendable, Equatable {
    case answer(status: Int, retryAfter: Span?)
    case failed
}

/// For the log.
package enum HookNotice: Sendable, Equatable {
    /// The first failure after a success, and the first success after a failure.
    case troubled, recovered
    /// Refused for what they are, `HookMachine.refusalsMax` times; or too old.
    case refused(partition: Int, HookEventID, status: Int)
    case tooOld(partition: Int, count: Int)
    /// Entries that aren't a hub's.
    case foreign(partition: Int, count: Int)
    /// The queue was full.
    case overflowed(partition: Int, count: UInt64)
    /// The partition's keys hold what isn't ours.
    case unreadable(partition: Int, WireError)
}

/// Counts since start.
package struct HookNumbers: Sendable, Equatable {
    /// Events that a receiver has taken.
    package var delivered: UInt64 = 0
    package var requestsDelivered: UInt64 = 0
    package var requestsRefused: UInt64 = 0
    package var requestsFailed: UInt64 = 0
    /// Events that were given up.
    package var refused: UInt64 = 0
    package var tooOld: UInt64 = 0
    package var foreign: UInt64 = 0
    package var overflowed: UInt64 = 0

    package init() {}
}

extension HookMachine {
    mutating func deliver(_ page: HookPage, _ place: Int, at now: Instant) {
        let old = page.events.prefix { page.now > $0.id.milliseconds && page.now - $0.id.milliseconds >= limits.keep.milliseconds }
        let events = page.events.dropFirst(old.count).filter(\.isReadable)
        let foreign = page.events.dropFirst(old.count).filter { !$0.isReadable }
        if !old.isEmpty {
            slots[place].dropped += old.map(\.id)
            numbers.tooOld &+= UInt64(old.count)
            slots[place].refusals = 0
            slots[place].singles = max(slots[place].singles - old.count, 0)
            actions.append(.tell(.tooOld(partition: place, count: old.count)))
        }
        if !foreign.isEmpty {
            slots[place].dropped += foreign.map(\.id)
            numbers.foreign &+= UInt64(foreign.count)
            actions.append(.tell(.foreign(partition: place, count: foreign.count)))
        }
        let givenUp = old.count + foreign.count
        guard !events.isEmpty else {
            if givenUp > 0 { slots[place].nextClaim = now }
            return
        }
        lastFlight += 1
        busy += 1
        let lost = page.lost &+ UInt64(givenUp)
        slots[place].flight = lastFlight
        slots[place].inFlight = events.map(\.id)
        slots[place].lostInFlight = lost
        let untold = lost > slots[place].told ? lost - slots[place].told : 0
        actions.append(.deliver(HookDelivery(number: lastFlight, partition: place, events: events, lost: untold, time: page.now)))
    }

    package mutating func answered(_ outcome: HookOutcome, number: UInt64, partition place: Int, at now: Instant) {
        guard slots.indices.contains(place), slots[place].flight == number else { return }
        busy -= 1
        slots[place].flight = nil
        let ids = slots[place].inFlight
        slots[place].inFlight = []
        switch outcome {
        case .answer(200..<300, _): succeeded(place, ids, at: now)
        case .answer(let status, _) where HookMachine.isRefusal(status): refused(place, ids, status, at: now)
        case .answer(_, let retryAfter):
            failed(place, at: now)
            if let retryAfter { waitsUntil = max(waitsUntil, now + min(retryAfter, HookMachine.retryAfterMax)) }
        case .failed: failed(place, at: now)
        }
    }

    /// Statuses that speak of what was sent. All others may be the receiver's trouble, or a wrong address, that somebody mends.
    static func isRefusal(_ status: Int) -> Bool { [400, 410, 413, 422].contains(status) }

    private mutating func succeeded(_ place: Int, _ ids: [HookEventID], at now: Instant) {
        numbers.delivered &+= UInt64(ids.count)
        numbers.requestsDelivered &+= 1
        settle(place, ids.count, at: now)
        slots[place].settled += ids
        slots[place].told = max(slots[place].told, slots[place].lostInFlight)
        if slots[place].failures > 0 { failing -= 1 }
        slots[place].failures = 0
        pausedUntil = now
        if isTroubled {
            isTroubled = false
            actions.append(.tell(.recovered))
        }
        guard downFailures > 0 else { return }
        // It's back: nobody waits out what was its trouble.
        downFailures = 0
        failing = 0
        for other in slots.indices where slots[other].failures > 0 {
            slots[other].failures = 0
            slots[other].retryAt = now
        }
    }

    /// The first `count` events need no more offers; they're taken away at once.
    private mutating func settle(_ place: Int, _ count: Int, at now: Instant) {
        slots[place].nextClaim = now
        slots[place].refusals = 0
        slots[place].singles = max(slots[place].singles - count, 0)
        slots[place].length = max(slots[place].length - count, 0)
        slots[place].retryAt = now
    }

    private mutating func refused(_ place: Int, _ ids: [HookEventID], _ status: Int, at now: Instant) {
        numbers.requestsRefused &+= 1
        guard slots[place].holding == .ours else { return }
        if slots[place].failures > 0 { failing -= 1 }
        slots[place].failures = 0
        guard ids.count == 1, let id = ids.first else {
            // One of them, or more: each by itself, at once.
            slots[place].singles = ids.count
            slots[place].retryAt = now
            return
        }
        slots[place].refusals += 1
        guard slots[place].refusals >= HookMachine.refusalsMax else {
            slots[place].retryAt = now + wait(after: slots[place].refusals, upTo: limits.retryMax)
            return
        }
        numbers.refused &+= 1
        actions.append(.tell(.refused(partition: place, id, status: status)))
        slots[place].dropped.append(id)
        settle(place, 1, at: now)
    }

    private mutating func failed(_ place: Int, at now: Instant) {
        numbers.requestsFailed &+= 1
        guard slots[place].holding == .ours else { return }
        if slots[place].failures == 0 { failing += 1 }
        slots[place].failures += 1
        slots[place].retryAt = now + wait(after: slots[place].failures, upTo: limits.retryMax)
        if !isTroubled {
            isTroubled = true
            actions.append(.tell(.troubled))
        }
        guard failing >= HookMachine.downAt else { return }
        downFailures += 1
        pausedUntil = max(pausedUntil, now + wait(after: downFailures, upTo: min(HookMachine.downWaitMax, limits.retryMax)))
    }

    /// 1 s, doubled each time, the second half of it by chance.
    private mutating func wait(after count: Int, upTo longest: Span) -> Span {
        let whole = min(Span.seconds(1 << UInt64(min(count - 1, 20))), longest)
        return Span(nanoseconds: whole.nanoseconds / 2) + chance.span(in: .zero..<Span(nanoseconds: whole.nanoseconds / 2))
    }
}
