import HubBase
import Synchronization

/// What each client address holds and opens: one table for the node, asked once at accept and once at the end.
///
/// An IPv6 client owns a whole /64 as a rule, so that counts as one address. An address without a connection has no entry unless its pace is still
/// to be remembered: the table isn't larger than the number of connections, and of those that came within `limits.burst`.
package final class AddressTable: Sendable {
    private struct Entry {
        var key: UInt64
        var held = 0
        var connects = TokenBucket()
    }

    private struct Table {
        var places: [UInt64: Int] = [:]
        var entries: [Entry] = []
        var hand = 0
    }

    package enum Verdict: Sendable, Equatable {
        case taken
        /// It holds as many places as it may.
        case tooMany
        /// It opens them too fast: in so much time it may go on.
        case tooFast(Span)
    }

    private let table = Mutex(Table())

    package init() {}

    /// Takes a place for `key`, unless it holds `limit` already, or goes past `connects`; then nothing is taken.
    package func take(_ key: UInt64, limit: Int, connects: Rate = .unlimited, at now: Instant) -> Verdict {
        table.withLock { table in
            let place: Int
            if let known = table.places[key] {
                place = known
            } else {
                for _ in 0..<4 { Self.forgetNext(&table, connects, at: now) }
                place = table.entries.count
                table.entries.append(Entry(key: key))
                table.places[key] = place
            }
            guard table.entries[place].held < limit else { return .tooMany }
            if let wait = table.entries[place].connects.take(of: connects, at: now) { return .tooFast(wait) }
            table.entries[place].held += 1
            return .taken
        }
    }

    package func giveBack(_ key: UInt64) {
        table.withLock { table in
            guard let place = table.places[key], table.entries[place].held > 0 else { return }
            table.entries[place].held -= 1
            if table.entries[place].held == 0 && table.entries[place].connects == TokenBucket() { Self.remove(&table, at: place) }
        }
    }

    /// Those who left are forgotten as others come, once their allowance is whole again.
    private static func forgetNext(_ table: inout Table, _ connects: Rate, at now: Instant) {
        guard !table.entries.isEmpty else { return }
        table.hand = (table.hand + 1) % table.entries.count
        let entry = table.entries[table.hand]
        if entry.held == 0 && entry.connects.isFull(of: connects, at: now) { remove(&table, at: table.hand) }
    }

    private static func remove(_ table: inout Table, at place: Int) {
        table.places[table.entries[place].key] = nil
        let last = table.entries.removeLast()
        guard place < table.entries.count else { return }
        table.entries[place] = last
        table.places[last.key] = place
    }

    package var count: Int { table.withLock { $0.entries.count } }
}
