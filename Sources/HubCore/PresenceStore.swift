import HubBase
import HubWire

/// Keeps leases, user records and versions: the second seam. Two implementations (memory, Redis), one contract suite.
///
/// Same rules as `Broker`: owned by one loop, never blocks, answers through the delegate from `advance(at:)` or the owner's loop.
/// Deadlines are judged by the store's own clock (Redis TIME); the memory store uses `now`.
package protocol PresenceStore: AnyObject {
    /// Not retained. Set before `start`.
    var delegate: (any PresenceStoreDelegate)? { get set }

    func start(at now: Instant)

    /// The *apply* script: connections up, changed, restored, down. All operations must be of users of one partition, 50 at most.
    /// Answer: `applied`, a version for each operation, or the error of the whole call.
    func apply(_ operations: [PresenceOperation], partition: Int, tag: RequestTag, at now: Instant)

    /// The *refresh* script: leases of one partition, 250 users at most. Answer: `refreshed` with the indexes that the store no longer knows.
    func refresh(_ renewal: LeaseRenewal, partition: Int, tag: RequestTag, at now: Instant)

    /// The *find* and *expire* scripts on one partition, again and again while there is more than a call's worth due. Answer: `swept`.
    func sweep(partition: Int, tag: RequestTag, at now: Instant)

    /// The states of users, any partitions, 1,000 at most. Answer: `read`.
    func read(_ users: [Name], tag: RequestTag, at now: Instant)

    /// A user's record with its connections and what is left of their leases; `explains`: with the trail of transitions too, oldest first.
    /// Answer: `inspected`.
    func inspect(_ user: Name, explains: Bool, tag: RequestTag, at now: Instant)

    /// Says that this node lives (its entry holds 30 s). Answer: `nodes`, all that live.
    func announce(_ facts: NodeFacts, tag: RequestTag, at now: Instant)

    /// The store's clock less the monotonic one, in milliseconds, as far as it's known: for measuring, not for judging.
    var clockOffset: Int64? { get }
    /// Whether transitions are only heard of users that are followed (`presence.feeds: users`), instead of all.
    var followsUsers: Bool { get }
    /// Hears a user's transitions from now on. Told by `followed` once it does, and again whenever some may be missing.
    func follow(_ users: [Name])
    func unfollow(_ users: [Name], at now: Instant)

    func advance(at now: Instant)
    func stop(at now: Instant)
}

package protocol PresenceStoreDelegate: AnyObject {
    func applied(_ result: Result<[UInt64], WireError>, tag: RequestTag)
    func refreshed(_ result: Result<[Int], WireError>, tag: RequestTag)
    /// How many users the sweep declared offline; a refused or needless sweep is 0.
    func swept(_ result: Result<Int, WireError>, partition: Int, tag: RequestTag)
    func read(_ result: Result<PresenceSnapshot, WireError>, tag: RequestTag)
    func inspected(_ result: Result<PresenceRecord, WireError>, tag: RequestTag)
    func nodes(_ result: Result<[NodeEntry], WireError>, tag: RequestTag)

    /// Transitions of one partition, in order, from the feed that every node hears. `gap`: some before these may be missing, so watched
    /// users of the partition must be read again.
    func changed(_ changes: [PresenceChange], partition: Int, gap: Bool)
    /// A sweep found that the partition's data are others than at the last one: everything in it was lost, though the store was there all along.
    func lost(partition: Int)
    /// What happened to these users before may not have been heard: they must be read again. Only where `followsUsers`.
    func followed(_ users: [Name])
    func storeHealth(_ health: BackendHealth)
}

/// A store that hears everything needs no one named.
extension PresenceStore {
    package var followsUsers: Bool { false }
    package func follow(_ users: [Name]) {}
    package func unfollow(_ users: [Name], at now: Instant) {}
}

extension PresenceStoreDelegate {
    package func followed(_ users: [Name]) {}
    package func lost(partition: Int) {}
}

/// Who and where a connection is, for the record of its user.
package struct PresenceOperation: Sendable, Equatable {
    package enum Kind: Sendable, Equatable {
        /// New, or its state changed.
        case up(ConnectionState)
        /// Known to the store before, then lost by it: writes no event when the record is missing (data loss isn't a transition).
        case restore(ConnectionState)
        /// Closed `ago`: that is when the user was last seen. `grace`, from now on, is zero for a clean leave that is told in time.
        /// Written again, since the store may have lost it, `told` is the offline that watchers have heard of since: where the record is older,
        /// it says that again, as it was.
        case down(grace: Span, ago: Span = .zero, told: PresenceChange? = nil)
    }

    package var kind: Kind
    package var user: Name
    /// `<node incarnation>-<counter>`; never holds a bar.
    package var connection: Name
    package var node: Name
    package var device: Name
    /// How long ago it connected: the store keeps when that was, by its own clock, for people.
    package var age: Span
    /// The last version that this node got for the user: the next one is larger, whatever the store lost.
    package var versionFloor: UInt64
    /// By the client's wish: a status that it set, a goodbye. Only explain looks at it.
    package var isAsked: Bool
    /// The store has acknowledged this connection before: where it isn't there any more, it's back, and not new. Only explain looks at it.
    package var isKnown: Bool
    /// Of an end: what the store had acknowledged of the connection, unless it was invisible. Where it knows nothing of it and its data are new, it
    /// has lost it, and the connection ends as if it were there.
    package var was: ConnectionState?
    package var loss: Loss

    /// What the node knows of data that the store may have lost. Each has what stands before it too.
    package enum Loss: UInt8, Sendable {
        case none
        /// The store came back, or without data: where these are new, others may have to register again, and nobody is declared offline by an
        /// end before they had the time.
        case seen
        /// The operation is an end that was acknowledged, and may have been lost since: where others have registered the user again it only
        /// counts for last seen.
        case repeated
        /// Its user was told otherwise since, so that nobody waits for it beside others of theirs.
        case over
    }

    package var knowsLoss: Bool { loss != .none }
    package var isRepeated: Bool { loss == .repeated || loss == .over }

    package init(
        kind: Kind, user: Name, connection: Name, node: Name, device: Name, age: Span = .zero, versionFloor: UInt64, isAsked: Bool = false,
        isKnown: Bool = false, was: ConnectionState? = nil, loss: Loss = .none
    ) {
        self.kind = kind
        self.user = user
        self.connection = connection
        self.node = node
        self.device = device
        self.age = age
        self.versionFloor = versionFloor
        self.isAsked = isAsked
        self.isKnown = isKnown
        self.was = was
        self.loss = loss
    }
}

