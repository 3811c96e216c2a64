import HubBase
import HubContracts
import HubCore
import HubWire
import Testing

@Suite("The embedded broker")
struct MemoryBrokerTests {
    @Test("keeps the broker's contract", arguments: BrokerContract.checks)
    func contract(_ check: BrokerCheck) { check.run(MemoryBrokerFixture()) }

    @Test("hands words to its own node, and nobody else's")
    func control() {
        let fixture = MemoryBrokerFixture()
        let broker = fixture.makeNode()
        BrokerContract.checkControl(fixture, from: broker, to: broker, at: "brokernode")
    }
}
