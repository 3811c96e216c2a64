import HubBase
import HubCore
import HubWire

/// A call that waits for its reply, with all that's needed to make it again. An enum instead of a closure: it's put into a ring for each
/// publication.
enum Call {
    case publish(PublishCall)
    case markRead(ReadCall)
    case history(HistoryCall)
    case marks(MarksCall)
    /// Nobody waits for its reply, but it's counted like any other.
    case broadcast(Name, Publication)
    case apply(ApplyCall)
    case refresh(RefreshCall)
    case find(Sweep)
    case expire(Sweep)
    case states(StatesCall)
    /// Whether the record of one of its users, which shows no state, is a hub's.
    case examine(StatesCall, Name)
    case inspect(Name, explains: Bool, RequestTag)
    case settle(RateReport, RequestTag)
    /// No facts: the node leaves.
    case announce(facts: [UInt8], RequestTag)
    case hooks(HookCall)
    /// Where a subscribed channel stands.
    case position(index: Int, generation: UInt32, SubscriptionSet.Subject)
    /// The same for one that turned out to have no record.
    case tip(index: Int, generation: UInt32, Name)
    /// What became of a place that was acknowledged over a link that's lost.
    case renew(AckLedger.Entry)
    /// A message to ourselves, through the master that has a partition.
    case probe(UInt64, partition: Int)
    /// A probe's write, which changes nothing: whether its master takes any, and has room.
    case trial(UInt64, partition: Int)
    /// Which keys of a call that failed hold something else.
    case strangers(StrangersCall)
    case control(Name, [UInt8], RequestTag)
    case members(MembersCall)
    case memberFind(MemberSweep)
    case ping
    case setUp(SetUp)

    enum SetUp {
        case claim
        case check
        case load(Script)
        /// Whether the scripts may do what they do.
        case rights
        /// What a failover ends, behind sentinels.
        case failover
        /// The last script of a reload that a NOSCRIPT asked for.
        case reloaded(Script)
    }

    /// What comes in floods when thousands of subscriptions come or go, and that publications shouldn't stand behind: of each kind only so many
    /// are under way on a link, and the rest waits where it came from (decision 0361).
    enum Upkeep: Int, CaseIterable {
        /// Where subscribed channels stand: some 10 to 40 µs of Redis each.
        case positions
        /// Who is in channels, and for how long: some 50 µs of Redis each.
        case members

        static let window = 64
    }

    var upkeep: Upkeep? {
        switch self {
        case .position, .tip: .positions
        case .members: .members
        default: nil
        }
    }

    /// Whether it calls a script, so that a NOSCRIPT can be its answer.
    var isScript: Bool {
        switch self {
        case .publish, .markRead, .history, .marks, .tip, .renew, .apply, .refresh, .find, .expire, .inspect, .examine, .announce, .settle,
            .hooks, .strangers, .members, .memberFind:
            true
        case .broadcast, .states, .position, .probe, .trial, .control, .ping, .setUp: false
        }
    }
}

extension Call {
    /// Which master it's for.
    var lane: Int {
        switch self {
        case .publish(let call): Partition.of(call.channel)
        case .markRead(let call): Partition.of(call.channel)
        case .history(let call): Partition.of(call.channel)
        case .marks(let call): Partition.of(call.channel)
        case .broadcast(let channel, _): Partition.of(channel)
        case .apply(let call): call.partition
        case .refresh(let call): call.partition
        case .find(let sweep), .expire(let sweep): sweep.partition
        case .inspect(let user, _, _), .examine(_, let user): Partition.of(user)
        case .settle(let report, _): Partition.of(report.user)
        case .announce: Lane.nodes
        case .hooks(let call): call.partition
        case .position(_, _, let subject): subject.lane
        case .tip(_, _, let channel): Partition.of(channel)
        case .renew(let entry): Partition.of(entry.channel)
        case .probe(_, let partition), .trial(_, let partition): partition
        case .strangers(let call): call.lane
        case .control(let node, _, _): Partition.of(node)
        case .members(let call): Partition.of(call.channel)
        case .memberFind(let sweep): sweep.partition
        case .states, .ping, .setUp: Lane.several
        }
    }

