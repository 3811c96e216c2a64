import HubBase
import HubWire

/// What a node knows of one channel's members: those it has itself, and where the store stands.
final class MemberChannel {
    let name: Name
    /// The namespace's, from when the channel was met.
    let threshold: Int

    // The node's own.
    var users: [Name: LocalMember] = [:]
    /// Users whose devices the store doesn't know rightly, in order.
    var dirty: [Name] = []
    var isInFlight = false
    /// The last call couldn't carry all.
    var hasMore = false

    // What the store said.
    var sequence: UInt64 = 0
    var begun: UInt64 = 0
    var occupancy: UInt64 = 0
    var isRefreshing = false
    var reaps = 0
    /// The store stood below this sequence, and still does if nothing has moved by the next refresh: it was rolled back.
    var aheadAt: UInt64?
    /// What's heard by then must have got so far, or something was lost.
    var expected: UInt64 = 0

    /// The loops with followers, a bit each.
    var followers: UInt64 = 0
    var view: MembersView?
    /// The store lost its data: until then nodes say again who is there, and who isn't there isn't gone.
    var warmUntil: Instant?

    // When something is to be done.
    var collectAt: Instant?
    var refreshAt: Instant?
    var expectAt: Instant?
    var readAt: Instant?
    var flushAt: Instant?
    /// Its entry among the machine's deadlines.
    var queuedDue = Instant.distantFuture
    var isGone = false

    init(name: Name, threshold: Int) {
        self.name = name
        self.threshold = threshold
    }

    var due: Instant {
        var due = Instant.distantFuture
        for one in [collectAt, refreshAt, expectAt, readAt, flushAt, warmUntil] { if let one, one < due { due = one } }
        return due
    }

    var isUnused: Bool { users.isEmpty && followers == 0 && !isInFlight }
    /// The store should know this node here.
    var hasMembers: Bool { users.contains { $0.value.stored != 0 } }

    func isWarm(at now: Instant) -> Bool { warmUntil.map { now < $0 } ?? false }
}
