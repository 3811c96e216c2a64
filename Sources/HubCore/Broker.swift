import HubBase
import HubWire

/// Carries publications between nodes: the first of the two seams. Two implementations (memory, Redis), one contract suite.
///
/// Owned by one loop and called on it only. No call blocks and none answers from inside itself: every answer and every publication reaches
/// the delegate from `advance(at:)` or from the owner's loop, in order. Time comes in as an argument.
package protocol Broker: AnyObject {
    /// Not retained. Set before `start`.
    var delegate: (any BrokerDelegate)? { get set }

    func start(at now: Instant)

    /// Appends a durable publication (`chat`, `event`) to its channel's history, gives it the next position and hands it to every node that
    /// carries the channel, all or nothing; or answers what an earlier attempt with the same (channel, sender, message id) got.
    /// Answer: `published`.
    ///
    /// `attempt`: the sender says that it sent this before. Once its id is forgotten (`HistoryOptions.dedup`), history decides whether it was
    /// published; where that can't be told the answer is `uncertain`, and nothing is published.
    func publish(_ publication: Publication, to channel: Name, attempt: PublishAttempt?, tag: RequestTag, at now: Instant)

    /// Reads a page of a channel's history; the channel needn't be subscribed. Several calls of one turn cost one round trip. Answer:
    /// `historyRead`. The page is of the time of its reading: by then `received` may have told more, or less.
    func readHistory(of channel: Name, _ query: HistoryQuery, tag: RequestTag, at now: Instant)

    /// Reads how far users have read a channel: `user`'s own mark first, then others, `limit` in all. Answer: `readMarks`.
    func readMarks(of channel: Name, user: Name, limit: Int, tag: RequestTag, at now: Instant)

    /// Hands out an ephemeral publication (`typing`): no history, no position, no answer.
    func broadcast(_ publication: Publication, to channel: Name, at now: Instant)

    /// Moves the sender's read position in a channel forwards; what doesn't move it isn't handed out. Answer: `readMoved`.
    func markRead(_ publication: Publication, offset: UInt64, in channel: Name, tag: RequestTag, at now: Instant)

    /// Wants the channel's publications from now on. Answer: `subscribed`, once the subscription is confirmed, with the position that live
    /// publications continue from: every publication after it reaches the delegate after that answer. Repeated calls are answered each.
    func subscribe(_ channel: Name, tag: RequestTag, at now: Instant)

    /// Doesn't want them any more. Publications may still come for a while.
    func unsubscribe(_ channel: Name, at now: Instant)

    /// Other options of namespaces (`""`: all that aren't named) for publications from now on.
    func setNamespaces(_ namespaces: [String: HistoryOptions], at now: Instant)

    /// Proves the data path: a message to ourselves through the publish path and back. Answer: `probed`; `storeFull` when it came back and
    /// nothing more can be kept.
    func probe(tag: RequestTag, at now: Instant)

    /// What a `down` means for everybody, where it's more to say than that the backend is away; nil otherwise. Names no addresses.
    var outage: String? { get }

    /// Places that were acknowledged and aren't remembered any more, because there were too many: were they taken back, only those would hear
    /// of it who had heard them.
    var forgottenAcknowledgements: UInt64 { get }

    /// Hands a message to one node, named by its incarnation, over its control channel. Answer: `sent`.
    func send(_ message: [UInt8], to node: Name, tag: RequestTag, at now: Instant)

    /// Delivers what is due and sends what was collected. The owner calls it at the end of each of its turns and at least every 100 ms.
    func advance(at now: Instant)

    func stop(at now: Instant)
}

extension Broker {
    package var outage: String? { nil }
    package var forgottenAcknowledgements: UInt64 { 0 }
}

/// What a broker tells its owner. Called on the owner's loop.
package protocol BrokerDelegate: AnyObject {
    func published(_ result: Result<PublishResult, WireError>, tag: RequestTag)
    /// The offset that now counts for the sender: the larger of the two.
    func readMoved(_ result: Result<UInt64, WireError>, tag: RequestTag)
    func subscribed(_ channel: Name, _ result: Result<Position, WireError>, tag: RequestTag)
    func historyRead(_ channel: Name, _ result: Result<HistoryPage, WireError>, tag: RequestTag)
    func readMarks(_ channel: Name, _ result: Result<[ReadMark], WireError>, tag: RequestTag)
    func probed(_ result: Result<Void, WireError>, tag: RequestTag)
    /// How many heard it: 0 means that the node isn't there, or can't be reached just now. `uncertain`: it may have been heard.
    func sent(_ result: Result<Int, WireError>, tag: RequestTag)
    /// A message on this node's own control channel; whoever reaches the broker may have written it. Valid during the call only.
    func received(control message: UnsafeRawBufferPointer)

    /// A durable publication, in the channel's order. After a hole that can't be filled `resync` comes first.
    func received(_ publication: PositionedPublication, channel: Name)
    /// A `typing` or `read` publication.
    func received(_ publication: Publication, channel: Name)
    /// Publications may be missing before `position`; from there on the order holds again.
    func resync(_ channel: Name, to position: Position, reason: ResyncReason)
    /// Only told when it changes. The first `up` after `start` is told too.
    func brokerHealth(_ health: BackendHealth)
    /// A key of ours holds something that isn't a hub's: for the operator. Seldom, and not again for a while.
    func foreignKey(_ key: [UInt8])
    /// What this node acknowledged in the channel, up to that place, was taken back by data that went back: the channel has a new epoch, by which
    /// everybody is told.
    func renewed(_ channel: Name, wasAcknowledged: Position)
}

/// Whoever has nothing to do with other nodes hears nothing of them.
extension BrokerDelegate {
    package func sent(_ result: Result<Int, WireError>, tag: RequestTag) {}
    package func received(control message: UnsafeRawBufferPointer) {}
    package func foreignKey(_ key: [UInt8]) {}
    package func renewed(_ channel: Name, wasAcknowledged: Position) {}
}

package struct PublishResult: Sendable, Equatable {
    package var position: Position
    /// An earlier attempt with the same id got this position; nothing was published now.
    package var isDuplicate: Bool

    package init(position: Position, isDuplicate: Bool) {
        self.position = position
        self.isDuplicate = isDuplicate
    }
}

package enum ResyncReason: String, Sendable, CaseIterable {
    /// The channel began anew: its data is gone or was rolled back.
    case epochChanged
    /// Publications passed while the link to Redis was down.
    case linkLost
    /// One or more publications were skipped.
    case gap
}

/// Whether the broker or the store can be reached. `down` names the reason for people.
package enum BackendHealth: Sendable, Equatable {
    case up
    case down(String)
}

/// Names a request among those in flight; the broker and the store hand it back untouched.
package struct RequestTag: Hashable, Sendable {
    package var high: UInt64
    package var low: UInt64

    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Nobody waits for this answer.
    package static let none = RequestTag(high: 0, low: 0)
}
