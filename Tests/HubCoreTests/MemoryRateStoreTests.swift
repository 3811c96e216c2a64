import HubBase
import HubContracts
import HubCore
import HubWire
import Testing

@Suite struct MemoryRateStoreTests {
    private final class Fixture: RateStoreFixture {
        private let store = MemoryRateStore()
        private(set) var now = Instant(nanoseconds: 1_000_000_000_000)

        func makeRateStore() -> any RateStore { store }

        func run(until condition: () -> Bool) -> Bool {
            store.advance(at: now)
            return condition()
        }

        func pass(_ span: Span) {
            now = now + span
            store.advance(at: now)
        }
    }

    @Test("the rate store's contract holds in memory", arguments: RateStoreContract.checks)
    func contract(_ check: RateStoreCheck) { check.run(Fixture()) }

    @Test("budgets that are full again are forgotten")
    func forgets() {
        let store = MemoryRateStore()
        var now = Instant(nanoseconds: 1_000_000_000_000)
        for number in 0..<1000 {
            let charge = RateReport.Charge(kind: .messages, cost: .seconds(1), depth: .seconds(5))
            store.settle(RateReport(user: Name(trusted: Array("user\(number)".utf8)), charges: [charge]), tag: .none, at: now)
        }
        store.advance(at: now)
        #expect(store.count == 1000)
        now = now + .seconds(700)
        store.advance(at: now)
        #expect(store.count == 0)
    }
}
