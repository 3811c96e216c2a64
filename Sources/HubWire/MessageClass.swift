/// What a publication is, which decides what may happen to it on its way.
package enum MessageClass: UInt8, Sendable, CaseIterable {
    /// Ordered, acknowledged, kept, recoverable, deduplicated.
    case chat = 0
    /// As `chat`, for what the application does rather than says.
    case event = 1
    /// A read position: the last value for each user and channel counts, it never goes back, it may be conflated.
    case read = 2
    /// Ephemeral: throttled, expires by itself, the first to be shed.
    case typing = 3

    /// Kept in history, numbered, acknowledged with a position.
    package var isDurable: Bool { self == .chat || self == .event }

    /// The envelope's `type`.
    package var name: StaticString {
        switch self {
        case .chat: "chat"
        case .event: "event"
        case .read: "read"
        case .typing: "typing"
        }
    }
}
