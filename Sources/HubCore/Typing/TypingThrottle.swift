import HubBase

/// What a sender's `typing` is worth handing on, at the node that took it: the same again within the throttle says nothing new.
///
/// A value: at most `channelsMax` channels of a connection are remembered, and none longer than the expiry.
package struct TypingThrottle {
    private struct Entry {
        var channel: Name
        var isTyping: Bool
        var saidAt: Instant
    }

    private var entries: [UInt32: [Entry]] = [:]
    package var throttle: Span
    package var expire: Span
    /// The channel that a connection spoke of longest ago makes room.
    package static let channelsMax = 8

    package init(throttle: Span, expire: Span) {
        self.throttle = throttle
        self.expire = expire
    }

    /// Whether it goes to the channel. Cost: one lookup.
    package mutating func passes(_ isTyping: Bool, of connection: UInt32, in channel: Name, at now: Instant) -> Bool {
        var list = entries[connection] ?? []
        if let place = list.firstIndex(where: { $0.channel == channel }) {
            guard list[place].isTyping != isTyping || now.since(list[place].saidAt) >= throttle else { return false }
            list.remove(at: place)
        }
        if list.count >= Self.channelsMax { list.removeFirst() }
        list.append(Entry(channel: channel, isTyping: isTyping, saidAt: now))
        entries[connection] = list
        return true
    }

    /// The channels that still believe this connection to be typing; it's forgotten.
    package mutating func closed(_ connection: UInt32, at now: Instant) -> [Name] {
        guard let list = entries.removeValue(forKey: connection) else { return [] }
        return list.filter { $0.isTyping && now.since($0.saidAt) < expire }.map(\.channel)
    }

    /// Forgets what has expired: its receivers have done so by themselves. Cost: a look at every connection that typed lately.
    package mutating func prune(at now: Instant) {
        for (connection, list) in entries where list.contains(where: { now.since($0.saidAt) >= expire }) {
            let left = list.filter { now.since($0.saidAt) < expire }
            entries[connection] = left.isEmpty ? nil : left
        }
    }

    package var count: Int { entries.count }
}
