import Synchronization

/// How many connections the node may hold: one count, shared by its loops. Taken at accept, given back at the end.
package final class ConnectionBudget: Sendable {
    private let most: Atomic<Int>
    private let taken = Atomic<Int>(0)

    package init(limit: Int) { most = Atomic(limit) }

    /// May change while connections are held: those above a lower limit stay.
    package var limit: Int {
        get { most.load(ordering: .relaxed) }
        set { most.store(newValue, ordering: .relaxed) }
    }

    package func take() -> Bool {
        if taken.wrappingAdd(1, ordering: .relaxed).newValue <= limit { return true }
        taken.wrappingSubtract(1, ordering: .relaxed)
        return false
    }

    package func giveBack() { taken.wrappingSubtract(1, ordering: .relaxed) }

    package var inUse: Int { taken.load(ordering: .relaxed) }
}
