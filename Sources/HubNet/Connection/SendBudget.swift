import Synchronization

/// The memory that all outbound queues of the node may hold together: one count, shared by its loops. It's taken when a queue's memory grows,
/// which doubles at least every other time, and never for a delivery.
package final class SendBudget: Sendable {
    private let most: Atomic<Int>
    private let taken = Atomic<Int>(0)

    /// Queues up to this size may use all of the budget, larger ones seven eighths: who stalls for a moment isn't cut off for those who
    /// have stalled for long, on whichever loop they are.
    package static let smallBytes = 16 * 1024

    package init(limit: Int) { most = Atomic(limit) }

    /// May change while memory is held.
    package var limit: Int {
        get { most.load(ordering: .relaxed) }
        set { most.store(newValue, ordering: .relaxed) }
    }

    package var inUse: Int { taken.load(ordering: .relaxed) }

    /// Takes `bytes` for a queue that will hold `total` of them; false, and nothing taken, when they aren't there.
    package func take(_ bytes: Int, of total: Int) -> Bool {
        let limit = limit
        let bound = total <= Self.smallBytes ? limit : limit - limit / 8
        if taken.wrappingAdd(bytes, ordering: .relaxed).newValue <= bound { return true }
        taken.wrappingSubtract(bytes, ordering: .relaxed)
        return false
    }

    /// What is there already, or is freed: positive or negative.
    package func adjust(by bytes: Int) { taken.wrappingAdd(bytes, ordering: .relaxed) }
}
