import HubBase
import HubSwarm

/// One bot beside its client machine: what it said, what it got, what it couldn't say yet.
struct Bot {
    let room: Int
    /// Of its last message; the first has 1.
    var sequence: UInt32 = 0
    /// The last of its messages that anybody was handed (`RoomJournal.deliver`).
    var lastDelivered: UInt32 = 0
    var receiver = Receiver()
    var standing = Standing.outside
    /// Scheduled times of messages that were due while it had no connection: sent as soon as it has one, late as they are.
    var backlog: [UInt64] = []

    static let backlogMax = 64

    enum Standing {
        case outside
        /// In its room once, wherever it's now.
        case joined
        /// The hub will never let it in.
        case hopeless
    }
}

struct Room {
    let name: Name
    var journal = RoomJournal()
    var epoch: Mark?
}
