import HubBase
import HubCore

/// What Redis's clock says, reckoned from what it said in each partition last: the masters of a cluster have clocks of their own.
///
/// An answer says too little by the time that it waited at this node. One that took long says nothing, of the others the larger of the last two
/// counts. Where the clock was stepped back it's ahead until two more answers came, and behind where it was stepped forward: who judges by it
/// must bear both.
package struct StoreClocks {
    /// Who said it.
    package enum Source {
        case sweep(partition: Int)
        /// Where all partitions are one server's it stands for those that haven't said anything yet.
        case announcement
    }

    /// How much Redis's clock is beyond the monotonic one, by the last two prompt answers, and when was asked. In milliseconds.
    private struct Clock {
        var askedAt: Instant?
        var offsets: (Int64, Int64)?
    }

    private var partitions = [Clock](repeating: Clock(), count: Partition.count)
    private var common = Clock()

    /// What may be judged late is so by a second: this is well below it.
    package static let promptWithin = Span.milliseconds(250)

    package init() {}

    private subscript(source: Source) -> Clock {
        get {
            switch source {
            case .sweep(let partition): partitions[partition]
            case .announcement: common
            }
        }
        set {
            switch source {
            case .sweep(let partition): partitions[partition] = newValue
            case .announcement: common = newValue
            }
        }
    }

    /// As the call is written. One of each is under way at a time, or the later one counts.
    package mutating func asked(_ source: Source, at now: Instant) { self[source].askedAt = now }

    package mutating func heard(_ milliseconds: UInt64, from source: Source, at now: Instant) {
        guard let askedAt = self[source].askedAt, now.since(askedAt) <= StoreClocks.promptWithin else { return }
        let offset = Int64(clamping: milliseconds) - Int64(clamping: now.nanoseconds / 1_000_000)
        self[source].offsets = (offset, self[source].offsets?.0 ?? offset)
    }

    /// Milliseconds since 1970; nil where nothing is known yet.
    package func time(_ partition: Int, at now: Instant) -> UInt64? {
        guard let offsets = partitions[partition].offsets ?? common.offsets else { return nil }
        return UInt64(clamping: max(offsets.0, offsets.1) + Int64(clamping: now.nanoseconds / 1_000_000))
    }
}
