import HubBase
import Synchronization

/// How many connections each user has on this node, for `limits.connectionsPerUser`: exact, also where two loops open one at the same time. Users
/// without a counted connection have no entry.
final class UserConnections: Sendable {
    private let counts = Mutex<[Name: Int]>([:])

    /// False, and nothing taken, when the user has `limit` already.
    func take(_ user: Name, limit: Int) -> Bool {
        counts.withLock { counts in
            let held = counts[user, default: 0]
            guard held < limit else { return false }
            counts[user] = held + 1
            return true
        }
    }

    func giveBack(_ user: Name) {
        counts.withLock { counts in
            guard let held = counts[user] else { return }
            counts[user] = held > 1 ? held - 1 : nil
        }
    }

    var count: Int { counts.withLock { $0.count } }
}
