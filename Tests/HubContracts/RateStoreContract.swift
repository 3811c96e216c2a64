import HubBase
import HubCore
import HubWire
import Testing

package protocol RateStoreFixture: AnyObject {
    /// Stores that share one backend, where the implementation has one; else the same one again.
    func makeRateStore() -> any RateStore
    var now: Instant { get }
    func run(until condition: () -> Bool) -> Bool
    func pass(_ span: Span)
}

package struct RateStoreCheck: Sendable, CustomTestStringConvertible {
    package let name: String
    package let run: @Sendable (any RateStoreFixture) -> Void

    init(_ name: String, _ run: @escaping @Sendable (any RateStoreFixture) -> Void) {
        self.name = name
        self.run = run
    }

    package var testDescription: String { name }
}

/// What every store of users' budgets promises. Times are long against what a real store takes to answer.
package enum RateStoreContract {
    private final class Recorder: RateStoreDelegate {
        var answers: [RequestTag: Result<[Span], WireError>] = [:]
        func settled(_ result: Result<[Span], WireError>, tag: RequestTag) { answers[tag] = result }
    }

    /// One store and what it told. Kept by the check that made it.
    private final class Ledger {
        let fixture: any RateStoreFixture
        let store: any RateStore
        private let recorder = Recorder()
        private var last: UInt64 = 0

        init(_ fixture: any RateStoreFixture) {
            self.fixture = fixture
            store = fixture.makeRateStore()
        }

        /// Milliseconds overdrawn, for each charge.
        func charge(_ user: Name, _ charges: [(UserPaces.Kind, cost: Span)], depth: Span = .seconds(10)) -> [UInt64] {
            store.delegate = recorder
            last += 1
            let tag = RequestTag(high: 7, low: last)
            store.settle(
                RateReport(user: user, charges: charges.map { .init(kind: $0.0, cost: $0.cost, depth: depth) }), tag: tag, at: fixture.now)
            guard fixture.run(until: { recorder.answers[tag] != nil }), case .success(let spans)? = recorder.answers[tag] else {
                giveUp("no answer: \(String(describing: recorder.answers[tag]))")
                return []
            }
            return spans.map(\.milliseconds)
        }

        func charge(_ user: Name, _ cost: Span) -> UInt64 { charge(user, [(.messages, cost)]).first ?? .max }
    }

    /// Within what the answer may have taken.
    private static func isAbout(_ value: UInt64, _ expected: UInt64) -> Bool { value <= expected && value + 4000 >= expected }

    package static let checks: [RateStoreCheck] = [
        RateStoreCheck("what is within the budget overdraws nothing; what is beyond is owed") { fixture in
            let ledger = Ledger(fixture)
            #expect(ledger.charge("alice", .seconds(4)) == 0)
            #expect(ledger.charge("alice", .seconds(5)) == 0)
            #expect(isAbout(ledger.charge("alice", .seconds(21)), 20_000))
        },
        RateStoreCheck("an overdraft goes back as time passes") { fixture in
            let ledger = Ledger(fixture)
            let owed = ledger.charge("alice", .seconds(30))
            fixture.pass(.milliseconds(1500))
            let later = ledger.charge("alice", .zero)
            #expect(later <= owed - 1500)
            #expect(isAbout(later, owed - 1500))
        },
        RateStoreCheck("two nodes charge one budget") { fixture in
            let (one, other) = (Ledger(fixture), Ledger(fixture))
            #expect(one.charge("alice", .seconds(9)) == 0)
            #expect(isAbout(other.charge("alice", .seconds(9)), 8_000))
            #expect(isAbout(one.charge("alice", .seconds(2)), 10_000))
        },
        RateStoreCheck("users and kinds have budgets of their own; answers stand in the order of the charges") { fixture in
            let ledger = Ledger(fixture)
            let owed = ledger.charge(
                "alice", [(.connects, .seconds(50)), (.messages, .seconds(1)), (.bytes, .seconds(30)), (.subscribes, .seconds(20))])
            #expect(owed.count == 4)
            for (value, expected) in zip(owed, [40_000, 0, 20_000, 10_000]) { #expect(isAbout(value, UInt64(expected))) }
            #expect(ledger.charge("bob", .seconds(9)) == 0)
        },
        RateStoreCheck("nothing is overdrawn by more than a minute, whatever was charged") { fixture in
            let ledger = Ledger(fixture)
            #expect(isAbout(ledger.charge("alice", .seconds(86_400)), 60_000))
            #expect(isAbout(ledger.charge("alice", Span(nanoseconds: 1 << 62)), 60_000))
        },
        RateStoreCheck("user ids may hold any bytes") { fixture in
            let ledger = Ledger(fixture)
            #expect(ledger.charge("{a}|b:c", .seconds(9)) == 0)
            #expect(isAbout(ledger.charge("{a}|b:c", .seconds(9)), 8_000))
            #expect(ledger.charge("{a}", .seconds(9)) == 0)
        },
    ]
}
