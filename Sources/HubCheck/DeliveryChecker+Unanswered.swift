import HubBase
import HubWire

/// What clients do without asking for an answer, and what the hub does without giving one: judged from its first sign on.
extension DeliveryChecker {
    package func isSubscribed(_ name: Name, _ client: Int) -> Bool {
        channelNumbers[name].flatMap { readers[Seat(client: client, channel: $0)]?.isSubscribed } ?? false
    }

    /// The first message of a subscription that nothing answered: from here on it's owed everything.
    package mutating func overheard(_ message: Message, in name: Name, at position: Position, by client: Int) {
        let channel = number(of: name)
        let seat = Seat(client: client, channel: channel)
        seats[client, default: []].insert(seat)
        report.delivered += 1
        note(message, at: position, previous: nil, channel, client)
        clock += 1
        readers[seat] = Reader(cursor: position, got: [message], base: position.offset, cameAt: now, since: clock, owedSince: now)
        told[seat] = clock
    }

    /// It unsubscribes, and no answer says when that holds: what was under way may still come, and nothing more is owed.
    package mutating func leaving(_ name: Name, by client: Int) {
        let seat = Seat(client: client, channel: number(of: name))
        guard readers[seat]?.isSubscribed == true else { return }
        settleTail(seat)
        readers[seat]?.isSubscribed = false
        readers[seat]?.promised = [:]
        readers[seat]?.takenBack = []
        readers[seat]?.leftAt = now
    }

    func isLeaving(_ seat: Seat) -> Bool { readers[seat]?.leftAt.map { now.since($0) <= grace } ?? false }

    /// Nobody can say whether it's still subscribed.
    package mutating func loosened(_ name: Name, by client: Int) {
        let seat = Seat(client: client, channel: number(of: name))
        readers[seat]?.isSubscribed = false
        readers[seat]?.promised = [:]
        readers[seat]?.takenBack = []
    }

    // MARK: When something was sent

    /// A moment in the order of events.
    package mutating func stamp() -> UInt64 {
        clock += 1
        return clock
    }

    /// The last `sent` of it was at that moment: the journal says only later what it was.
    package mutating func backdate(_ message: Message, in name: Name, to stamp: UInt64) {
        let channel = number(of: name)
        guard let sent = channels[channel].messages[message] else { return }
        if sent.attempts == 1 {
            channels[channel].messages[message]?.at = stamp
        } else {
            channels[channel].messages[message]?.retriedAt = stamp
        }
    }
}
