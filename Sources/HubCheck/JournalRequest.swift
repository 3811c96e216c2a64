import HubBase
import HubWire

/// A request of a journal, as far as its answer needs it.
enum JournalRequest {
    case publish(Sending)
    case subscribe([Name], from: [Name: Position])
    case unsubscribe(Name)
    /// `isContinuation`: nil: not known before the answer says the channel.
    case history(Name?, isContinuation: Bool?)
    case ping
    /// Whose answer says nothing about messages.
    case other

    struct Sending: Equatable {
        /// nil: the hub makes one.
        var id: Name?
        /// nil: the connection's default channel, which only answers tell.
        var channel: Name?
        var isEvent: Bool
        var digest: UInt64?
        /// When, in the checker's order of events.
        var stamp: UInt64
    }

    /// What of an ack tells requests apart.
    struct Answer {
        var channel: Name?
        var messageId: Name?
        var hasPosition: Bool
        var hasRecovered: Bool
        /// The channels of a list.
        var list: [Name]?
    }

    /// Whether it may be what's answered. A hub doesn't look whether ids are used twice.
    func fits(_ answer: Answer) -> Bool {
        switch self {
        case .publish(let sending):
            guard let id = answer.messageId else { return false }
            return sending.id ?? id == id && sending.channel ?? answer.channel == answer.channel
        case .subscribe(let wanted, let from):
            if let list = answer.list { return list == wanted }
            guard let channel = answer.channel, answer.messageId == nil, answer.hasPosition else { return false }
            return wanted.contains(channel) && answer.hasRecovered == (from[channel] != nil)
        case .unsubscribe(let channel): return answer.channel == channel && answer.messageId == nil && !answer.hasPosition
        case .history(let channel, _): return answer.messageId == nil && answer.hasPosition && channel ?? answer.channel == answer.channel
        case .ping: return false
        case .other: return answer.messageId == nil && answer.list == nil && !answer.hasPosition
        }
    }

    /// Whether a refusal of either is the same.
    func isLike(_ other: JournalRequest) -> Bool {
        guard case .publish(let one) = self, case .publish(let two) = other else { return false }
        return one.id != nil && one.channel != nil && one.id == two.id && one.channel == two.channel
    }
}
