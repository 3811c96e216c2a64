import HubBase
import HubCore
import HubFetch
import HubNet
import HubToken
import HubWire

/// What a gateway loop asks of the backplane. Posted in one batch at the end of a turn.
enum BackplaneMessage: Sendable {
    /// `attempt` in a box: it's rare, and the message's size counts for all.
    case publish(Publication, channel: Name, attempt: Boxed<PublishAttempt>?, tag: RequestTag)
    case broadcast(Publication, channel: Name)
    case markRead(Publication, offset: UInt64, channel: Name, tag: RequestTag)
    case join(JoinBatch)
    /// This loop has no use for the channel any more.
    case drop(Name, loop: Int)
    case readHistory(Name, Boxed<HistoryQuery>, tag: RequestTag)

    case connected(user: Name, device: Name, connection: Name, status: Payload.Status)
    /// `lastHeard`: of one that fell silent.
    case closed(connection: Name, clean: Bool, lastHeard: Instant?)
    case activity(connection: Name)
    case proved(connection: Name)
    case status(Payload.Status, connection: Name, tag: RequestTag)
    case watch([Name], loop: Int, tag: RequestTag)
    case unwatch([Name], loop: Int)

    /// A connection is in a channel; the user with its device, if it's visible, is a member.
    case memberJoined(channel: Name, user: Name, device: Name, connection: UInt64, isVisible: Bool)
    case memberLeft(channel: Name, connection: UInt64)
    case memberShows(Bool, connection: UInt64)
    /// Wants the members of channels, and what becomes of them from the answer on.
    case follow([Name], loop: Int, tag: RequestTag)
    case unfollow(Name, loop: Int)
    case membersPage(Name, cursor: String?, tag: RequestTag)

    case readPresence([Name], tag: RequestTag)
    case inspect(Name, tag: RequestTag)
    case explain(Name, tag: RequestTag)
    /// What a loop knows of a connection that the backplane had it look at.
    case looked(ConnectionAnswer, PostOrigin)
    case nodes(tag: RequestTag)

    /// For a stream of another loop or node.
    case post(StreamPost, tag: RequestTag)
    /// What became of a post that was handed to a loop.
    case postAnswered(StreamPostOutcome, PostOrigin)

    /// What a user has spent, for the rates that hold on all nodes together.
    case settle(Boxed<RateReport>, tag: RequestTag)
    /// What became of a webhook's request.
    case hookAnswered(Result<FetchAnswer, FetchFailure>, number: UInt64, partition: Int)

    /// Revocations that are on the disk now, or why they aren't.
    case journaled([RevocationJournal.Entry], NetError?)

    case reconfigured(Configuration)
    /// All connections are closed, and the stores are to know that the node stops (`NodeState.hasLeft`).
    case leave
    /// Say goodbye to the others; nothing is served after it.
    case stop
}

/// What the backplane tells a loop. `tag` is the low half of the request's tag: the loop's own number for what waits.
enum LoopMessage: Sendable {
    case published(Result<PublishResult, WireError>, tag: UInt64)
    case readMoved(Result<UInt64, WireError>, tag: UInt64)
    /// The subscriber hears every `durable` behind it, and none before.
    case joined(Result<JoinAnswer, WireError>, tag: UInt64)
    case historyRead(Name, Result<HistoryPage, WireError>, tag: UInt64)
    case durable(DurableDelivery)
    case ephemeral(Publication, channel: Name)
    case resync(Name, to: Position, reason: ResyncReason)

    case statusSet(Result<UInt64, WireError>, tag: UInt64)
    case watched([PresenceChange], isStale: Bool, tag: UInt64)
    case presence([PresenceChange])
    /// Send a ping and tell when the peer has proved itself alive.
    case probe(id: UInt64, connection: Name)

    /// A page for each channel that was to be followed; the follower hears every `members` behind it, and none before.
    case followed([MembersPage?], tag: UInt64)
    case members(Boxed<MembersChange>)
    case membersPage(Boxed<Result<MembersPage, WireError>>, channel: Name, tag: UInt64)

    case presenceRead(Result<PresenceSnapshot, WireError>, isStale: Bool, tag: UInt64)
    case inspected(Result<PresenceRecord, WireError>, isStale: Bool, tag: UInt64)
    case explained(Result<Boxed<PresenceExplanation>, WireError>, isStale: Bool, tag: UInt64)
    /// Look at a connection of this loop's and say what is known of it.
    case look(UInt64, connection: Name, PostOrigin)
    case nodes(Result<[NodeEntry], WireError>, tag: UInt64)

    /// For a stream of this loop; the answer is owed to the backplane.
    case post(StreamPost, PostOrigin)
    case postAnswered(StreamPostOutcome, tag: UInt64)

    case settled(Result<[Span], WireError>, tag: UInt64)
    /// How many nodes there are, this one among them.
    case nodeCount(Int)

    /// What became of a question to a backend.
    case asked(Boxed<AskShell.Reply>, tag: UInt64)
    case health(NodeHealth)
    /// `isLive`: said just now; otherwise read from what is kept.
    case revoked([Revocation], isLive: Bool)
    /// All keys of the key set, in place of those before.
    case keySet([TokenKey])
    case reconfigured(Configuration)
    /// For TLS connections that come from now on.
    case secured(TLSContext)
    /// Close every connection with 1001 and tell when none is left.
    case shutDown
}

/// Who waits for the answer to a post.
enum PostOrigin: Sendable {
    /// One of this node's own loops, by the exchange's number.
    case here(UInt64)
    case node(Name, number: UInt64)
}

/// A large value in a message that's mostly small.
final class Boxed<Value: Sendable>: Sendable {
    let value: Value
    init(_ value: Value) { self.value = value }
}
