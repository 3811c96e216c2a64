import HubBase

/// A page of a channel's history, as it's answered.
package struct HistoryResult: Sendable {
    package var channel: Name
    /// Where the page ends: what to ask from for the next one. With nothing more to come (and forwards), where the channel stands.
    package var position: Position
    /// In the order that was asked for.
    package var publications: [PositionedPublication]
    package var hasMore: Bool
    /// Whether nothing is missing between the position that was asked from and the page; nil when it wasn't asked from a position.
    package var recovered: Bool?
    package var reason: String?

    package init(
        channel: Name, position: Position, publications: [PositionedPublication], hasMore: Bool, recovered: Bool? = nil,
        reason: String? = nil
    ) {
        self.channel = channel
        self.position = position
        self.publications = publications
        self.hasMore = hasMore
        self.recovered = recovered
        self.reason = reason
    }
}
