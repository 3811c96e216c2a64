import HubBase
import HubWire

/// The queues of webhooks, one for each partition: the third seam. Two implementations (memory, Redis), one contract suite.
///
/// What is told of a partition's users and channels is appended by the store and the broker, together with the thing itself. Here it's read,
/// by one node at a time for each partition, and taken away once it was delivered. Same rules as `Broker`: owned by one loop, never blocks,
/// answers through the delegate from `advance(at:)` or the owner's loop.
package protocol HookQueue: AnyObject {
    /// Not retained.
    var hookDelegate: (any HookQueueDelegate)? { get set }

    /// Whether what `HookPage.now` says is a clock that all nodes share, and not this node's as it was at the start.
    var hasSharedClock: Bool { get }

    /// What is appended from now on, by this node.
    func setHookRules(_ rules: HookRules)

    /// Takes away what is settled, holds the partition or lets it go, and reads. Answer: `claimed`. Repeating it does no harm.
    func claim(_ claim: HookClaim, partition: Int, tag: RequestTag, at now: Instant)

    func advance(at now: Instant)
}

package protocol HookQueueDelegate: AnyObject {
    func claimed(_ result: Result<HookPage, WireError>, partition: Int, tag: RequestTag)
}

/// What is appended, and how much is kept.
package struct HookRules: Sendable, Equatable {
    /// Empty: nobody is told of anything, and nothing is appended.
    package var kinds: HookKinds
    /// Events of one partition; the oldest make room. Redis drops them in blocks, so that it may hold a block more.
    package var perPartition: Int
    package var keep: Span

    package init(kinds: HookKinds, perPartition: Int, keep: Span) {
        self.kinds = kinds
        self.perPartition = perPartition
        self.keep = keep
    }

    package static let none = HookRules(kinds: [], perPartition: 1, keep: .seconds(1))
}

package struct HookClaim: Sendable, Equatable {
    package enum Holding: Sendable, Equatable {
        /// Goes on if it's held by this node, takes it if nobody holds it.
        case take
        /// As `take`; and another node that holds it is told that it's wanted, once, with its next page.
        case want
        case letGo
    }

    package var holding: Holding
    /// How long it holds from now on, by the store's clock.
    package var lease: Span
    /// Delivered.
    package var settled: [HookEventID]
    /// Given up: counted among those that are lost.
    package var dropped: [HookEventID]
    /// Of the lost, how many the receiver has been told of in all.
    package var told: UInt64
    /// Events to read, the oldest first.
    package var limit: Int

    /// The most that `limit` may be, and that may be settled or dropped at once.
    package static let eventsMax = 1_000

    package init(
        holding: Holding, lease: Span, settled: [HookEventID] = [], dropped: [HookEventID] = [], told: UInt64 = 0, limit: Int = 0
    ) {
        self.holding = holding
        self.lease = lease
        self.settled = settled
        self.dropped = dropped
        self.told = told
        self.limit = limit
    }
}

package struct HookPage: Sendable, Equatable {
    package enum Holder: Sendable, Equatable {
        case us, nobody
        case other(left: Span)
    }

    package var holder: Holder
    /// Ours, and another node has asked for it since the last page.
    package var isWanted = false
    /// The store's clock, milliseconds since 1970.
    package var now: UInt64
    /// Events that wait, those that were read among them. 0 where another node holds the partition.
    package var length: Int
    /// When the oldest of them was queued.
    package var oldest: UInt64?
    /// How many were lost because the queue was full, how many were given up, and of both together how many the receiver was told of; since
    /// the partition's count began, which is forgotten when nothing is lost for as long as events are kept.
    package var overflowed: UInt64
    package var givenUp: UInt64
    package var told: UInt64
    package var events: [HookEvent]

    package var lost: UInt64 { overflowed &+ givenUp }

    package init(
        holder: Holder, now: UInt64, length: Int = 0, oldest: UInt64? = nil, overflowed: UInt64 = 0, givenUp: UInt64 = 0, told: UInt64 = 0,
        events: [HookEvent] = []
    ) {
        self.holder = holder
        self.now = now
        self.length = length
        self.oldest = oldest
        self.overflowed = overflowed
        self.givenUp = givenUp
        self.told = told
        self.events = events
    }
}
