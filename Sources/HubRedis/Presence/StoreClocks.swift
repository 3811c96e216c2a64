import HubBase
import HubCore

/// What Redis's clock says, reckoned from what it said in each partition last: the masters of a cluster have clocks of their own.
///
/// An answer that waited at this node says a little too little, so the larger of the last two counts. Where the clock was stepped back it's
/// ahead until two more answers came, and behind where it was stepped forward: who judges by it must bear both.
struct StoreClocks {
    /// Milliseconds beyond the monotonic clock.
    private var offsets = [(Int64, Int64)?](repeating: nil, count: Partition.count)
    /// Of those that haven't said anything yet: at a node's start, where all of them are one server's.
    var common: Int64?

    mutating func heard(_ milliseconds: UInt64, partition: Int, at now: Instant) {
        let offset = Int64(clamping: milliseconds) - Int64(clamping: now.nanoseconds / 1_000_000)
        offsets[partition] = (offset, offsets[partition]?.0 ?? offset)
    }

    /// Milliseconds since 1970; nil where nothing is known yet.
    func time(_ partition: Int, at now: Instant) -> UInt64? {
        let offset = offsets[partition].map { max($0.0, $0.1) } ?? common
        return offset.map { UInt64(clamping: $0 + Int64(clamping: now.nanoseconds / 1_000_000)) }
    }
}
