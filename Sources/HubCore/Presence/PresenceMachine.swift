import HubBase
import HubWire

/// The presence of one node's connections, and what its clients watch. A machine: inputs in, actions out (`takeActions`), no clock.
///
/// The shell calls inputs as they happen, `tick` at least every 100 ms, and `takeActions` once at the end of each turn: operations of one
/// turn leave in one call for each partition.
package struct PresenceMachine: ~Copyable {
    /// - Parameters:
    ///   - node: this node's incarnation, as it stands in users' records.
    ///   - tagSpace: the `high` word of every tag that the machine makes; the shell keeps other requests' tags out of it.
    package init(timers: PresenceTimers, node: Name, tagSpace: UInt64, chance: Chance, at now: Instant) { fatalError("skeleton") }

    /// Whether an answer of the store is for this machine.
    package func owns(_ tag: RequestTag) -> Bool { fatalError("skeleton") }
    /// The store can't be reached: presence is frozen, answers are marked.
    package var isStale: Bool { fatalError("skeleton") }
    /// All nodes that lived at the last announcement.
    package var nodes: [NodeEntry] { fatalError("skeleton") }
    package var connectionCount: Int { fatalError("skeleton") }

    /// Everything to be done since the last call, in order.
    package mutating func takeActions(at now: Instant) -> [PresenceAction] { fatalError("skeleton") }

    // Connections.
    package mutating func connected(connection: Name, user: Name, device: Name, since: UInt64, at now: Instant) { fatalError("skeleton") }
    package mutating func closed(connection: Name, clean: Bool, at now: Instant) { fatalError("skeleton") }
    package mutating func requested(connection: Name, status: Payload.Status, tag: RequestTag, at now: Instant) { fatalError("skeleton") }
    package mutating func activity(connection: Name, at now: Instant) { fatalError("skeleton") }
    package mutating func proved(connection: Name, at now: Instant) { fatalError("skeleton") }

    // Watching. `loop` is below `loopsMax`; both are idempotent for each loop and user.
    package static let loopsMax = 128
    package mutating func watch(_ users: [Name], loop: Int, tag: RequestTag, at now: Instant) { fatalError("skeleton") }
    package mutating func unwatch(_ users: [Name], loop: Int) { fatalError("skeleton") }

    package mutating func tick(at now: Instant) { fatalError("skeleton") }

    // The store's answers: `PresenceStoreDelegate` with the time.
    package mutating func applied(_ result: Result<[UInt64], WireError>, tag: RequestTag, at now: Instant) { fatalError("skeleton") }
    package mutating func refreshed(_ result: Result<[Int], WireError>, tag: RequestTag, at now: Instant) { fatalError("skeleton") }
    package mutating func swept(_ result: Result<Int, WireError>, partition: Int, tag: RequestTag, at now: Instant) {
        fatalError("skeleton")
    }
    package mutating func read(_ result: Result<PresenceSnapshot, WireError>, tag: RequestTag, at now: Instant) { fatalError("skeleton") }
    package mutating func nodes(_ result: Result<[NodeEntry], WireError>, tag: RequestTag, at now: Instant) { fatalError("skeleton") }
    package mutating func changed(_ changes: [PresenceChange], partition: Int, gap: Bool, at now: Instant) { fatalError("skeleton") }
    package mutating func storeHealth(_ health: BackendHealth, at now: Instant) { fatalError("skeleton") }
}
