import HubBase
import HubWire

/// Judges what watchers were told of others' presence by what was true: who had a connection when.
///
/// The truth is known from the clients' side: a user is *surely there* from a welcome until its last connection begins to end, and *surely
/// gone* from the end of its last connection until the next attempt. Between the two nothing is judged. Time is the caller's; it asks
/// `judge` now and then. Rules:
/// - who was surely there for the whole of the last `onlineWithin` isn't told to be offline (a false offline);
/// - a watcher that was there all the while has heard of somebody's coming within `onlineWithin`, and of somebody's going within
///   `offlineWithin` (else it's stale).
///
/// The same for `away`, as far as it was asked for: what all connections of a user asked for, and had answered, is *surely shown*.
/// - A watcher that was there all the while doesn't show somebody as online who is surely away since `onlineWithin` (`offlineWithin` where a
///   connection that may have been shown as online ended so shortly before that the hub may still hold it), nor as away who has surely been
///   online for so long.
/// - Nobody is told to be online who was surely away for the whole of the last `offlineWithin`.
///
/// Who is told of somebody whom it doesn't watch was never to hear of it (`unasked`).
///
/// That a hub turns somebody away by itself, for want of activity, isn't judged: `onlineWithin` has to be shorter than that takes. Cost: 24
/// bytes a watched user of a watcher, 56 a user; each change of a user is judged once for each watcher.
package struct PresenceChecker {
    package enum Fault: String, Sendable, CaseIterable {
        case falseOffline, staleOnline, staleOffline, staleAway, staleBack, falseBack, unasked
    }

    package struct Finding: Sendable, Equatable {
        package var fault: Fault
        package var user: Int
        package var watcher: Int
        package var text: String
    }

    private struct User {
        var connections = 0
        /// Since when what `connections` says holds without a break.
        var since = Instant(nanoseconds: 0)
        /// Somebody is on the way in: neither there nor gone.
        var isUnsure = false
        /// As what it's surely shown, and since when; nil: that isn't sure.
        var shown: PresenceStatus? = .offline
        var shownSince = Instant(nanoseconds: 0)
        /// When a connection ended last that may have been shown as online: the hub may hold it for a while, and show it.
        var heldSince: Instant?
        var watches: [UInt32] = []
    }

    /// One watcher's view of one user.
    private struct Watch {
        var watcher: Int32
        var user: Int32
        var status: PresenceStatus = .offline
        var version: UInt64 = 0
        /// Told anything yet.
        var isKnown = false
    }

    private struct Pending {
        var at: Instant
        var user: Int
        var since: Instant
    }

    private let onlineWithin: Span
    private let offlineWithin: Span
    private var users: [User]
    private var watches: [Watch] = []
    /// Since when each watcher watches, on its present connection.
    private var watchers: [Int: Instant] = [:]
    private var slots: [Int: Range<Int>] = [:]
    private var comings: [Pending] = []
    private var goings: [Pending] = []
    private var firstComing = 0
    private var firstGoing = 0
    /// Changes between away and online; their deadlines aren't in order, so each waits in the line of its bound.
    private var turns: [Pending] = []
    private var slowTurns: [Pending] = []
    private var firstTurn = 0
    private var firstSlowTurn = 0
    package private(set) var counts: [Fault: UInt64] = [:]
    package private(set) var findings: [Finding] = []
    /// Changes that watchers were told, and judgements that could be made.
    package private(set) var told: UInt64 = 0
    package private(set) var judged: UInt64 = 0

    private static let findingsMax = 100

    package init(users: Int, onlineWithin: Span, offlineWithin: Span) {
        self.users = [User](repeating: User(), count: users)
        self.onlineWithin = onlineWithin
        self.offlineWithin = offlineWithin
    }

    /// Who is watched by whom, once, before anything happens. Users that are out of range are left out.
    package mutating func watch(_ roster: [Int], by watcher: Int) {
        let first = watches.count
        for user in roster where users.indices.contains(user) {
            users[user].watches.append(UInt32(watches.count))
            watches.append(Watch(watcher: Int32(clamping: watcher), user: Int32(clamping: user)))
        }
        slots[watcher] = first..<watches.count
    }

    // MARK: The truth

    /// A connection is being made, which may count before we know of it.
    package mutating func coming(_ user: Int) {
        if users[user].connections == 0 { users[user].isUnsure = true }
    }

    package mutating func came(_ user: Int, at now: Instant) {
        users[user].connections += 1
        users[user].isUnsure = false
        guard users[user].connections == 1 else { return }
        users[user].since = now
        comings.append(Pending(at: now + onlineWithin, user: user, since: now))
    }

    /// An open connection has ended, in whatever way. `wasAway`: surely so; then nothing of it is held that could be seen.
    package mutating func went(_ user: Int, wasAway: Bool = false, at now: Instant) {
        if !wasAway { users[user].heldSince = now }
        guard users[user].connections > 0 else { return }
        users[user].connections -= 1
        guard users[user].connections == 0 else { return }
        users[user].since = now
        goings.append(Pending(at: now + offlineWithin, user: user, since: now))
    }

    /// A connection that was being made came to nothing, as far as we know: the hub may have had it.
    package mutating func failed(_ user: Int, at now: Instant) { users[user].heldSince = now }

    /// What all its connections asked for and had answered: online where one of them is, else away; nil while that isn't sure. Told after
    /// `came` and `went`.
    package mutating func shown(_ user: Int, as status: PresenceStatus?, at now: Instant) {
        let before = users[user].shown
        guard status != before else { return }
        users[user].shown = status
        users[user].shownSince = now
        // Comings and goings are judged by themselves.
        guard let status, status != .offline else { return }
        // Only online goes before what others are, so only away can be late by what is held.
        let isHeld = status == .away && users[user].heldSince.map { $0 + offlineWithin > now + onlineWithin } ?? false
        let pending = Pending(at: now + (isHeld ? offlineWithin : onlineWithin), user: user, since: now)
        if isHeld { slowTurns.append(pending) } else { turns.append(pending) }
    }

    // MARK: What was told

    /// The watch was acknowledged: from now on the watcher is told.
    package mutating func watching(_ watcher: Int, since now: Instant) { watchers[watcher] = now }

    package mutating func ended(_ watcher: Int) {
        watchers[watcher] = nil
        for slot in slots[watcher] ?? 0..<0 { watches[slot].isKnown = false }
    }

    /// A change, or a line of the answer to `watch`. An older version than what was known says nothing. True when it's a change from
    /// what this watcher knew.
    @discardableResult
    package mutating func told(_ watcher: Int, of user: Int, _ status: PresenceStatus, version: UInt64, at now: Instant) -> Bool {
        guard let slot = slots[watcher]?.first(where: { watches[$0].user == Int32(clamping: user) }) else {
            find(.unasked, user, watcher, "was told \(status.name), and doesn't watch it")
            return false
        }
        told += 1
        let known = watches[slot]
        guard !known.isKnown || version >= known.version else { return false }
        watches[slot].status = status
        watches[slot].version = version
        watches[slot].isKnown = true
        let truth = users[user]
        if status == .offline, truth.connections > 0, now.since(truth.since) > onlineWithin {
            find(
                .falseOffline, user, watcher,
                "was told offline, version \(version), though it had a connection for \(now.since(truth.since))")
        }
        if status == .online, truth.shown == .away, now.since(truth.shownSince) > offlineWithin {
            find(
                .falseBack, user, watcher, "was told online, version \(version), though it had been away for \(now.since(truth.shownSince))"
            )
        }
        return known.isKnown && version > known.version && status != known.status
    }

    // MARK: Judging

    /// Judges what has come due. Cost: the changes since the last time.
    package mutating func judge(_ now: Instant) {
        while firstComing < comings.count, comings[firstComing].at <= now {
            settle(comings[firstComing], isComing: true)
            firstComing += 1
        }
        while firstGoing < goings.count, goings[firstGoing].at <= now {
            settle(goings[firstGoing], isComing: false)
            firstGoing += 1
        }
        while firstTurn < turns.count, turns[firstTurn].at <= now {
            settleTurn(turns[firstTurn], onlineWithin)
            firstTurn += 1
        }
        while firstSlowTurn < slowTurns.count, slowTurns[firstSlowTurn].at <= now {
            settleTurn(slowTurns[firstSlowTurn], offlineWithin)
            firstSlowTurn += 1
        }
        Self.forget(&comings, &firstComing)
        Self.forget(&goings, &firstGoing)
        Self.forget(&turns, &firstTurn)
        Self.forget(&slowTurns, &firstSlowTurn)
    }

    /// What was judged, now and then.
    private static func forget(_ line: inout [Pending], _ first: inout Int) {
        guard first > 4096 else { return }
        line.removeFirst(first)
        first = 0
    }

    private mutating func settleTurn(_ pending: Pending, _ within: Span) {
        let user = users[pending.user]
        guard user.shownSince == pending.since, let shown = user.shown, shown != .offline else { return }
        for slot in user.watches {
            let watch = watches[Int(slot)]
            guard let since = watchers[Int(watch.watcher)], since <= pending.since, watch.isKnown else { continue }
            // Who shows it as offline is judged by its coming.
            judged += 1
            if shown == .away, watch.status == .online {
                find(.staleAway, pending.user, Int(watch.watcher), "wasn't told within \(within) that it turned away")
            } else if shown == .online, watch.status == .away {
                find(.staleBack, pending.user, Int(watch.watcher), "wasn't told within \(within) that it came back")
            }
        }
    }

    private mutating func settle(_ pending: Pending, isComing: Bool) {
        let user = users[pending.user]
        // Something happened since: that has a judgement of its own.
        guard user.since == pending.since, !user.isUnsure, (user.connections > 0) == isComing else { return }
        for slot in user.watches {
            let watch = watches[Int(slot)]
            // Who came later was told by the answer to its own watch, which may have been before.
            guard let since = watchers[Int(watch.watcher)], since <= pending.since, watch.isKnown else { continue }
            judged += 1
            if isComing, watch.status == .offline {
                find(.staleOnline, pending.user, Int(watch.watcher), "wasn't told within \(onlineWithin) that it came")
            } else if !isComing, watch.status != .offline {
                find(.staleOffline, pending.user, Int(watch.watcher), "wasn't told within \(offlineWithin) that it went")
            }
        }
    }

    private mutating func find(_ fault: Fault, _ user: Int, _ watcher: Int, _ text: String) {
        counts[fault, default: 0] += 1
        if findings.count < Self.findingsMax { findings.append(Finding(fault: fault, user: user, watcher: watcher, text: text)) }
    }
}
