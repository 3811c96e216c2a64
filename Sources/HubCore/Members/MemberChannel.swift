import HubBase
import HubWire

/// What a node knows of one channel's members: those it has itself, and where the store stands.
final class MemberChannel {
    let name: Name
    /// The namespace's, from when the channel was met.
    let threshold: Int

    // The node's own.
    var users = LocalMembers()
    /// Users whose devices the store doesn't know rightly, in order.
    var dirty: [Name] = []

    /// The last of a user's connections, whose end the store hasn't confirmed: if the call is late for a store that stood still, it's awaited
    /// once more.
    var unconfirmed: [Name: (connection: UInt64, device: Name)] = [:]
    /// That was so for the last of them: it isn't done twice.
    var mayBeLate = false

    // What the store said.
    var sequence: UInt64 = 0
    var begun: UInt64 = 0
    var occupancy: UInt64 = 0
    var reaps = 0
    /// The number of the node's own last call that was answered.
    var lastCall: UInt64 = 0
    /// What's heard by then must have got so far, or something was lost.
    var expected: UInt64 = 0

    /// The loops with followers, a bit each.
    var followers: UInt64 = 0
    /// Most channels have no followers.
    private var viewing: Viewing?
    /// The store lost its data: until then nodes say again who is there, and who isn't there isn't gone.
    @Moment var warmUntil: Instant?

    // When something is to be done.
    @Moment var collectAt: Instant?
    @Moment var refreshAt: Instant?
    @Moment var expectAt: Instant?
    @Moment var readAt: Instant?
    @Moment var flushAt: Instant?
    /// Its entry among the machine's deadlines.
    var queuedDue = Instant.distantFuture

    var isInFlight = false
    /// The last call couldn't carry all.
    var hasMore = false
    var isRefreshing = false
    /// Another refresh fell due meanwhile.
    var owesRefresh = false
    /// Nobody is left here, but the store went away since: perhaps it's back with those who were.
    var isChecked = false
    var isGone = false

    private final class Viewing {
        var view: MembersView?
    }

    /// An instant or none in eight bytes.
    @propertyWrapper struct Moment {
        private var instant = Instant.distantFuture
        var wrappedValue: Instant? {
            get { instant == .distantFuture ? nil : instant }
            set { instant = newValue ?? .distantFuture }
        }
    }

    init(name: Name, threshold: Int) {
        self.name = name
        self.threshold = threshold
    }

    /// Changed in place, not as a copy.
    var view: MembersView? {
        get { viewing?.view }
        _modify {
            let viewing = viewing ?? Viewing()
            yield &viewing.view
            self.viewing = viewing.view == nil ? nil : viewing
        }
    }

    var due: Instant {
        var due = Instant.distantFuture
        for one in [collectAt, refreshAt, expectAt, readAt, flushAt, warmUntil] { if let one, one < due { due = one } }
        return due
    }

    var isUnused: Bool { users.isEmpty && followers == 0 && !isInFlight && !isChecked }
    /// A store that holds less went back.
    var known: MembersKnown { MembersKnown(sequence: max(sequence, expected), call: lastCall) }
    /// The store should know this node here.
    var hasMembers: Bool { users.contains { $0.member.stored != 0 } }

    /// A connection is gone, and isn't awaited or not any more.
    func end(_ connection: UInt64, of user: Name) {
        guard var member = users[user], let device = member.device(of: connection) else { return }
        let wasShown = member.shows(connection)
        member.remove(connection)
        users[user] = member
        if wasShown && member.devices == 0 { unconfirmed[user] = (connection, device) }
    }

    /// The store knows that the user has left, or the user is back.
    func confirm(_ user: Name) { if !unconfirmed.isEmpty { unconfirmed[user] = nil } }

    /// Nothing is left of the user, and the store knows of nothing.
    func forget(_ user: Name) {
        users[user] = nil
        confirm(user)
    }

    func isWarm(at now: Instant) -> Bool { warmUntil.map { now < $0 } ?? false }
}
