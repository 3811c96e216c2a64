import Synchronization

/// How many connections the node may hold: one count, shared by its loops. Taken at accept, given back at the end.
package final class ConnectionBudget: Sendable {
    package let limit: Int
    private let taken = Atomic<Int>(0)

    package init(limit: Int) { self.limit = limit }

    package func take() -> Bool {
        if taken.wrappingAdd(1, ordering: .relaxed).newValue <= limit { return true }
        taken.wrappingSubtract(1, ordering: .relaxed)
        return false
    }

    package func giveBack() { taken.wrappingSubtract(1, ordering: .relaxed) }

    package var inUse: Int { taken.load(ordering: .relaxed) }
}
