import HubBase
import HubWire

/// The embedded presence store: one node, no Redis, the same promises in process (redis-design §6).
package final class MemoryPresenceStore: PresenceStore {
    package weak var delegate: (any PresenceStoreDelegate)?
    /// `node`: the incarnation, `nodeName`: what people call it. `wallClockAtStart`: milliseconds since 1970 at `startedAt`; from there on
    /// the store's clock follows the monotonic one.
    package init(timers: PresenceTimers, node: Name, nodeName: Name, wallClockAtStart: UInt64, startedAt: Instant) {
        fatalError("skeleton")
    }
    package func start(at now: Instant) { fatalError("skeleton") }
    package func apply(_ operations: [PresenceOperation], partition: Int, tag: RequestTag, at now: Instant) { fatalError("skeleton") }
    package func refresh(_ leases: [Lease], partition: Int, tag: RequestTag, at now: Instant) { fatalError("skeleton") }
    package func sweep(partition: Int, tag: RequestTag, at now: Instant) { fatalError("skeleton") }
    package func read(_ users: [Name], tag: RequestTag, at now: Instant) { fatalError("skeleton") }
    package func inspect(_ user: Name, tag: RequestTag, at now: Instant) { fatalError("skeleton") }
    package func announce(connections: UInt64, tag: RequestTag, at now: Instant) { fatalError("skeleton") }
    package func advance(at now: Instant) { fatalError("skeleton") }
    package func stop(at now: Instant) { fatalError("skeleton") }
}
