import HubBase
import HubWire

/// The embedded broker: one node, no Redis, the same promises in process (redis-design §6).
package final class MemoryBroker: Broker {
    package weak var delegate: (any BrokerDelegate)?
    package init(namespaces: [String: HistoryOptions], chance: Chance, limits: MemoryLimits = MemoryLimits()) { fatalError("skeleton") }
    package func start(at now: Instant) { fatalError("skeleton") }
    package func publish(_ publication: Publication, to channel: Name, tag: RequestTag, at now: Instant) { fatalError("skeleton") }
    package func broadcast(_ publication: Publication, to channel: Name, at now: Instant) { fatalError("skeleton") }
    package func markRead(_ publication: Publication, offset: UInt64, in channel: Name, tag: RequestTag, at now: Instant) {
        fatalError("skeleton")
    }
    package func subscribe(_ channel: Name, tag: RequestTag, at now: Instant) { fatalError("skeleton") }
    package func unsubscribe(_ channel: Name, at now: Instant) { fatalError("skeleton") }
    package func probe(tag: RequestTag, at now: Instant) { fatalError("skeleton") }
    package func advance(at now: Instant) { fatalError("skeleton") }
    package func stop(at now: Instant) { fatalError("skeleton") }
}

/// What the embedded broker keeps at most; beyond it calls are refused with `storeFull`, as a full Redis does.
package struct MemoryLimits: Sendable, Equatable {
    package var channels = 1_000_000
    package var historyBytes = 1 << 30
    package var messageIds = 2_000_000
    package var readPositions = 2_000_000
    package init() {}
}
