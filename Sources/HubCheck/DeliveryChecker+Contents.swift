import HubBase
import HubWire

/// What can be wrong with one message's content besides its payload, and with what was acknowledged of it.
extension DeliveryChecker {
    /// The class in which it was sent, or came.
    package mutating func classed(_ message: Message, in name: Name, isEvent: Bool, by client: Int, isSent: Bool) {
        let channel = number(of: name)
        guard let sent = channels[channel].messages[message] else { return }
        if isSent {
            // Two classes under one id are the sender's fault.
            channels[channel].messages[message]?.isEvent = sent.attempts == 1 || sent.isEvent == isEvent ? isEvent : nil
        } else if let was = sent.isEvent, was != isEvent {
            find(.contradiction, channel, client, "got \(message) as \(isEvent ? "an event" : "a chat"), and it was sent as the other")
        }
    }

    /// Which content was acknowledged: another one under the same id is `duplicateConflict`, not a repeat.
    package mutating func confirmed(_ message: Message, in name: Name, digest: UInt64, by client: Int) {
        let channel = number(of: name)
        guard let first = channels[channel].messages[message]?.confirmed else {
            channels[channel].messages[message]?.confirmed = digest
            return
        }
        if first != digest { find(.contradiction, channel, client, "\(message) was acknowledged with two payloads") }
    }

    /// Acknowledged with another payload than was handed out. Where one payload alone was sent that's found on delivery.
    mutating func settleContents(of channel: Int) {
        for (message, sent) in channels[channel].messages {
            guard let confirmed = sent.confirmed, let handedOut = channels[channel].payloads[message], confirmed != handedOut else {
                continue
            }
            find(.contradiction, channel, sent.client, "\(message) was acknowledged with another payload than others got")
        }
    }
}
