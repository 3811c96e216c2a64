import Synchronization

/// Messages from other threads to one loop: appended under a short lock, taken as one batch. The poster wakes the loop after a batch.
///
/// `@inlinable`: it's generic, and used across targets on the way of every publication.
package final class Mailbox<Message: Sendable>: Sendable {
    @usableFromInline let waiting = Mutex<[Message]>([])

    @inlinable package init() {}

    @inlinable package func post(_ message: Message) {
        waiting.withLock { $0.append(message) }
    }

    /// Takes them all, and leaves an empty array of some capacity: where none wait, arrays are exchanged and nothing is copied.
    @inlinable package func post(contentsOf messages: inout [Message]) {
        waiting.withLock {
            if $0.isEmpty {
                swap(&$0, &messages)
            } else {
                $0.append(contentsOf: messages)
            }
        }
        // What a rush needed isn't kept for ever.
        messages.removeAll(keepingCapacity: messages.capacity <= 8192)
    }

    /// Exchanges `batch`, which must be empty, with what waits: two arrays go back and forth, so that a warm mailbox allocates nothing.
    @inlinable package func take(into batch: inout [Message]) {
        precondition(batch.isEmpty, "the last batch wasn't worked off")
        waiting.withLock { swap(&$0, &batch) }
    }
}
