import HubContracts
import HubRedis
import Testing

@Suite(.serialized) struct ContractTests {
    @Test("the broker's contract holds on Redis", arguments: BrokerContract.checks)
    func broker(_ check: BrokerCheck) { check.run(RedisFixture()) }

    @Test("the presence store's contract holds on Redis", arguments: PresenceStoreContract.checks)
    func presence(_ check: PresenceStoreCheck) { check.run(RedisFixture()) }
}
