import HubBase
import HubCore
import HubWire

/// What must be shown of users, by the operations that the store took and nothing else: who is there, who is awaited and until when. Written
/// from the rules (docs/presence.md), not from a store: it knows of no records and no grace of users, and so can't share their mistakes.
///
/// Where it can't know (a lease that ran out may have been swept, or not) it asks for less.
struct PresenceLedger {
    private struct Connection {
        var state: ConnectionState
        var device: Name
        var leaseEnds: Instant
    }

    /// A connection that counted and ended without a goodbye: it counts for a grace from its own end.
    private struct Awaited {
        var state: ConnectionState
        var device: Name
        var until: Instant
    }

    private struct User {
        var connections: [Name: Connection] = [:]
        var awaited: [Awaited] = []
        /// More were awaited at once than a store has to tell apart.
        var isVagueUntil = Instant(nanoseconds: 0)
    }

    /// What an event may say.
    private enum Rule {
        case anything
        /// Nobody is there, somebody may come back: what was told holds.
        case nothing
        case least(PresenceStatus)
    }

    /// Stores needn't tell more of them apart.
    private static let tellsApart = 4

    private let timers: PresenceTimers
    private var users: [Name: User] = [:]
    /// Whether the store may hold connections that aren't in here.
    private var isPartial = false
    /// Who was there for others since their record was lost last, or ever.
    private(set) var shown: Set<Name> = []
    private var operations: [RequestTag: (operations: [PresenceOperation], at: Instant)] = [:]
    private var renewals: [RequestTag: (leases: [Lease], at: Instant)] = [:]
    /// The rules after each operation of the last call, by the version that it was answered with.
    private var rules: [PresenceChangeKey: Rule] = [:]

    private struct PresenceChangeKey: Hashable {
        var user: Name
        var version: UInt64
    }

    init(timers: PresenceTimers) { self.timers = timers }

    // MARK: What the store is asked, and takes

    mutating func asked(_ operations: [PresenceOperation], tag: RequestTag, at now: Instant) { self.operations[tag] = (operations, now) }
    mutating func asked(_ renewal: LeaseRenewal, tag: RequestTag, at now: Instant) { renewals[tag] = (renewal.leases, now) }

    mutating func applied(_ result: Result<[UInt64], WireError>, tag: RequestTag) {
        guard let (operations, now) = operations.removeValue(forKey: tag), case .success(let versions) = result else { return }
        rules = [:]
        for (operation, version) in zip(operations, versions) {
            var user = users[operation.user] ?? User()
            take(operation, &user, at: now)
            users[operation.user] = user
            let key = PresenceChangeKey(user: operation.user, version: version)
            // The first that has a version made it.
            if rules[key] == nil { rules[key] = rule(for: user, at: now) }
        }
    }

    mutating func refreshed(_ result: Result<[Int], WireError>, tag: RequestTag) {
        guard let (leases, now) = renewals.removeValue(forKey: tag), case .success(let missing) = result else { return }
        for (place, lease) in leases.enumerated() where !missing.contains(place) {
            users[lease.user]?.connections[lease.connection]?.leaseEnds = now + timers.lease
        }
    }

    private mutating func take(_ operation: PresenceOperation, _ user: inout User, at now: Instant) {
        user.awaited.removeAll { $0.until <= now }
        // Long swept, or nobody sweeps.
        user.connections = user.connections.filter { $0.value.leaseEnds + .seconds(10) > now }
        let before = user.connections[operation.connection]
        let state: ConnectionState
        switch operation.kind {
        case .up(let new):
            state = new
            if state != .invisible {
                if let before, before.leaseEnds <= now {
                    // New to the store, or not.
                    user.awaited.removeAll { PresenceLedger.isSame($0.device, operation.device) }
                } else if before == nil || before?.state == .invisible {
                    PresenceLedger.comeBack(operation.device, as: state, &user)
                }
            }
        case .restore(let known): state = known
        case .down(let grace, _, let told):
            user.connections[operation.connection] = nil
            // Perhaps of a record that was lost, and is shown by this again.
            if operation.was != nil { shown.insert(operation.user) }
            if told != nil || before == nil && grace > .zero {
                // Written again: whether it was there, and what was told of it, the store may have lost.
                let until = now + (operation.was == nil ? grace : max(grace, timers.hold))
                user.isVagueUntil = user.awaited.map(\.until).reduce(max(user.isVagueUntil, until), max)
                return
            }
            guard grace > .zero, let before, before.state != .invisible, before.leaseEnds > now else { return }
            user.awaited.append(Awaited(state: before.state, device: operation.device, until: now + grace))
            if user.awaited.count > PresenceLedger.tellsApart { user.isVagueUntil = now + grace }
            return
        }
        if state != .invisible { shown.insert(operation.user) }
        user.connections[operation.connection] = Connection(state: state, device: operation.device, leaseEnds: now + timers.lease)
    }

    /// One coming ends the waiting for one: of the same device, and of a state that it has itself.
    private static func comeBack(_ device: Name, as state: ConnectionState, _ user: inout User) {
        let states: [ConnectionState] = state == .online ? [.online, .away] : [.away]
        for wanted in states {
            let places = user.awaited.indices.filter { user.awaited[$0].state == wanted && isSame(user.awaited[$0].device, device) }
            guard let first = places.min(by: { user.awaited[$0].until < user.awaited[$1].until }) else { continue }
            user.awaited.remove(at: first)
            return
        }
    }

    private static func isSame(_ one: Name, _ other: Name) -> Bool {
        one == other || DeviceName.isStandard(one) && DeviceName.isStandard(other)
    }

    // MARK: What is lost

    /// The user's record is gone, with all that it said.
    mutating func forget(_ user: Name) {
        users[user] = nil
        shown.remove(user)
    }

    /// The store holds what it held once: nothing that it was told since counts, and who was shown before may be shown again.
    mutating func forgetAll(mayShow: [Name]) {
        users = [:]
        shown = Set(mayShow)
        isPartial = !mayShow.isEmpty
    }

    /// Its clock jumped: no deadline is known any more.
    mutating func clockJumped() {
        users = [:]
        isPartial = true
    }

    // MARK: What is told

    /// What is wrong with a transition that the store tells; nil: nothing that's known.
    func judge(_ change: PresenceChange, at now: Instant) -> String? {
        if !shown.contains(change.user) { return "\(change) tells of who wasn't shown, or not since its record was lost" }
        let rule =
            rules[PresenceChangeKey(user: change.user, version: change.version)] ?? users[change.user].map { self.rule(for: $0, at: now) }
        switch rule ?? .anything {
        case .anything: return nil
        case .nothing: return "\(change) within a grace, with nobody there"
        case .least(let status):
            return PresenceLedger.rank(change.status) < PresenceLedger.rank(status)
                ? "\(change), where who is there or may still come back makes it \(status)" : nil
        }
    }

    private func rule(for user: User, at now: Instant) -> Rule {
        if user.isVagueUntil > now { return .anything }
        let counting = user.connections.values.filter { $0.state != .invisible }
        let living = counting.filter { $0.leaseEnds > now }.map(\.state)
        let awaited = user.awaited.filter { $0.until > now }.map(\.state)
        let states = living + awaited
        if states.isEmpty { return .anything }
        if counting.isEmpty && !isPartial { return .nothing }
        return .least(states.contains(.online) ? .online : .away)
    }

    private static func rank(_ status: PresenceStatus) -> Int { status == .online ? 2 : status == .away ? 1 : 0 }
}
