import HubBase
import HubCore

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

        package var lane: Int {
            switch self {
            case .channel(let channel): Partition.of(channel)
            case .user(let user): Partition.of(user)
            case .feed(let partition), .probe(let partition), .control(let partition): partition
            }
        }
    }
}
