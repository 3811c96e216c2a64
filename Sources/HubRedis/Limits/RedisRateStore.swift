import HubBase
import HubCore
import HubWire

/// The budgets of users on Redis: one key for each user who spends much, one script for all of a user's budgets (settle.lua).
package final class RedisRateStore: RateStore {
    package weak var delegate: (any RateStoreDelegate)?
    private let backend: RedisBackend
    /// Answers that mustn't be given from within a call.
    private var refused: [(RequestTag, WireError)] = []

    package init(_ backend: RedisBackend) {
        self.backend = backend
        backend.rates = self
    }

    deinit { backend.rates = nil }

    package func settle(_ report: RateReport, tag: RequestTag, at now: Instant) {
        if let refusal = backend.link.refusal() {
            refused.append((tag, refusal))
        } else {
            backend.link.send(.settle(report, tag))
        }
    }

    /// Broker and presence store drive the links.
    package func advance(at now: Instant) {
        guard !refused.isEmpty else { return }
        let due = refused
        refused.removeAll(keepingCapacity: true)
        for (tag, error) in due { delegate?.settled(.failure(error), tag: tag) }
    }

    // MARK: Called by the backend

    func settled(_ report: RateReport, _ reply: borrowing Reply, _ tag: RequestTag) {
        guard reply.elements(0) == report.charges.count else {
            delegate?.settled(.failure(.notOurs), tag: tag)
            return
        }
        var overdrafts: [Span] = []
        for place in 1...max(report.charges.count, 1) {
            guard let text = reply.string(place), let microseconds = text.decimal else {
                delegate?.settled(.failure(.notOurs), tag: tag)
                return
            }
            overdrafts.append(.microseconds(microseconds))
        }
        delegate?.settled(.success(overdrafts), tag: tag)
    }
}

extension CommandEncoder {
    func settle(_ report: RateReport, _ out: inout ByteBuffer, _ scripts: ScriptTable) {
        out.call(.settle, scripts, keys: 1, arguments: 1 + 3 * report.charges.count)
        out.argument(key: keys.partitions[Partition.of(report.user)], KeySpace.Kind.budgets, report.user.bytes)
        out.argument(decimal: RateReport.overdraftMax.nanoseconds / 1000)
        for charge in report.charges {
            switch charge.kind {
            case .messages: out.argument("m")
            case .bytes: out.argument("b")
            case .subscribes: out.argument("s")
            case .connects: out.argument("c")
            }
            // Rounded up: what costs something is never free.
            out.argument(decimal: (charge.cost.nanoseconds + 999) / 1000)
            out.argument(decimal: charge.depth.nanoseconds / 1000)
        }
    }
}
