import Synchronization

/// How many connections each client address holds: one table for the node, asked once at accept and once at the end.
///
/// An IPv6 client owns a whole /64 as a rule, so that counts as one address. An address without a connection has no entry: the table is never
/// larger than the number of connections.
package final class AddressTable: Sendable {
    private let counts = Mutex<[UInt64: Int]>([:])

    package init() {}

    /// False, and nothing taken, when `key` holds `limit` places already.
    package func take(_ key: UInt64, limit: Int) -> Bool {
        counts.withLock { counts in
            let held = counts[key, default: 0]
            guard held < limit else { return false }
            counts[key] = held + 1
            return true
        }
    }

    package func giveBack(_ key: UInt64) {
        counts.withLock { counts in
            guard let held = counts[key] else { return }
            counts[key] = held > 1 ? held - 1 : nil
        }
    }

    package var count: Int { counts.withLock { $0.count } }
}
