import HubBase
import HubCore
import HubNet
import HubWire

/// How old changes are when watchers get them: from the cause, by the store's clock, until the change lies in the last watcher's queue on this
/// loop, which is written at the turn's end.
extension GatewayLoop {
    func noteCauses(of changes: [PresenceChange]) {
        for change in changes where watched.slot(of: change.user) != nil && change.lastSeen > 0 {
            causesWaiting.append(PresenceCauseTime(status: change.status, time: change.lastSeen))
        }
    }

    func noteWritten() {
        defer { causesWaiting.removeAll(keepingCapacity: true) }
        guard !causesWaiting.isEmpty, let now = state.storeMilliseconds(at: net.now) else { return }
        for cause in causesWaiting { numbers.staleness.add(cause.status, milliseconds: UInt64(max(0, now - Int64(clamping: cause.time)))) }
    }
}

struct PresenceCauseTime {
    var status: PresenceStatus
    /// Milliseconds since 1970 by the store's clock: the change, or for an offline user when it was seen last.
    var time: UInt64
}

/// A histogram for each status.
struct StalenessNumbers: Sendable {
    /// Upper bounds in milliseconds; one more bucket holds what's above all.
    static let bounds: [UInt64] = [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 15_000, 30_000, 60_000, 90_000, 300_000]

    private(set) var counts = [UInt64](repeating: 0, count: PresenceStatus.allCases.count * (bounds.count + 1))
    private(set) var sums = [UInt64](repeating: 0, count: PresenceStatus.allCases.count)

    mutating func add(_ status: PresenceStatus, milliseconds: UInt64) {
        let bucket = Self.bounds.firstIndex { milliseconds <= $0 } ?? Self.bounds.count
        counts[Int(status.rawValue) * (Self.bounds.count + 1) + bucket] &+= 1
        sums[Int(status.rawValue)] &+= milliseconds
    }

    /// In the buckets up to and with that one.
    func cumulative(_ status: PresenceStatus, upTo bucket: Int) -> UInt64 {
        let start = Int(status.rawValue) * (Self.bounds.count + 1)
        return counts[start...start + bucket].reduce(0, &+)
    }
}
