import HubBase
import HubCore
import Synchronization

/// A bucket that the loops of a node share: one word, taken from without a lock.
final class SharedBucket: Sendable {
    private let emptyAt = Atomic<UInt64>(0)

    /// Takes so many tokens; nil when they were there, else the time until they are.
    func take(_ amount: Int = 1, of rate: Rate, at now: Instant) -> Span? {
        guard rate.isLimited else { return nil }
        var seen = emptyAt.load(ordering: .relaxed)
        while true {
            let (next, wait) = TokenBucket.judge(Instant(nanoseconds: seen), amount, of: rate, at: now)
            if let wait { return wait }
            let (done, current) = emptyAt.compareExchange(expected: seen, desired: next.nanoseconds, ordering: .relaxed)
            if done { return nil }
            seen = current
        }
    }

    /// The time until there's one token; nil when there is.
    func wait(of rate: Rate, at now: Instant) -> Span? {
        guard rate.isLimited else { return nil }
        return TokenBucket.judge(Instant(nanoseconds: emptyAt.load(ordering: .relaxed)), 1, of: rate, at: now).wait
    }

    func isFull(of rate: Rate, at now: Instant) -> Bool {
        TokenBucket(emptyAt: Instant(nanoseconds: emptyAt.load(ordering: .relaxed))).isFull(of: rate, at: now)
    }
}

/// The buckets of one client address.
final class AddressPace: Sendable {
    let messages = SharedBucket()
    let bytes = SharedBucket()
    let subscribes = SharedBucket()
    let failures = SharedBucket()

    /// A message came.
    func message(bytes count: Int, _ paces: Paces, at now: Instant) -> Refusal? {
        if let wait = messages.take(of: paces[.addressMessages], at: now) {
            return RateLimit.addressMessages.refusal(paces[.addressMessages], after: wait)
        }
        if let wait = bytes.take(count, of: paces[.addressBytes], at: now) {
            return RateLimit.addressBytes.refusal(paces[.addressBytes], after: wait)
        }
        return nil
    }

    func isIdle(_ paces: Paces, at now: Instant) -> Bool {
        messages.isFull(of: paces[.addressMessages], at: now) && bytes.isFull(of: paces[.addressBytes], at: now)
            && subscribes.isFull(of: paces[.addressSubscribes], at: now) && failures.isFull(of: paces[.addressFailures], at: now)
    }
}

/// The buckets of all client addresses of a node. Asked for with a lock, once for each connection; then each loop keeps its own reference.
final class AddressPaces: Sendable {
    private struct Table {
        var places: [UInt64: Int] = [:]
        var entries: [(key: UInt64, pace: AddressPace)] = []
        var hand = 0
    }

    private let table = Mutex(Table())

    /// The address's buckets. Those that nobody holds and that are full again are forgotten as others come.
    func pace(of key: UInt64, _ paces: Paces, at now: Instant) -> AddressPace {
        table.withLock { table in
            if let place = table.places[key] { return table.entries[place].pace }
            for _ in 0..<4 { Self.forgetNext(&table, paces, at: now) }
            let pace = AddressPace()
            table.places[key] = table.entries.count
            table.entries.append((key, pace))
            return pace
        }
    }

    private static func forgetNext(_ table: inout Table, _ paces: Paces, at now: Instant) {
        guard !table.entries.isEmpty else { return }
        table.hand = (table.hand + 1) % table.entries.count
        let place = table.hand
        guard table.entries[place].pace.isIdle(paces, at: now), isKnownUniquelyReferenced(&table.entries[place].pace) else { return }
        table.places[table.entries[place].key] = nil
        let last = table.entries.removeLast()
        guard place < table.entries.count else { return }
        table.entries[place] = last
        table.places[last.key] = place
    }

    var count: Int { table.withLock { $0.entries.count } }
}

/// The buckets of the API's keys, by their ids: few, and they stay.
final class KeyPaces: Sendable {
    struct Pace: Sendable {
        let requests = SharedBucket()
        let messages = SharedBucket()
    }

    private let table = Mutex<[String: Pace]>([:])

    func pace(of id: String) -> Pace {
        table.withLock { table in
            if let known = table[id] { return known }
            let made = Pace()
            table[id] = made
            return made
        }
    }
}
