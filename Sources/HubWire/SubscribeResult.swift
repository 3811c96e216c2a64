import HubBase

/// How subscribing to one channel ended: where the subscriber stands, or why it was refused.
package struct SubscribeResult: Sendable {
    package var channel: Name
    package var result: Result<Position, WireError>
    /// Absent when the client gave no position.
    package var recovered: Bool?
    package var reason: String?
    /// What was missed, up to `result`'s position; left out when it's empty.
    package var publications: [PositionedPublication]?
    /// There's more than the page holds: the client isn't subscribed until it has asked for the rest.
    package var hasMore = false
    /// The subscriber's own first; nil when they can't be had.
    package var reads: [ReadMark]?
    /// How many are in the channel, where the node knows it; of `members` where it was asked for them.
    package var occupancy: UInt64?
    package var members: MembersPage?

    package init(channel: Name, result: Result<Position, WireError>, recovered: Bool? = nil, reason: String? = nil) {
        self.channel = channel
        self.result = result
        self.recovered = recovered
        self.reason = reason
    }
}
