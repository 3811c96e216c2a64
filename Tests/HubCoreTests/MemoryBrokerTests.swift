import HubBase
import HubContracts
import HubCore
import HubWire
import Testing

@Suite("The embedded broker")
struct MemoryBrokerTests {
    @Test("keeps the broker's contract", arguments: BrokerContract.checks)
    func contract(_ check: BrokerCheck) { check.run(MemoryBrokerFixture()) }
}
