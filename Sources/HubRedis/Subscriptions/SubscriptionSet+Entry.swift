import HubBase
import HubCore

/// What the set keeps of each pub/sub channel.
extension SubscriptionSet {
    /// Who listens.
    package enum Subject: Equatable {
        case channel(Name)
        case feed(Int)
        /// The node's own messages, in a partition.
        case probe(Int)
        /// Other nodes' words to this one, in a partition.
        case control(Int)
        /// One user's transitions, without positions: its record is read again after each subscribing.
        case user(Name)

        /// A subject with positions counts as heard only when its position is known.
        package var hasPosition: Bool {
            switch self {
            case .channel, .feed: true
            case .probe, .control, .user: false
            }
        }

        /// The name that the pub/sub channel's ends with.
        var tail: [UInt8] {
            switch self {
            case .channel(let name), .user(let name): name.bytes
            case .feed, .probe, .control: []
            }
        }

        package var lane: Int {
            switch self {
            case .channel(let channel): Partition.of(channel)
            case .user(let user): Partition.of(user)
            case .feed(let partition), .probe(let partition), .control(let partition): partition
            }
        }
    }

    package enum State: Equatable {
        /// Not subscribed, and no command under way.
        case absent
        case subscribing
        /// Confirmed; the position is still to be read, or being read.
        case unread
        case reading
        /// Confirmed and continued from a known position.
        case live
        case unsubscribing
    }

    package struct Waiter: Equatable {
        package var tag: RequestTag
        package var deadline: Instant

        package init(tag: RequestTag, deadline: Instant) {
            self.tag = tag
            self.deadline = deadline
        }
    }

    /// 80 bytes: there's one for each channel, so for each user.
    package struct Entry {
        package var subject: Subject
        package var state: State = .absent
        package var isWanted = true
        /// The time to keep it for the next subscriber is over.
        package var isExpired = false
        /// Looks at it since the last message, as far as they count.
        var quiet: UInt8 = 0
        var isQueued = false
        var isLingering = false
        private let laneNumber: UInt16
        /// New whenever what's under way for the entry no longer counts.
        package var generation: UInt32 = 0
        /// Where it stands; of a partition's feed, only `chain` is of use.
        package internal(set) var feed = ChannelFeed()
        package internal(set) var chain: Chain {
            get { feed.chain }
            set { feed.chain = newValue }
        }
        /// What it has only while it's made or given up.
        private var passing: Passing?

        private final class Passing {
            var waiters: [Waiter] = []
            var lingerUntil = Instant.distantFuture
        }

        init(subject: Subject, generation: UInt32) {
            self.subject = subject
            self.generation = generation
            laneNumber = UInt16(truncatingIfNeeded: subject.lane)
        }

        /// Which link it needs.
        package var lane: Int { Int(laneNumber) }

        package var waiters: [Waiter] { passing?.waiters ?? [] }
        var isAwaited: Bool { passing.map { !$0.waiters.isEmpty } ?? false }
        var lingerUntil: Instant { passing?.lingerUntil ?? .distantFuture }

        mutating func changeWaiters(_ body: (inout [Waiter]) -> Void) { pass { body(&$0.waiters) } }
        mutating func linger(until end: Instant) { pass { $0.lingerUntil = end } }

        private mutating func pass(_ body: (Passing) -> Void) {
            let passing = passing ?? Passing()
            body(passing)
            self.passing = passing.waiters.isEmpty && passing.lingerUntil == .distantFuture ? nil : passing
        }
    }
}
