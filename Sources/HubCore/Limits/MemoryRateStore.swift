import HubBase
import HubWire

/// The budgets of users on a node without Redis: its loops share them. What the script does, with `now` for Redis's clock.
package final class MemoryRateStore: RateStore {
    package weak var delegate: (any RateStoreDelegate)?
    private var budgets: [Name: [TokenBucket]] = [:]
    private var answers: [(RequestTag, [Span])] = []
    private var sweptAt = Instant(nanoseconds: 0)

    package init() {}

    package func settle(_ report: RateReport, tag: RequestTag, at now: Instant) {
        var budget = budgets[report.user] ?? [TokenBucket](repeating: TokenBucket(), count: UserPaces.Kind.allCases.count)
        let overdrafts = report.charges.map { charge in
            budget[charge.kind.rawValue].charge(charge.cost, of: charge.depth, at: now, overdraftMax: RateReport.overdraftMax)
        }
        budgets[report.user] = budget
        answers.append((tag, overdrafts))
    }

    package func advance(at now: Instant) {
        forget(at: now)
        guard !answers.isEmpty else { return }
        let due = answers
        answers.removeAll(keepingCapacity: true)
        for (tag, overdrafts) in due { delegate?.settled(.success(overdrafts), tag: tag) }
    }

    /// A budget that has been left alone for as long as any burst takes to come back is full.
    private func forget(at now: Instant) {
        guard now.since(sweptAt) >= .seconds(60), !budgets.isEmpty else { return }
        sweptAt = now
        let kept = Rate(perSecond: 1, within: .seconds(600))
        budgets = budgets.filter { entry in entry.value.contains { !$0.isFull(of: kept, at: now) } }
    }

    package var count: Int { budgets.count }
}
