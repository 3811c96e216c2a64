import HubBase

/// What the hub itself has to say, besides its welcome.
package enum SystemEvent: Sendable {
    case degraded(reason: String)
    case restored
    case resync(channel: Name, position: Position, reason: String)
    case drain(returnAfterMilliseconds: UInt64)
    case tokenExpiring(inMilliseconds: UInt64)
    case unsubscribed(channel: Name, code: ErrorCode)
    case dropped(class: String, count: UInt64)
    /// The first event of a stream: under which key requests are posted to it.
    case stream(key: Name)
}