/// What one connection says of its user. Invisible counts as no connection when others are told, but keeps its lease.
package enum ConnectionState: UInt8, Sendable, Equatable {
    case online, away, invisible
}

package struct Lease: Sendable, Hashable {
    package var user: Name
    package var connection: Name

    package init(user: Name, connection: Name) {
        self.user = user
        self.connection = connection
    }
}

/// Leases that go on, of one partition.
package struct LeaseRenewal: Sendable, Equatable {
    package var leases: [Lease]
    /// Whether the users' records, which live for `userTTL`, are renewed and missed too.
    package var coversRecords: Bool

    package init(leases: [Lease], coversRecords: Bool) {
        self.leases = leases
        self.coversRecords = coversRecords
    }
}

package struct PresenceSnapshot: Sendable, Equatable {
    /// One for each user asked for, in order; a user who was never seen is offline at version 0.
    package var changes: [PresenceChange]
    /// The store lost its data lately and nodes are registering again: a missing record proves nothing yet.
    package var isWarming: Bool
    /// Users whose records can't be read: nothing is known of them, and `changes` only keeps their places.
    package var unreadable: Set<Name> = []

    package init(changes: [PresenceChange], isWarming: Bool) {
        self.changes = changes
        self.isWarming = isWarming
    }
}

/// Everything known of one user, for `hubctl presence`. Right even before any sweep: expired leases are shown, not counted.
package struct PresenceRecord: Sendable, Equatable {
    package struct Connection: Sendable, Equatable {
        package var connection: Name
        package var node: Name
        package var device: Name
        package var state: ConnectionState
        package var since: UInt64
        /// Milliseconds; 0 when it ran out.
        package var leaseLeft: UInt64

        package init(connection: Name, node: Name, device: Name, state: ConnectionState, since: UInt64, leaseLeft: UInt64) {
            self.connection = connection
            self.node = node
            self.device = device
            self.state = state
            self.since = since
            self.leaseLeft = leaseLeft
        }
    }

    package var change: PresenceChange
    /// What the record says, whatever has run out since and wasn't swept yet.
    package var kept: PresenceChange
    /// The store lost its data lately: a missing record proves nothing yet.
    package var isWarming = false
    package var connections: [Connection]
    /// Milliseconds until the user goes offline, when nobody that counts lives, but one may still come back.
    package var graceLeft: UInt64?
    /// The store's clock when it was read: milliseconds since 1970.
    package var now: UInt64
    /// Milliseconds for which the user is shown online still, though all connections left are away: one that was online ended without a goodbye.
    package var awaitedLeft: UInt64?
    /// With `graceLeft` the last end of a connection that counted, with `awaitedLeft` that of the one that is awaited, where it was the last: its
    /// version is 0, its status offline.
    package var close: PresenceTransition?
    /// Oldest first, `PresenceTransition.kept` at most; empty unless it was asked for.
    package var transitions: [PresenceTransition] = []

    package init(change: PresenceChange, connections: [Connection], graceLeft: UInt64?, now: UInt64) {
        self.change = change
        kept = change
        self.connections = connections
        self.graceLeft = graceLeft
        self.now = now
    }
}

/// What a node says of itself when it announces that it lives.
package struct NodeFacts: Sendable, Equatable {
    package var connections: UInt64 = 0
    /// What its backend isn't asked about now (docs/ask.md), in the order of `AskKind`.
    package var notAsked: [AskKind] = []

    package init(connections: UInt64 = 0, notAsked: [AskKind] = []) {
        self.connections = connections
        self.notAsked = notAsked
    }
}

package struct NodeEntry: Sendable, Equatable {
    /// The incarnation: 12 random characters, new with each start of the process.
    package var incarnation: Name
    package var name: Name
    /// Milliseconds until it counts as dead.
    package var left: UInt64
    /// What it said when it last announced itself.
    package var facts: NodeFacts

    package init(incarnation: Name, name: Name, left: UInt64, facts: NodeFacts) {
        self.incarnation = incarnation
        self.name = name
        self.left = left
        self.facts = facts
    }
}
