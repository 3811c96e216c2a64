import HubContracts
import HubRedis
import Testing

@Suite(.serialized) struct BrokerContractTests {
    @Test("the broker's contract holds on Redis", arguments: BrokerContract.checks)
    func broker(_ check: BrokerCheck) { check.run(RedisFixture()) }

    @Test("a node's words reach the node that they are for")
    func control() {
        let fixture = RedisFixture()
        let (first, second) = (fixture.makeNode(), fixture.makeNode())
        BrokerContract.checkControl(fixture, from: first, to: second, at: "brokernode2")
    }
}

@Suite(.serialized) struct PresenceStoreContractTests {
    @Test("the presence store's contract holds on Redis", arguments: PresenceStoreContract.checks)
    func presence(_ check: PresenceStoreCheck) {
        // Where a message takes longer than the answer to a look at the tip, as on a busy machine, users are to be read again instead.
        check.run(RedisFixture(tipCheck: .seconds(30)))
    }
}

@Suite(.serialized) struct RateStoreContractTests {
    @Test("the rate store's contract holds on Redis", arguments: RateStoreContract.checks)
    func rates(_ check: RateStoreCheck) { check.run(RedisRateFixture()) }
}

@Suite(.serialized) struct HookQueueContractTests {
    @Test("the webhooks' queues keep their contract on Redis", arguments: HookQueueContract.checks)
    func hooks(_ check: HookQueueCheck) { check.run(RedisFixture()) }
}

@Suite(.serialized) struct MemberStoreContractTests {
    @Test("the member store's contract holds on Redis", arguments: MemberStoreContract.checks)
    func members(_ check: MemberStoreCheck) { check.run(RedisFixture()) }
}
