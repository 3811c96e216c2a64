import HubBase
import HubWire

/// A connection's end that the store has acknowledged.
package struct PresenceEnd {
    package var user: Name
    package var connection: Name
    /// The client said goodbye.
    package var isClean: Bool
    /// What it was, for a store that has lost all of it: nil where it counted for nobody.
    package var was: ConnectionState?
    package var device: Name
    package var cameAt: Instant
    package var endedAt: Instant
    /// The user's, as the store answered.
    package var version: UInt64
    /// When that was acknowledged.
    package var at: Instant
    /// What was told of the user since, if it was offline: written again with it.
    package var told: PresenceChange?
    /// The user was told in another state since.
    package var isOver = false
    /// How often it was refused when it was written again.
    var refusals: UInt16 = 0
    let partition: UInt16

    package init(
        user: Name, connection: Name, isClean: Bool, was: ConnectionState?, device: Name, cameAt: Instant, endedAt: Instant,
        version: UInt64, at: Instant
    ) {
        self.user = user
        self.connection = connection
        self.isClean = isClean
        self.was = was
        self.device = device
        self.cameAt = cameAt
        self.endedAt = endedAt
        self.version = version
        self.at = at
        partition = UInt16(Partition.of(user))
    }
}

/// Connections' ends of the last `PresenceMachine.lossMax`: a store that comes back with older data has the ended connections again, and nobody
/// else would say that they're gone before their leases run out. And what the feeds told of their users meanwhile.
///
/// Bounded by `limit`; who falls out is found by a sweep, a lease later. Some 170 bytes an end.
package struct PresenceEnds {
    private var queue = Queue<PresenceEnd>()
    /// Users with an end in the queue or under way to the store: how many, and what was told of them last.
    private var users: [Name: (ends: Int, told: PresenceChange?)] = [:]
    /// Users with ends that are being written again.
    private var repeated: [Name: Int] = [:]

    package static let limit = 50_000

    package init() {}

    /// An end of this user's goes to the store: from now on it's noted what is told of the user. Followed by `append` or `giveUp`.
    package mutating func expect(_ user: Name) { users[user, default: (ends: 0, told: nil)].ends += 1 }

    mutating func giveUp(_ user: Name) {
        guard let known = users[user] else { return }
        users[user] = known.ends > 1 ? (ends: known.ends - 1, told: known.told) : nil
    }

    /// The end that was expected was acknowledged.
    package mutating func append(_ end: PresenceEnd) {
        queue.append(end)
        if queue.count > PresenceEnds.limit { forgetFirst() }
    }

    /// From a feed. Cost: a lookup, where anything ended lately.
    mutating func told(_ change: PresenceChange) {
        guard !users.isEmpty, let known = users[change.user], change.version > known.told?.version ?? 0 else { return }
        users[change.user]!.told = change
    }

    /// What was acknowledged too long before can't be lost any more.
    package mutating func forget(before now: Instant) {
        while let first = queue.first, first.at + PresenceMachine.lossMax < now { forgetFirst() }
    }

    private mutating func forgetFirst() {
        guard let end = queue.popFirst() else { return }
        giveUp(end.user)
    }

    /// All that are remembered, oldest first, each with what was told of its user. Of a user who was told as away since, or online, no end says
    /// otherwise: others of theirs have been there.
    package func all(of partition: Int? = nil) -> [PresenceEnd] {
        (0..<queue.count).compactMap { place in
            guard partition == nil || Int(queue[place].partition) == partition else { return nil }
            var end = queue[place]
            guard let told = users[end.user]?.told, told.version >= end.version else { return end }
            switch told.status {
            case .offline: end.told = told
            case .away: end.was = end.was.map { _ in .away }
            case .online: end.was = end.was.map { _ in .online }
            }
            end.isOver = end.isClean || told.version > end.version
            return end
        }
    }

    mutating func beginRepeating(_ user: Name) { repeated[user, default: 0] += 1 }

    mutating func endRepeating(_ user: Name) {
        guard let count = repeated[user] else { return }
        repeated[user] = count > 1 ? count - 1 : nil
    }

    mutating func forgetRepeats() { repeated = [:] }

    /// What the store holds of that user isn't what this node knows.
    func isBeingRepeated(_ user: Name) -> Bool { !repeated.isEmpty && repeated[user] != nil }
}
