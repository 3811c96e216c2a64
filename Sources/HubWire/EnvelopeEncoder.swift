import HubBase

/// Writes the server's envelopes as JSON: fields in the order that docs/protocol.md shows, no white space.
///
/// `id` is always the raw token of the request (`Request.id`), carried back verbatim; an empty one means that there was none.
package enum EnvelopeEncoder {
    // Publications: encoded once for each loop and wire variant.
    package static func publication(_ publication: Publication, channel: Name, position: Position?, into buffer: inout ByteBuffer) { fatalError("skeleton") }

    // Acks.
    /// `{"type":"ack","id":…}`; `channel` where there was one.
    package static func ack(id: UnsafeRawBufferPointer, channel: Name?, into buffer: inout ByteBuffer) { fatalError("skeleton") }
    package static func ackConnect(id: UnsafeRawBufferPointer, user: Name, into buffer: inout ByteBuffer) { fatalError("skeleton") }
    /// One channel: the fields stand in the ack itself. Several (`subscribe` with `channels`): `"channels":[{…}]`, errors among them.
    package static func ackSubscribe(id: UnsafeRawBufferPointer, results: [SubscribeResult], isList: Bool, into buffer: inout ByteBuffer) { fatalError("skeleton") }
    package static func ackPublish(id: UnsafeRawBufferPointer, channel: Name, messageId: Name, position: Position, isDuplicate: Bool, into buffer: inout ByteBuffer) { fatalError("skeleton") }
    package static func ackRead(id: UnsafeRawBufferPointer, channel: Name, offset: UInt64, into buffer: inout ByteBuffer) { fatalError("skeleton") }
    package static func ackPresence(id: UnsafeRawBufferPointer, version: UInt64, into buffer: inout ByteBuffer) { fatalError("skeleton") }
    /// `stale: true` is written only when it holds.
    package static func ackWatch(id: UnsafeRawBufferPointer, users: [PresenceChange], isStale: Bool, into buffer: inout ByteBuffer) { fatalError("skeleton") }

    package static func error(id: UnsafeRawBufferPointer, _ error: WireError, into buffer: inout ByteBuffer) { fatalError("skeleton") }
    package static func presence(_ changes: [PresenceChange], into buffer: inout ByteBuffer) { fatalError("skeleton") }
    package static func pong(id: UnsafeRawBufferPointer, into buffer: inout ByteBuffer) { fatalError("skeleton") }

    // System.
    package static func welcome(_ welcome: Welcome, into buffer: inout ByteBuffer) { fatalError("skeleton") }
    package static func system(_ event: SystemEvent, into buffer: inout ByteBuffer) { fatalError("skeleton") }
}

package struct SubscribeResult: Sendable {
    package var channel: Name
    package var result: Result<Position, WireError>
    /// Absent when the client gave no position.
    package var recovered: Bool?
    package var reason: String?

    package init(channel: Name, result: Result<Position, WireError>, recovered: Bool? = nil, reason: String? = nil) {
        self.channel = channel
        self.result = result
        self.recovered = recovered
        self.reason = reason
    }
}

package struct Welcome: Sendable {
    package var connection: Name
    package var node: Name
    package var user: Name
    package var device: Name
    package var pingMilliseconds: UInt64
    package var messageBytesMax: UInt64
    package var channelsMax: UInt64
    package var channels: [SubscribeResult]
    /// Milliseconds since 1970.
    package var tokenExpires: UInt64?

    package init(
        connection: Name, node: Name, user: Name, device: Name, pingMilliseconds: UInt64, messageBytesMax: UInt64, channelsMax: UInt64,
        channels: [SubscribeResult], tokenExpires: UInt64?
    ) {
        self.connection = connection
        self.node = node
        self.user = user
        self.device = device
        self.pingMilliseconds = pingMilliseconds
        self.messageBytesMax = messageBytesMax
        self.channelsMax = channelsMax
        self.channels = channels
        self.tokenExpires = tokenExpires
    }
}

package enum SystemEvent: Sendable {
    case degraded(reason: String)
    case restored
    case resync(channel: Name, position: Position, reason: String)
    case drain(returnAfterMilliseconds: UInt64)
    case tokenExpiring(inMilliseconds: UInt64)
    case unsubscribed(channel: Name, code: ErrorCode)
    case dropped(class: String, count: UInt64)
}
