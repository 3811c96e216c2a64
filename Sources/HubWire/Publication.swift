import HubBase

/// What a channel carries, as nodes hand it to each other: decoded once, then shared by every loop, never changed.
///
/// `payload` is the application's value exactly as its sender wrote it: checked for well-formedness, and rewritten only for those who
/// speak another format than its sender.
///
/// One word: a publication is handed from hand to hand a dozen times on its way (mailboxes, history, the memory of its channel), and each
/// time costs one reference to count, not four.
package struct Publication: Sendable, Equatable {
    @usableFromInline var content: Content

    @usableFromInline final class Content: Sendable {
        @usableFromInline let messageClass: MessageClass
        @usableFromInline let payloadFormat: PayloadFormat
        @usableFromInline let user: Name
        @usableFromInline let device: Name
        @usableFromInline let messageId: Name
        @usableFromInline let time: UInt64
        @usableFromInline let payload: [UInt8]

        init(
            _ messageClass: MessageClass, _ user: Name, _ device: Name, _ messageId: Name, _ time: UInt64, _ payload: [UInt8],
            _ payloadFormat: PayloadFormat
        ) {
            self.messageClass = messageClass
            self.payloadFormat = payloadFormat
            self.user = user
            self.device = device
            self.messageId = messageId
            self.time = time
            self.payload = payload
        }
    }

    package init(
        messageClass: MessageClass, user: Name, device: Name, messageId: Name, time: UInt64, payload: [UInt8],
        payloadFormat: PayloadFormat = .json
    ) {
        content = Content(messageClass, user, device, messageId, time, payload, payloadFormat)
    }

    // Changing one makes another content: for who builds publications, not for their way.

    package var messageClass: MessageClass {
        @inlinable get { content.messageClass }
        set { content = changed(messageClass: newValue) }
    }
    /// The authenticated sender; empty for the backend's own (HTTP without `user`).
    package var user: Name {
        @inlinable get { content.user }
        set { content = changed(user: newValue) }
    }
    /// The sender's device; may be empty.
    package var device: Name {
        @inlinable get { content.device }
        set { content = changed(device: newValue) }
    }
    /// The sender's id for it; empty for `typing` and `read`.
    package var messageId: Name {
        @inlinable get { content.messageId }
        set { content = changed(messageId: newValue) }
    }
    /// Wall clock of the node that took it, for people to read: milliseconds since 1970.
    package var time: UInt64 {
        @inlinable get { content.time }
        set { content = changed(time: newValue) }
    }
    package var payload: [UInt8] {
        @inlinable get { content.payload }
        set { content = changed(payload: newValue) }
    }
    package var payloadFormat: PayloadFormat {
        @inlinable get { content.payloadFormat }
        set { content = changed(payloadFormat: newValue) }
    }

    private func changed(
        messageClass: MessageClass? = nil, user: Name? = nil, device: Name? = nil, messageId: Name? = nil, time: UInt64? = nil,
        payload: [UInt8]? = nil, payloadFormat: PayloadFormat? = nil
    ) -> Content {
        Content(
            messageClass ?? self.messageClass, user ?? self.user, device ?? self.device, messageId ?? self.messageId, time ?? self.time,
            payload ?? self.payload, payloadFormat ?? self.payloadFormat)
    }

    package static func == (left: Publication, right: Publication) -> Bool {
        if left.content === right.content { return true }
        return left.messageClass == right.messageClass && left.user == right.user && left.device == right.device
            && left.messageId == right.messageId && left.time == right.time && left.payload == right.payload
            && left.payloadFormat == right.payloadFormat
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
