import HubBase
import HubCore
import HubWire

/// A call that waits for its reply, with all that's needed to make it again. An enum instead of a closure: it's put into a ring for each
/// publication.
enum Call {
    case publish(PublishCall)
    case markRead(ReadCall)
    /// Nobody waits for its reply, but it's counted like any other.
    case broadcast(Name, Publication)
    case apply(ApplyCall)
    case refresh(RefreshCall)
    case find(Sweep)
    case expire(Sweep)
    case states(StatesCall)
    case inspect(Name, RequestTag)
    /// No facts: the node leaves.
    case announce(facts: [UInt8], RequestTag)
    /// Where a subscribed channel stands.
    case position(index: Int, generation: UInt32, SubscriptionSet.Subject)
    case probe(UInt64)
    case control(Name, [UInt8], RequestTag)
    case ping
    case setUp(SetUp)

    enum SetUp {
        case claim
        case check
        case load(Script)
        /// The last script of a reload that a NOSCRIPT asked for.
        case reloaded(Script)
    }

    /// Whether it calls a script, so that a NOSCRIPT can be its answer.
    var isScript: Bool {
        switch self {
        case .publish, .markRead, .apply, .refresh, .find, .expire, .inspect, .announce: true
        case .broadcast, .states, .position, .probe, .control, .ping, .setUp: false
        }
    }
}

struct PublishCall {
    var channel: Name
    var publication: Publication
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
}

struct ApplyCall {
    var operations: [PresenceOperation]
    var partition: Int
    var tag: RequestTag
}

struct RefreshCall {
    var leases: [Lease]
    var partition: Int
    var tag: RequestTag
}

/// A sweep of one partition, between its steps.
struct Sweep {
    struct Entry {
        var isLease: Bool
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
    /// find's clock, and what it found.
    var now: [UInt8] = []
    var entries: [Entry] = []
    /// Whether find returned as many as it may: there's more.
    var isFull = false
}

/// A read of many users, whose replies come one by one.
final class StatesCall {
    let users: [Name]
    let partitions: [Int]
    let tag: RequestTag
    var milliseconds: UInt64 = 0
    var isWarming = false
    var changes: [PresenceChange] = []
    var failure: WireError?
    /// Replies seen so far: TIME, one for each partition, one for each user.
    var seen = 0

    init(users: [Name], partitions: [Int], tag: RequestTag) {
        self.users = users
        self.partitions = partitions
        self.tag = tag
        changes.reserveCapacity(users.count)
    }

    var replies: Int { 1 + partitions.count + users.count }
}