    var replies: Int { if case .states(let states) = self { states.replies } else { 1 } }

    /// What's answered when one of its keys holds something else.
    var foreignKey: WireError {
        switch self {
        case .publish(let call): .foreignKey(channel: call.channel)
        case .markRead(let call): .foreignKey(channel: call.channel)
        case .history(let call): .foreignKey(channel: call.channel)
        case .marks(let call): .foreignKey(channel: call.channel)
        case .inspect(let user, _, _), .examine(_, let user): .foreignKey("the user \(user)")
        case .tip(_, _, let channel), .position(_, _, .channel(let channel)): .foreignKey(channel: channel)
        case .renew(let entry): .foreignKey(channel: entry.channel)
        case .settle(let report, _): .foreignKey("the budgets of the user \(report.user)")
        case .hooks: .foreignKey("some of the webhooks")
        case .members(let call): .foreignKey(channel: call.channel)
        case .memberFind: .foreignKey("some of the occupied channels")
        case .announce: .foreignKey("the list of nodes")
        case .apply(let call) where call.operations.count == 1: .foreignKey("the user \(call.operations[0].user)")
        case .apply, .refresh, .find, .expire, .states: .foreignKey("some of the users")
        case .broadcast, .position, .probe, .trial, .strangers, .control, .ping, .setUp: .notOurs
        }
    }

    var publishedBytes: Int { if case .publish(let publish) = self { publish.publication.payload.count } else { 0 } }
}

/// A call on its way, or waiting to be made.
struct Waiting {
    var call: Call
    let lane: Int
    /// The order in which calls were first made.
    let sequence: UInt64
    let since: Instant
    /// How often it was made again after a NOSCRIPT, and after a redirection.
    var reloads = 0
    var redirects = 0
    /// With whom its bytes are counted.
    var master: Int?
    /// Since when a server has been saying that it takes nothing: then it's known what became of the call, nothing, and only a short while is
    /// waited for a server that does.
    var refused: Instant?

    /// When there's no use in making it again: a publication has its own time, for all else its caller has given up by then.
    var until: Instant {
        let end = if case .publish(let publish) = call { publish.retryUntil } else { since + RedisLink.deadline }
        return refused.map { min(end, $0 + RedisLink.refusedFor) } ?? end
    }
}

struct PublishCall {
    var channel: Name
    var publication: Publication
    /// The sender's word that it's a retry, as of `madeAt`.
    var attempt: PublishAttempt?
    var madeAt: Instant
    var tag: RequestTag
    /// Tells a retry from another message under the same id.
    var fingerprint: Mark
    /// Made again until then at most: the message id must still be remembered, or it could be published twice.
    var retryUntil: Instant
}

struct ReadCall {
    var channel: Name
    var publication: Publication
    var offset: UInt64
    var tag: RequestTag
    /// Moved again after a link was lost: nobody waits for it.
    var again: ReadLedger.Entry?
}

struct ApplyCall {
    var operations: [PresenceOperation]
    var partition: Int
    var tag: RequestTag
}

struct RefreshCall {
    var renewal: LeaseRenewal
    var partition: Int
    var tag: RequestTag
}

struct HookCall {
    var claim: HookClaim
    var partition: Int
    var tag: RequestTag
}

/// A sweep of one partition, between its steps.
struct Sweep {
    struct Entry {
        var isLease: Bool
        /// Of a lease: its node doesn't announce itself any more. Only explain looks at it.
        var isNodeDead = false
        /// As find gave it: it goes back unchanged.
        var score: [UInt8]
        var connection: [UInt8]
        var user: [UInt8]
    }

