import HubBase
import HubContracts
import HubCore
import HubWire

/// The embedded broker under virtual time.
final class MemoryBrokerFixture: BrokerFixture {
    private var brokers: [MemoryBroker] = []
    private(set) var now = Instant(nanoseconds: 1_000_000_000)

    var nodeLimit: Int { 1 }

    func makeNode() -> any Broker {
        let broker = MemoryBroker(namespaces: BrokerContract.namespaces, chance: Chance(seed: 1), node: "brokernode")
        brokers.append(broker)
        return broker
    }

    func run(until condition: () -> Bool) -> Bool {
        for _ in 0..<1_200 {
            if condition() { return true }
            step(.milliseconds(10))
        }
        return condition()
    }

    func pass(_ span: Span) {
        let end = now + span
        while now < end { step(min(.milliseconds(10), end.since(now))) }
    }

    func publishUnheard(_ publication: Publication, to channel: Name) {
        guard let broker = brokers.last else { return }
        broker.dropFeed(1)
        broker.publish(publication, to: channel, attempt: nil, tag: .none, at: now)
    }

    var tailCheck: Span { .seconds(11) }

    func loseAllData() { for broker in brokers { broker.loseAllData() } }
    func endGenerations() { for broker in brokers { broker.endGeneration() } }

    private func step(_ span: Span) {
        now = now + span
        for broker in brokers { broker.advance(at: now) }
    }
}
