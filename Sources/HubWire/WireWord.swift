/// The number that stands for a word of a closed list in MessagePack's short form: its place here (docs/protocol.md, the short form). The
/// values of `type`, `event`, `status`, `code`, `class`, `reason` and `mode`, all in one list.
///
/// The list only grows, at its end: clients have the numbers built in. The first 128 travel in one byte.
package enum WireWord: UInt8, Sendable, CaseIterable {
    case ack, error, chat, event, typing, read, presence, system, pong, connect, subscribe, unsubscribe, watch, unwatch, members, history
    case leave, ping, welcome, degraded, restored, resync, drain, tokenExpiring, unsubscribed, stream, dropped, offline, away, online
    case epochChanged, trimmed, rolledBack, ahead, linkLost, gap, malformed, unknownType, unauthenticated, tokenInvalid, tokenExpired
    case forbidden, notSubscribed, unknownChannel, badName, tooLarge, tooDeep, tooMany, rateLimited, badPosition, duplicateConflict,
        uncertain
    case unavailable, storeFull, overloaded, `internal`, unknownStream, each, batched, counts

    /// As all other forms have it.
    @inline(__always) var text: StaticString {
        switch self {
        case .ack: "ack"
        case .error: "error"
        case .chat: "chat"
        case .event: "event"
        case .typing: "typing"
        case .read: "read"
        case .presence: "presence"
        case .system: "system"
        case .pong: "pong"
        case .connect: "connect"
        case .subscribe: "subscribe"
        case .unsubscribe: "unsubscribe"
        case .watch: "watch"
        case .unwatch: "unwatch"
        case .members: "members"
        case .history: "history"
        case .leave: "leave"
        case .ping: "ping"
        case .welcome: "welcome"
        case .degraded: "degraded"
        case .restored: "restored"
        case .resync: "resync"
        case .drain: "drain"
        case .tokenExpiring: "tokenExpiring"
        case .unsubscribed: "unsubscribed"
        case .stream: "stream"
        case .dropped: "dropped"
        case .offline: "offline"
        case .away: "away"
        case .online: "online"
        case .epochChanged: "epochChanged"
        case .trimmed: "trimmed"
        case .rolledBack: "rolledBack"
        case .ahead: "ahead"
        case .linkLost: "linkLost"
        case .gap: "gap"
        case .malformed: "malformed"
        case .unknownType: "unknownType"
        case .unauthenticated: "unauthenticated"
        case .tokenInvalid: "tokenInvalid"
        case .tokenExpired: "tokenExpired"
        case .forbidden: "forbidden"
        case .notSubscribed: "notSubscribed"
        case .unknownChannel: "unknownChannel"
        case .badName: "badName"
        case .tooLarge: "tooLarge"
        case .tooDeep: "tooDeep"
        case .tooMany: "tooMany"
        case .rateLimited: "rateLimited"
        case .badPosition: "badPosition"
        case .duplicateConflict: "duplicateConflict"
        case .uncertain: "uncertain"
        case .unavailable: "unavailable"
        case .storeFull: "storeFull"
        case .overloaded: "overloaded"
        case .internal: "internal"
        case .unknownStream: "unknownStream"
        case .each: "each"
        case .batched: "batched"
        case .counts: "counts"
        }
    }

    /// nil when no list has it: then it travels as text.
    init?(_ text: String) {
        guard let word = WireWord.byText[text] else { return nil }
        self = word
    }

    private static let byText = Dictionary(uniqueKeysWithValues: allCases.map { ("\($0)", $0) })
}
