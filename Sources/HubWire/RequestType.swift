/// The `type` of an envelope that a client sends. A closed list: anything else is answered `unknownType`.
package enum RequestType: UInt8, Sendable, CaseIterable {
    case connect, subscribe, unsubscribe, chat, event, typing, read, presence, watch, unwatch, members, history, leave, ping

    package var messageClass: MessageClass? {
        switch self {
        case .chat: .chat
        case .event: .event
        case .typing: .typing
        case .read: .read
        default: nil
        }
    }
}
