import HubBase
import HubWire

/// The rates of users, as one loop sees them: how a limit holds on all nodes together without asking for each message. A machine.
///
/// A user's messages are judged by a bucket here, which alone would allow the whole rate on every loop of every node. So what is spent here is
/// reported, in portions of a fifth of a second's worth, to the store that all share; where the sum is overdrawn the answer says for how long,
/// and nothing passes here until then. Spending comes first and is accounted for afterwards: no message waits, and all of it counts, so over a
/// longer time the sum is the rate. Only how it's spread varies: once, each loop may let through a burst of its own before it hears of the others'.
///
/// Who stays below a hundredth of the rate is never reported. What Redis is asked is bounded by what may be spent: five times a second for each
/// user and kind, however many loops and nodes there are (docs/decisions/0190).
package struct UserPaces {
    package enum Kind: Int, CaseIterable, Sendable {
        case messages, bytes, subscribes, connects

        package var limit: RateLimit {
            switch self {
            case .messages: .userMessages
            case .bytes: .userBytes
            case .subscribes: .userSubscribes
            case .connects: .userConnects
            }
        }
    }

    package struct Place: Sendable, Equatable {
        fileprivate var slot: UInt32
    }

    private struct Account {
        var user = Name.empty
        var generation: UInt32 = 0
        /// Connections that keep its place.
        var holders = 0
        var isUsed = false
        /// A report is on its way.
        var isAsking = false
        var needsReport = false
        var asked: [Kind] = []
    }

    private struct Meter {
        var bucket = TokenBucket()
        /// The others have spent what there was.
        var blockedUntil = Instant(nanoseconds: 0)
        /// Tokens since the last report, or since `since`.
        var spent = 0
        var since = Instant(nanoseconds: 0)
    }

    private var accounts: [Account] = []
    private var meters: [Meter] = []
    private var places: [Name: UInt32] = [:]
    private var free: [UInt32] = []
    private var hand = 0
    private var full: [Rate]
    private var share: [Rate]
    private var isAway = false
    private var nodes = 1
    private var limits: Configuration.Limits

    /// Reports to hand to the store, each with the number that its answer comes with.
    private var reports: [(report: RateReport, number: UInt64)] = []

    /// Spending of up to this long is reported as one.
    package static let portion: Span = .milliseconds(200)
    /// A portion that isn't complete within this time isn't worth reporting.
    package static let quietAfter: Span = .seconds(20)

    package init(_ limits: Configuration.Limits) {
        self.limits = limits
        full = []
        share = []
        workOut()
    }

    package var count: Int { places.count }

    // MARK: Settings

    package mutating func change(_ limits: Configuration.Limits) {
        self.limits = limits
        workOut()
    }

    /// How many nodes there are, and whether the store can be reached: while it can't, each node has its share.
    package mutating func change(nodes: Int) {
        self.nodes = max(nodes, 1)
        workOut()
    }

    package mutating func change(isAway: Bool) { self.isAway = isAway }

    private mutating func workOut() {
        let kinds = Kind.allCases.map { limits.perSecond($0.limit) }
        full = kinds.map { Rate(perSecond: $0, within: limits.burst) }
        share = kinds.map { Rate(perSecond: $0 == 0 ? 0 : max($0 / nodes, 1), within: limits.burst) }
    }

    package func isLimited(_ kind: Kind) -> Bool { full[kind.rawValue].isLimited }

    // MARK: Spending

    /// The user's place, kept until `release`.
    package mutating func hold(_ user: Name, at now: Instant) -> Place {
        let slot = place(of: user, at: now)
        accounts[Int(slot)].holders += 1
        return Place(slot: slot)
    }

    package mutating func release(_ place: Place) { accounts[Int(place.slot)].holders -= 1 }

    /// Takes so many tokens of a user who holds no place.
    package mutating func take(_ amount: Int, _ kind: Kind, of user: Name, at now: Instant) -> Refusal? {
        guard full[kind.rawValue].isLimited else { return nil }
        return take(amount, kind, of: Place(slot: place(of: user, at: now)), at: now)
    }

    /// Takes so many tokens; nil when they may be spent.
    package mutating func take(_ amount: Int, _ kind: Kind, of place: Place, at now: Instant) -> Refusal? {
        let rate = isAway ? share[kind.rawValue] : full[kind.rawValue]
        guard rate.isLimited else { return nil }
        let index = Self.index(place.slot, kind)
        if meters[index].blockedUntil > now { return kind.limit.refusal(rate, after: meters[index].blockedUntil.since(now)) }
        if let wait = meters[index].bucket.take(amount, of: rate, at: now) { return kind.limit.refusal(rate, after: wait) }
        // Shares add up to the rate: there's nothing to settle afterwards.
        if isAway { return nil }
        if now.since(meters[index].since) > Self.quietAfter {
            meters[index].since = now
            meters[index].spent = 0
        }
        meters[index].spent = Int(clamping: UInt64(meters[index].spent) + UInt64(max(amount, 0)))
        if rate.cost(meters[index].spent) >= min(Self.portion, rate.depth) { accounts[Int(place.slot)].needsReport = true }
        if accounts[Int(place.slot)].needsReport && !accounts[Int(place.slot)].isAsking { report(place.slot, at: now) }
        return nil
    }

    private mutating func report(_ slot: UInt32, at now: Instant) {
        var charges: [RateReport.Charge] = []
        for kind in Kind.allCases where full[kind.rawValue].isLimited {
            let index = Self.index(slot, kind)
            guard meters[index].spent > 0 else { continue }
            let rate = full[kind.rawValue]
            charges.append(.init(kind: kind, cost: rate.cost(meters[index].spent), depth: rate.depth))
            meters[index].spent = 0
            meters[index].since = now
        }
        accounts[Int(slot)].needsReport = false
        guard !charges.isEmpty else { return }
        accounts[Int(slot)].isAsking = true
        accounts[Int(slot)].asked = charges.map(\.kind)
        let number = UInt64(accounts[Int(slot)].generation) << 32 | UInt64(slot)
        reports.append((RateReport(user: accounts[Int(slot)].user, charges: charges), number))
    }

    package var hasReports: Bool { !reports.isEmpty }

    package mutating func takeReports() -> [(report: RateReport, number: UInt64)] {
        defer { reports.removeAll(keepingCapacity: true) }
        return reports
    }

    /// The store's answer to a report. One that failed isn't repeated: it may have counted.
    package mutating func settled(_ result: Result<[Span], WireError>, number: UInt64, at now: Instant) {
        let slot = UInt32(truncatingIfNeeded: number)
        guard Int(slot) < accounts.count, accounts[Int(slot)].generation == UInt32(truncatingIfNeeded: number >> 32),
            accounts[Int(slot)].isAsking
        else { return }
        accounts[Int(slot)].isAsking = false
        if case .success(let overdrafts) = result {
            for (kind, overdraft) in zip(accounts[Int(slot)].asked, overdrafts) {
                meters[Self.index(slot, kind)].blockedUntil = now + min(overdraft, RateReport.overdraftMax)
            }
        }
        // What was spent meanwhile, when that's a portion already.
        if accounts[Int(slot)].needsReport && !isAway { report(slot, at: now) }
    }

    // MARK: Places

    private static func index(_ slot: UInt32, _ kind: Kind) -> Int { Int(slot) * Kind.allCases.count + kind.rawValue }

    private mutating func place(of user: Name, at now: Instant) -> UInt32 {
        if let slot = places[user] { return slot }
        // Those who left are forgotten as others come, once their buckets would be full again: coming back doesn't refill one.
        for _ in 0..<4 { forgetNext(at: now) }
        let slot: UInt32
        if let reused = free.popLast() {
            slot = reused
        } else {
            slot = UInt32(accounts.count)
            accounts.append(Account())
            meters.append(contentsOf: repeatElement(Meter(), count: Kind.allCases.count))
        }
        accounts[Int(slot)].user = user
        accounts[Int(slot)].isUsed = true
        places[user] = slot
        return slot
    }

    private mutating func forgetNext(at now: Instant) {
        guard !accounts.isEmpty else { return }
        hand = (hand + 1) % accounts.count
        let account = accounts[hand]
        guard account.isUsed, account.holders == 0, !account.isAsking else { return }
        for kind in Kind.allCases {
            let meter = meters[Self.index(UInt32(hand), kind)]
            let isIdle =
                meter.bucket.isFull(of: full[kind.rawValue], at: now) && meter.blockedUntil <= now
                && (meter.spent == 0 || now.since(meter.since) > Self.quietAfter)
            guard isIdle else { return }
        }
        for kind in Kind.allCases { meters[Self.index(UInt32(hand), kind)] = Meter() }
        places[account.user] = nil
        accounts[hand] = Account()
        accounts[hand].generation = account.generation &+ 1
        free.append(UInt32(hand))
    }
}
