import HubBase

/// One envelope from the server, scanned in place; ranges as in `Request`.
package struct ServerEnvelope: Sendable {
    package enum Kind: UInt8, Sendable, CaseIterable { case ack, error, chat, event, typing, read, presence, members, system, pong }
    package var kind: Kind
    /// Our own ids are integers; another one reads as none.
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
    package var connection: ByteRange = .absent
    package var node: ByteRange = .absent
    package var version: UInt64?
    package var retryAfter: UInt64?
    package var returnAfter: UInt64?
    /// The server's ping interval, in its welcome.
    package var ping: UInt64?
    /// The raw arrays or objects of `changes`, `users` and `channels`, for `JSONElements` and `JSONFields`.
    package var changes: ByteRange = .absent
    package var users: ByteRange = .absent
    package var channels: ByteRange = .absent
    /// The raw arrays of a page: each publication as it's delivered live, and who has read how far.
    package var publications: ByteRange = .absent
    package var reads: ByteRange = .absent
    package var more = false
    package var duplicate = false
    package var recovered: Bool?
    package var retry = false
    package var stale = false
    package var escapes = false

    package init(kind: Kind) { self.kind = kind }
}