    var partition: Int
    var tag: RequestTag
    /// Users that went offline so far.
    var offline = 0
    var rounds = 0
    /// Until when the partition was warming, after its first sweep.
    var warm: UInt64?
    /// find's clock, and what it found.
    var now: [UInt8] = []
    var time: UInt64?
    var entries: [Entry] = []
    /// Whether find returned as many as it may: there's more.
    var isFull = false
}

/// A read of many users, whose replies come one by one. In a cluster it's made in parts, one for each master.
final class StatesCall {
    let users: [Name]
    let partitions: [Int]
    let usersOf: [Int: [Name]]
    let tag: RequestTag
    var milliseconds: UInt64 = 0
    /// What's asked of each partition: the head of its meta key, how many fields that has, two keys that nobody is registered without, and how many
    /// of its users have a record.
    enum OfPartition: Int, CaseIterable { case head, fields, leases, grace, records }
    /// Partitions of which a key isn't a hub's: nothing is known of their users.
    var strange: Set<Int> = []
    /// The partition read last has a meta key of a hub's, as far as its head says.
    var hasHead = false
    /// Records of each partition that show no state, and users of whom no state is shown.
    var unshown: [Int: Int] = [:]
    var stateless: [Name] = []
    /// Of those whose answers are owed.
    var examined = 0
    var isWarming = false
    var changes: [PresenceChange] = []
    var failure: WireError?
    /// Users whose records can't be read.
    var unreadable: Set<Name> = []
    /// Replies seen so far: TIME, five for each partition, one for each user.
    var seen = 0
    /// Of a part: the whole. Of a whole: its parts whose answers are owed.
    let whole: StatesCall?
    var parts = 0
    /// Of a part: keys of this lane are elsewhere, so that it's made again as a whole.
    var movedLane: Int?

    init(users: [Name], tag: RequestTag, whole: StatesCall? = nil) {
        self.users = users
        self.tag = tag
        self.whole = whole
        usersOf = Dictionary(grouping: users) { Partition.of($0) }
        partitions = usersOf.keys.sorted()
        changes.reserveCapacity(users.count)
    }

    /// Before those of the users.
    var heads: Int { 1 + OfPartition.allCases.count * partitions.count }
    var replies: Int { heads + users.count }

    /// Of one before those of the users, but the first: the place of its partition, and what it says of that.
    func ofPartition(_ reply: Int) -> (Int, OfPartition) {
        let (place, what) = (reply - 1).quotientAndRemainder(dividingBy: OfPartition.allCases.count)
        return (place, OfPartition(rawValue: what) ?? .head)
    }

    /// The reads of it that are to be made: itself where one master has all of it, or a part for each.
    func split(_ masterOf: (Int) -> Int) -> [StatesCall] {
        var users: [Int: [Name]] = [:]
        for user in self.users { users[masterOf(Partition.of(user)), default: []].append(user) }
        guard users.count > 1 || seen > 0 else { return [self] }
        let whole = whole ?? self
        if self === whole {
            // What it has seen so far will be read again.
            changes.removeAll()
            unreadable.removeAll()
            strange.removeAll()
            isWarming = false
            failure = nil
        }
        // A part that's made again is replaced by the new ones.
        whole.parts += users.count - (self === whole ? 0 : 1)
        return users.sorted { $0.key < $1.key }.map { StatesCall(users: $0.value, tag: tag, whole: whole) }
    }

    /// All replies of a part are there, or it failed. The whole, once it's complete.
    func partEnded() -> StatesCall? {
        guard let whole else { return self }
        whole.parts -= 1
        whole.changes += changes
        whole.unreadable.formUnion(unreadable)
        whole.isWarming = whole.isWarming || isWarming
        whole.failure = whole.failure ?? failure
        guard whole.parts == 0 else { return nil }
        // Answers stand in the order of the users that were asked for.
        let found = Dictionary(whole.changes.map { ($0.user, $0) }) { first, _ in first }
        whole.changes = whole.users.compactMap { found[$0] }
        return whole
    }
}
