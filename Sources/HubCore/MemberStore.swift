import HubBase
import HubWire

/// Keeps who is in which channel: the third seam, beside `Broker` and `PresenceStore`. Two implementations (memory, Redis), one contract suite.
///
/// Same rules as those: owned by one loop, never blocks, answers through the delegate from `advance(at:)` or the owner's loop. Deadlines are
/// judged by the store's own clock.
///
/// A member is a user with a number of devices on each node; a node says for its own users how many, and the store makes of it what all are
/// told: joined, left, or updated, each with the channel's next sequence. Whoever subscribes the channel at the broker hears it.
package protocol MemberStore: AnyObject {
    /// Not retained. Set before `start`.
    var delegate: (any MemberStoreDelegate)? { get set }

    func start(at now: Instant)

    /// The *members* script: how many devices users have in a channel on this node now, 0 for those that have left it. 50 at most, and all of
    /// them either 0 or more: what leaves must go through when memory is full. Repeating it changes nothing. One at a time for each channel;
    /// `tag.low` grows from call to call, and one that comes behind a later one changes nothing. One that mustn't be
    /// late is refused by a store that stood still for a second before it took it, as far as that's known. Answer: `changed`.
    func change(_ users: [MemberCount], in channel: Name, known: MembersKnown, mayBeLate: Bool, tag: RequestTag, at now: Instant)

    /// The *memberlease* script: this node is still there, as what. Answer: `refreshed`.
    func refresh(_ channel: Name, as role: MemberRole, known: MembersKnown, tag: RequestTag, at now: Instant)

    /// The *memberreap* script: takes out what a dead node left in a channel, 100 users a step, until nothing is left. Answer: `reaped`.
    func reap(_ node: Name, in channel: Name, tag: RequestTag, at now: Instant)

    /// The *memberlist* script: all members where there are no more than `whole`, or a page of about `limit`, from `cursor` ("0" at first) on.
    /// Pages aren't of one moment: who moves meanwhile may stand on two. Answer: `listed`.
    func list(_ channel: Name, cursor: String, limit: Int, whole: Int, tag: RequestTag, at now: Instant)

    /// The *memberfind*, *memberlook* and *memberreap* scripts: looks after the partition's occupied channels that no node was heard of in for a
    /// lease, and takes out what the dead left there, 200 channels at most. Nothing happens when another node just did so, or when nobody did for
    /// so long that all may have been cut off. Answer: `swept`.
    func sweep(partition: Int, tag: RequestTag, at now: Instant)

    /// Whether it owes answers and has said nothing for a while: it may stand still.
    func isSilent(for span: Span, at now: Instant) -> Bool

    func advance(at now: Instant)
    func stop(at now: Instant)
}

package protocol MemberStoreDelegate: AnyObject {
    func membersChanged(_ result: Result<MembersTip, WireError>, tag: RequestTag)
    func membersRefreshed(_ result: Result<MembersLease, WireError>, tag: RequestTag)
    /// How many users left the channel with the node.
    func membersReaped(_ result: Result<Int, WireError>, tag: RequestTag)
    func membersSwept(_ result: Result<MembersSwept, WireError>, partition: Int, tag: RequestTag)
    func membersListed(_ result: Result<MembersList, WireError>, tag: RequestTag)
    /// What happened in a channel that the node is subscribed to, in order; some may be missing.
    func heard(_ news: MembersNews, channel: Name)
    func memberStoreHealth(_ health: BackendHealth)
}

/// As what a node is in a channel when it says that it's still there.
package enum MemberRole: Sendable, Hashable {
    /// It has members there.
    case host
    /// It has none, and only looks after the others.
    case observer
    /// It has some and stops: after this span, instead of a lease, it may be taken for dead.
    case leaving(within: Span)
}

/// How many devices a user has in a channel on one node; 0: it isn't there.
package struct MemberCount: Sendable, Hashable {
    package var user: Name
    package var devices: UInt32

    package init(user: Name, devices: UInt32) {
        self.user = user
        self.devices = devices
    }
}

/// What a node knows of a channel's members. A store that holds less went back: the channel begins anew there, above the known sequence.
package struct MembersKnown: Sendable, Equatable {
    /// The largest that it was told.
    package var sequence: UInt64
    /// `tag.low` of its own last change that was answered; 0: none since it met the channel.
    package var call: UInt64

    package init(sequence: UInt64 = 0, call: UInt64 = 0) {
        self.sequence = sequence
        self.call = call
    }
}

