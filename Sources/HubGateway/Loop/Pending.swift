import HubBase
import HubCore
import HubNet
import HubWire

/// A request that waits for the backplane.
struct Pending {
    enum Kind {
        case publish(channel: Name, messageId: Name, MessageClass)
        case read(channel: Name)
        case status(Payload.Status)
        case watch
        case follow(Following)
        case members
        case httpMembers
        case httpPublish(channel: Name, messageId: Name, MessageClass)
        case history(channel: Name, HistoryQuery)
        case httpHistory(channel: Name, HistoryQuery, HistoryTag)
        case httpPublishPart(batch: UInt64, place: Int, MessageClass)
        case httpPresence
        case httpExplain
        case httpPresenceMany
        case httpNodes
        case httpRevoke(Revocation)
        case streamPost
        case userConnections
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
    /// Not asked for yet.
    var items: [JoinBatch.Item] = []
    /// What its pages may weigh.
    var bytes = 0
    /// Members are still to be asked for.
    var wantsMembers = false
}

/// A batch's channels whose members are to be followed, until the backplane answers.
struct Following {
    struct Part {
        /// Among the batch's results.
        var place: Int
        var joining: UInt64
        /// The channel's place among those that are followed.
        var slot: Int
    }

    var batch: UInt64
    var parts: [Part] = []

    init(batch: UInt64) { self.batch = batch }
}

/// One subscriber of one channel, until the backplane answers.
struct Joining {
    enum Purpose {
        case subscription(batch: UInt64, place: Int)
        /// A `history` of one who is catching up.
        case page(RequestID, bytes: Int)
        /// It's joined, and waits for the members.
        case following(batch: UInt64)
    }

    var connection: ConnectionID
    /// Its channel's place, which stays while somebody waits for it.
    var slot: Int
    var purpose: Purpose
}

/// What a loop knows of a channel beside its members.
struct ChannelState {
    /// How far those who hear it have been told.
    var offset: UInt64 = 0
    /// Those who aren't members yet: they wait for an answer, or are catching up.
    var interest: Int32 = 0
    /// Somebody has been joined: members hear everything after `offset`.
    var isLive = false
}

/// Messages of one connection that wait, for the welcome or for a subscription, in order and within a bound.
struct EarlyMessages {
    /// With when it came.
    private(set) var messages: [(bytes: [UInt8], at: Instant)] = []
    private(set) var bytes = 0
    /// What keeping a message costs beside its bytes.
    static let overhead = 64

    var first: (bytes: [UInt8], at: Instant)? { messages.first }

    /// True: that was the last one.
    mutating func removeFirst() -> Bool {
        bytes -= messages.removeFirst().bytes.count + EarlyMessages.overhead
        return messages.isEmpty
    }

    /// False when it would pass the limit.
    mutating func add(_ message: UnsafeRawBufferPointer, at now: Instant, limit: Int) -> Bool {
        guard bytes + message.count + EarlyMessages.overhead <= limit else { return false }
        bytes += message.count + EarlyMessages.overhead
        messages.append(([UInt8](message), now))
        return true
    }
}
