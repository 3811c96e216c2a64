import HubBase
import HubWire

/// What the shell must do for the presence machine. Those with a `tag` of the machine's own space expect the store's answer to come back
/// through the input of the same name.
package enum PresenceAction: Sendable, Equatable {
    // For the store.
    case apply([PresenceOperation], partition: Int, tag: RequestTag)
    case refresh(LeaseRenewal, partition: Int, tag: RequestTag)
    case sweep(partition: Int, tag: RequestTag)
    case read([Name], tag: RequestTag)
    /// Users of whom nobody here hears any more, and such of whom somebody does: for stores that hear only of those that are named.
    case unfollow([Name])
    case follow([Name])
    case announce(connections: UInt64, tag: RequestTag)

    // For the gateway's loops.
    /// The store lost this connection's lease: ping its socket, and call `proved` when a pong or any frame comes back.
    case probe(connection: Name)
    /// One for each `watch`; `changes` in the order of the request. `isStale`: the store can't be asked, these are the last known states.
    case watchAnswer(tag: RequestTag, changes: [PresenceChange], isStale: Bool)
    /// Newer states of watched users; versions only grow.
    case changed([PresenceChange])
    /// One for each `requested`, with the user's version.
    case presenceAck(tag: RequestTag, Result<UInt64, WireError>)
}
