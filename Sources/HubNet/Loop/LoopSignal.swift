import Synchronization

/// The one part of a loop that other threads touch: wakes it, stops it. Outlives the loop for whoever holds it.
package final class LoopSignal: Sendable {
    let descriptor: Int32
    private let isPending = Atomic<Bool>(false)
    private let isStopping = Atomic<Bool>(false)

    init() throws(NetError) { descriptor = try System.makeEvent() }

    deinit { System.close(descriptor) }

    /// Any thread: makes `woken` be called in the loop's next turn, also when the loop itself calls it. While a wake is pending it costs
    /// one atomic exchange.
    package func wake() {
        if !isPending.exchange(true, ordering: .acquiringAndReleasing) { System.signalEvent(descriptor) }
    }

    /// Any thread: `run` returns after the current turn.
    package func stop() {
        isStopping.store(true, ordering: .releasing)
        System.signalEvent(descriptor)
    }

    /// The loop's thread: takes the signal. True when `wake` was called since the last time. What was posted before that `wake` is visible
    /// afterwards: the flag is lowered first, so that a later post signals anew.
    func take() -> Bool {
        System.drainEvent(descriptor)
        return isPending.exchange(false, ordering: .acquiringAndReleasing)
    }

    var shouldStop: Bool { isStopping.load(ordering: .acquiring) }
}
