import HubBase
import HubWire

/// One client of a journal: what it may be answered, and what it may hear.
struct JournalClient {
    var user = Name.empty
    /// The node of its connection, as the welcome names it.
    var node = Name.empty
    var isWelcome = false
    /// Acknowledged something without ever having been welcomed: it speaks HTTP, in nobody's name.
    var isBackend = false
    /// Sent before the welcome, which says in whose name.
    var held: [JournalRequest.Sending] = []
    /// Message ids that were sent to a default channel over connections that ended before anything told which one that is.
    var earlier: Set<Name> = []
    /// Requests without an answer, by the raw `id`; one id may be used for several.
    var asked: [[UInt8]: [JournalRequest]] = [:]
    /// Where each channel's pages have got to, while it's paging.
    var paging: Set<Name> = []
    /// Channels that it may be subscribed to though no answer said so, until when.
    var unsure: [Name: Instant] = [:]
    /// It has replaced its token, whose channels the hub subscribes without an answer; and those that it surely doesn't hear since.
    var isRefreshed = false
    var left: Set<Name> = []

    mutating func asksSilently(_ channels: [Name], at now: Instant) {
        for channel in channels { unsure[channel] = Instant(nanoseconds: .max) }
        left.subtract(channels)
    }

    mutating func leavesSilently(_ channel: Name, until end: Instant) {
        if unsure[channel] != nil { unsure[channel] = end }
        left.insert(channel)
    }

    mutating func left(_ channel: Name) {
        unsure[channel] = nil
        left.insert(channel)
    }

    func mayHear(_ channel: Name, at now: Instant) -> Bool {
        unsure[channel].map { now <= $0 } ?? (isRefreshed && !left.contains(channel))
    }

    /// The request that's answered; nil: there's none.
    mutating func take(_ id: [UInt8]?, _ answer: JournalRequest.Answer) -> JournalRequest? {
        guard let id, var waiting = asked[id], !waiting.isEmpty else { return nil }
        let place = waiting.count > 1 ? waiting.firstIndex { $0.fits(answer) } ?? 0 : 0
        let request = waiting.remove(at: place)
        asked[id] = waiting.isEmpty ? nil : waiting
        return request
    }

    mutating func takePong(_ id: [UInt8]) {
        guard let place = asked[id]?.firstIndex(where: { if case .ping = $0 { true } else { false } }) else { return }
        asked[id]?.remove(at: place)
        if asked[id]?.isEmpty == true { asked[id] = nil }
    }
}
