import HubBase

/// Writes a client's requests: what SDK, swarm and tools send.
package enum RequestEncoder {
    package static func connect(id: UInt64, token: String, device: Name?, into buffer: inout ByteBuffer) { fatalError("skeleton") }
    package static func subscribe(id: UInt64, channel: Name, position: Position?, into buffer: inout ByteBuffer) { fatalError("skeleton") }
    package static func unsubscribe(id: UInt64, channel: Name, into buffer: inout ByteBuffer) { fatalError("skeleton") }
    /// `chat`, `event`, `typing` and `read`; `payload` is JSON text.
    package static func publish(_ type: MessageClass, id: UInt64?, channel: Name, messageId: Name?, payload: UnsafeRawBufferPointer, into buffer: inout ByteBuffer) { fatalError("skeleton") }
    package static func presence(id: UInt64, status: Payload.Status, into buffer: inout ByteBuffer) { fatalError("skeleton") }
    package static func watch(id: UInt64, users: [Name], isUnwatch: Bool, into buffer: inout ByteBuffer) { fatalError("skeleton") }
    package static func leave(id: UInt64?, into buffer: inout ByteBuffer) { fatalError("skeleton") }
    package static func ping(id: UInt64?, into buffer: inout ByteBuffer) { fatalError("skeleton") }
}

/// One envelope from the server, scanned in place; ranges as in `Request`.
package struct ServerEnvelope: Sendable {
    package enum Kind: UInt8, Sendable, CaseIterable { case ack, error, chat, event, typing, read, presence, members, system, pong }
    package var kind: Kind
    /// Our own ids are integers.
    package var id: UInt64?
    package var channel: ByteRange = .absent
    package var user: ByteRange = .absent
    package var device: ByteRange = .absent
    package var messageId: ByteRange = .absent
    package var payload: ByteRange = .absent
    package var position: ByteRange = .absent
    package var offset: UInt64?
    package var time: UInt64?
    package var code: ByteRange = .absent
    package var message: ByteRange = .absent
    package var event: ByteRange = .absent
    package var reason: ByteRange = .absent
    package var version: UInt64?
    package var retryAfter: UInt64?
    /// The raw arrays or objects of `changes`, `users` and `channels`, for `JSONElements`.
    package var changes: ByteRange = .absent
    package var users: ByteRange = .absent
    package var channels: ByteRange = .absent
    package var duplicate = false
    package var recovered: Bool?
    package var retry = false
    package var escapes = false

    package init(kind: Kind) { self.kind = kind }

    /// Unknown fields are ignored, an unknown type is nil: a client must not break on what a newer hub sends.
    package static func scan(_ message: UnsafeRawBufferPointer, depthMax: Int) throws(WireError) -> ServerEnvelope? { fatalError("skeleton") }
}
