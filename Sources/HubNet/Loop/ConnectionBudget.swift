import Synchronization

/// How many connections the node may hold: one count, shared by its loops. Taken at accept, given back at the end.
///
/// Beyond the limit there are a few places for short HTTP requests: a node that is full still answers its probes, and tells WebSocket
/// clients in words that it's full.
package final class ConnectionBudget: Sendable {
    private let most: Atomic<Int>
    private let ceiling: Int
    private let taken = Atomic<Int>(0)
    private let takenOfReserve = Atomic<Int>(0)

    package static let reserve = 16

    /// `ceiling`: what the process has descriptors for, the reserve not counted; no limit goes beyond it.
    package init(limit: Int, ceiling: Int = .max) {
        most = Atomic(limit)
        self.ceiling = ceiling
    }

    /// May change while connections are held: those above a lower limit stay.
    package var limit: Int {
        get { min(most.load(ordering: .relaxed), ceiling) }
        set { most.store(newValue, ordering: .relaxed) }
    }

    package enum Place { case ordinary, reserve }

    /// nil: there's none left, and nothing was taken.
    package func take() -> Place? {
        if taken.wrappingAdd(1, ordering: .relaxed).newValue <= limit { return .ordinary }
        taken.wrappingSubtract(1, ordering: .relaxed)
        if takenOfReserve.wrappingAdd(1, ordering: .relaxed).newValue <= Self.reserve { return .reserve }
        takenOfReserve.wrappingSubtract(1, ordering: .relaxed)
        return nil
    }

    package func giveBack(_ place: Place) {
        switch place {
        case .ordinary: taken.wrappingSubtract(1, ordering: .relaxed)
        case .reserve: takenOfReserve.wrappingSubtract(1, ordering: .relaxed)
        }
    }

    /// Ordinary places.
    package var inUse: Int { taken.load(ordering: .relaxed) }
}
