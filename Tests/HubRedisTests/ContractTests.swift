import HubContracts
import HubRedis
import Testing

@Suite(.serialized) struct BrokerContractTests {
    @Test("the broker's contract holds on Redis", arguments: BrokerContract.checks)
    func broker(_ check: BrokerCheck) { check.run(RedisFixture()) }
}

@Suite(.serialized) struct PresenceStoreContractTests {
    @Test("the presence store's contract holds on Redis", arguments: PresenceStoreContract.checks)
    func presence(_ check: PresenceStoreCheck) { check.run(RedisFixture()) }
}
