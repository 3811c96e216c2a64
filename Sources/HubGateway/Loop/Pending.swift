import HubBase
import HubCore
import HubNet
import HubWire

/// A request that waits for the backplane.
struct Pending {
    enum Kind {
        case publish(channel: Name, messageId: Name, MessageClass)
        case read(channel: Name)
        case status
        case watch
        case httpPublish(channel: Name, messageId: Name, MessageClass)
        case httpPresence
        case httpPresenceMany
        case httpNodes
        case streamPost
    }

    var kind: Kind
    var connection: ConnectionID
    var id: RequestID
}

/// A `subscribe` (or the subscriptions of the welcome) until every channel in it has been answered.
struct SubscribeBatch {
    enum Purpose {
        case request(RequestID, isList: Bool)
        case welcome
    }

    var purpose: Purpose
    var connection: ConnectionID
    var results: [SubscribeResult]
    var remaining: Int
}

/// What a loop knows of a channel beside its members.
struct ChannelState {
    struct Waiter {
        var connection: ConnectionID
        var batch: UInt64
        /// Where the result goes in the batch.
        var place: Int
        var position: Position?
    }

    /// The backplane has confirmed: members hear everything after `position`.
    var isLive = false
    var position = Position.start
    var waiters: [Waiter] = []
    /// Which `subscribe` of ours the answer must carry: an older one belongs to a subscription that was given up.
    var serial: UInt64 = 0
}

/// Messages of one connection that wait, for the welcome or for a subscription, in order and within a bound.
struct EarlyMessages {
    private(set) var messages: [[UInt8]] = []
    private var bytes = 0
    /// What keeping a message costs beside its bytes.
    private static let overhead = 64

    /// False when it would pass the limit.
    mutating func add(_ message: UnsafeRawBufferPointer, limit: Int) -> Bool {
        guard bytes + message.count + EarlyMessages.overhead <= limit else { return false }
        bytes += message.count + EarlyMessages.overhead
        messages.append([UInt8](message))
        return true
    }
}