/// Where a channel's members stand.
package struct MembersTip: Sendable, Equatable {
    /// Grows with each change that's told; 0: the store knows nothing of the channel.
    package var sequence: UInt64
    /// The sequence that the channel began at: another one than before means that the store lost what nodes had said.
    package var begun: UInt64
    package var occupancy: UInt64
    /// What this node said before doesn't stand there, or isn't sure to: all of it must be said again.
    package var isNew: Bool

    package init(sequence: UInt64, begun: UInt64, occupancy: UInt64, isNew: Bool) {
        self.begun = begun
        self.sequence = sequence
        self.occupancy = occupancy
        self.isNew = isNew
    }
}

package struct MembersLease: Sendable, Equatable {
    /// False: the store lost what this node said, or went back, or others took the node for dead: all of it must be said again.
    package var isKnown: Bool
    package var sequence: UInt64
    package var begun: UInt64
    package var occupancy: UInt64
    /// Until the lease of the first of the others would end; nil: there's none.
    package var othersEnd: Span?
    /// Nodes whose lease has ended.
    package var dead: [Name]

    package init(isKnown: Bool, sequence: UInt64, begun: UInt64, occupancy: UInt64, othersEnd: Span?, dead: [Name]) {
        self.begun = begun
        self.isKnown = isKnown
        self.sequence = sequence
        self.occupancy = occupancy
        self.othersEnd = othersEnd
        self.dead = dead
    }
}

/// What a sweep found.
package struct MembersSwept: Sendable, Equatable {
    /// Channels with dead nodes in them, or with nobody.
    package var channels = 0
    /// Users who left with dead nodes.
    package var users = 0

    package init(channels: Int = 0, users: Int = 0) {
        self.channels = channels
        self.users = users
    }
}

package struct MembersList: Sendable, Equatable {
    package var members: [MemberEntry]
    package var sequence: UInt64
    package var begun: UInt64
    package var occupancy: UInt64
    /// nil: these are all, or the last.
    package var cursor: String?

    package init(members: [MemberEntry], sequence: UInt64, begun: UInt64, occupancy: UInt64, cursor: String?) {
        self.begun = begun
        self.members = members
        self.sequence = sequence
        self.occupancy = occupancy
        self.cursor = cursor
    }
}

/// One message of a channel's members.
package struct MembersNews: Sendable, Equatable {
    package enum Kind: Sendable, Equatable {
        case joined, left, updated
        /// The channel begins, or what the store held is gone: each node says again who is there. The node that found out does so already.
        case rejoin(by: Name)
    }

    package var kind: Kind
    package var sequence: UInt64
    package var occupancy: UInt64
    /// `devices` of all nodes together, 0 for who left.
    package var users: [MemberCount]

    package init(kind: Kind, sequence: UInt64, occupancy: UInt64, users: [MemberCount] = []) {
        self.kind = kind
        self.sequence = sequence
        self.occupancy = occupancy
        self.users = users
    }
}

/// How much one call of a member store may carry.
package enum MemberLimits {
    package static let changes = 50
    /// Users that one step of a reap takes out.
    package static let reaped = 100
    /// What `members.threshold` may be: a list of so many is read in one call.
    package static let whole = 1_000
    /// Members of a page.
    package static let page = 200
    /// Life of a channel's keys that nobody renews.
    package static let ttl = Span.seconds(300)
    /// A page's cursor is a number below 2^64, of at most so many digits.
    package static let cursorLength = 20

    /// What Redis takes for one: it fits in 64 bits.
    package static func isCursor(_ text: some Collection<UInt8>) -> Bool {
        guard (1...cursorLength).contains(text.count) else { return false }
        var value: UInt64 = 0
        for byte in text {
            guard (48...57).contains(byte) else { return false }
            let (tenfold, isTooLarge) = value.multipliedReportingOverflow(by: 10)
            let (sum, isBeyond) = tenfold.addingReportingOverflow(UInt64(byte - 48))
            guard !isTooLarge && !isBeyond else { return false }
            value = sum
        }
        return true
    }
}
