import HubBase
import HubContracts
import HubCore
import HubWire
import Testing

@Suite("The embedded presence store")
struct MemoryPresenceTests {
    @Test("keeps the store's contract", arguments: PresenceStoreContract.checks)
    func contract(_ check: PresenceStoreCheck) { check.run(MemoryPresenceFixture()) }

    @Test("keeps the contract of the webhooks' queues", arguments: HookQueueContract.checks)
    func hooks(_ check: HookQueueCheck) { check.run(MemoryPresenceFixture()) }
}
