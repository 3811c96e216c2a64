import HubBase
import HubWire

/// Keeps what users have spent of their rates on all nodes together: the third seam. Two implementations (memory, Redis), one contract suite.
///
/// Same rules as `Broker`: owned by one loop, never blocks, answers through the delegate from `advance(at:)` or the owner's loop.
package protocol RateStore: AnyObject {
    /// Not retained. Set before anything else.
    var delegate: (any RateStoreDelegate)? { get set }

    /// Charges a user's budgets with what was spent already: whether it was there or not. Answer: `settled`.
    func settle(_ report: RateReport, tag: RequestTag, at now: Instant)

    func advance(at now: Instant)
}

package protocol RateStoreDelegate: AnyObject {
    /// For each charge, in order: for how long nothing more should be spent; zero while the budget isn't overdrawn.
    func settled(_ result: Result<[Span], WireError>, tag: RequestTag)
}

/// What one lessee saw a user spend since its last report.
package struct RateReport: Sendable, Equatable {
    package struct Charge: Sendable, Equatable {
        package var kind: UserPaces.Kind
        /// What was spent, in time: tokens times what one costs.
        package var cost: Span
        /// What may be spent at once.
        package var depth: Span

        package init(kind: UserPaces.Kind, cost: Span, depth: Span) {
            self.kind = kind
            self.cost = cost
            self.depth = depth
        }
    }

    package var user: Name
    package var charges: [Charge]

    package init(user: Name, charges: [Charge]) {
        self.user = user
        self.charges = charges
    }

    /// No budget is overdrawn by more: whatever was reported, and wherever a clock went, a user isn't locked out for longer.
    package static let overdraftMax: Span = .seconds(60)
}
