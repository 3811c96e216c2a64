import HubBase

/// What a channel carries, as nodes hand it to each other: decoded once, then shared by every loop, never changed.
///
/// `payload` is the application's value exactly as its sender wrote it: checked for well-formedness, and rewritten only for those who
/// speak another format than its sender.
package struct Publication: Sendable, Equatable {
    package var messageClass: MessageClass
    /// The authenticated sender; empty for the backend's own (HTTP without `user`).
    package var user: Name
    /// The sender's device; may be empty.
    package var device: Name
    /// The sender's id for it; empty for `typing` and `read`.
    package var messageId: Name
    /// Wall clock of the node that took it, for people to read: milliseconds since 1970.
    package var time: UInt64
    package var payload: [UInt8]
    package var payloadFormat: PayloadFormat

    package init(
        messageClass: MessageClass, user: Name, device: Name, messageId: Name, time: UInt64, payload: [UInt8],
        payloadFormat: PayloadFormat = .json
    ) {
        self.messageClass = messageClass
        self.user = user
        self.device = device
        self.messageId = messageId
        self.time = time
        self.payload = payload
        self.payloadFormat = payloadFormat
    }
}

/// A durable publication with its place. `previous` is the tag before it: the chain that proves nothing is missing.
package struct PositionedPublication: Sendable, Equatable {
    package var position: Position
    package var previous: Mark
    package var publication: Publication

    package init(position: Position, previous: Mark, publication: Publication) {
        self.position = position
        self.previous = previous
        self.publication = publication
    }
}
