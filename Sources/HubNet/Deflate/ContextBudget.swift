import Synchronization

/// Bytes of compression state that connections may own for their whole life, in one count for the node's loops. Taken when takeover is
/// agreed to, given back when the connection ends.
package final class ContextBudget: Sendable {
    private let most: Atomic<Int>
    private let taken = Atomic<Int>(0)

    package init(limit: Int) { most = Atomic(limit) }

    /// May change while contexts are owned: those above a lower limit stay.
    package var limit: Int {
        get { most.load(ordering: .relaxed) }
        set { most.store(newValue, ordering: .relaxed) }
    }

    /// False, and nothing taken, when so many bytes aren't left.
    func take(_ bytes: Int) -> Bool {
        if taken.wrappingAdd(bytes, ordering: .relaxed).newValue <= limit { return true }
        giveBack(bytes)
        return false
    }

    func giveBack(_ bytes: Int) { taken.wrappingSubtract(bytes, ordering: .relaxed) }

    package var inUse: Int { taken.load(ordering: .relaxed) }
}
