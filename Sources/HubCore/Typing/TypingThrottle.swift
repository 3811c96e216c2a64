import HubBase
import HubWire

/// What a sender's `typing` is worth handing on, at the node that took it: the same again within the throttle says nothing new, and of changes to
/// and fro two are handed on in that time; the last of what follows waits until it's over.
///
/// A value: at most `channelsMax` channels of a connection are remembered, and none longer than the expiry.
package struct TypingThrottle {
    package enum Verdict: Equatable {
        case tell
        /// It's what they believe.
        case drop
        /// Too soon: `hold` it.
        case wait
    }

    private struct Entry {
        var channel: Name
        var isTyping: Bool
        var saidAt: Instant
        /// When the one before that was handed on.
        var saidBefore: Instant?
        /// Says the opposite of `isTyping`.
        var held: Publication?
    }

    private var entries: [UInt32: [Entry]] = [:]
    /// Connections of which something may be held.
    private var holding: Set<UInt32> = []
    /// Held, and its entry had to make room.
    private var displaced: [(Publication, Name)] = []
    package var throttle: Span
    package var expire: Span
    /// The channel that a connection spoke of longest ago makes room.
    package static let channelsMax = 8

    package init(throttle: Span, expire: Span) {
        self.throttle = throttle
        self.expire = expire
    }

    /// What becomes of it. Cost: one lookup.
    package mutating func judge(_ isTyping: Bool, of connection: UInt32, in channel: Name, at now: Instant) -> Verdict {
        var list = entries[connection] ?? []
        var before: Instant?
        if let place = list.firstIndex(where: { $0.channel == channel }) {
            let known = list[place]
            if known.isTyping == isTyping {
                // What waited was said before this.
                if known.held != nil { entries[connection]?[place].held = nil }
                guard now.since(known.saidAt) >= throttle else { return .drop }
            } else if let earlier = known.saidBefore, now.since(earlier) < throttle {
                return .wait
            }
            before = known.saidAt
            list.remove(at: place)
        }
        if list.count >= Self.channelsMax { displace(list.removeFirst()) }
        list.append(Entry(channel: channel, isTyping: isTyping, saidAt: now, saidBefore: before))
        entries[connection] = list
        return .tell
    }

    private mutating func displace(_ entry: Entry) {
        if let held = entry.held { displaced.append((held, entry.channel)) }
    }

    // MARK: What waits

    /// Keeps what was to wait, in place of what waited before.
    package mutating func hold(_ publication: Publication, of connection: UInt32, in channel: Name) {
        guard let place = entries[connection]?.firstIndex(where: { $0.channel == channel }) else { return }
        entries[connection]?[place].held = publication
        holding.insert(connection)
    }

    package var holdsAny: Bool { !holding.isEmpty || !displaced.isEmpty }

    /// What has waited long enough, each with its channel; and how long the next one has to. Cost: a look at the connections of which something waits.
    package mutating func takeHeld(at now: Instant) -> (due: [(Publication, Name)], next: Span?) {
        var due = displaced
        displaced.removeAll()
        var next: Span?
        for connection in holding {
            var list = entries[connection] ?? []
            var isHolding = false
            for place in list.indices {
                guard let held = list[place].held else { continue }
                let waited = list[place].saidBefore.map { now.since($0) } ?? throttle
                if waited >= throttle {
                    due.append((held, list[place].channel))
                    list[place].held = nil
                    list[place].isTyping.toggle()
                    list[place].saidBefore = list[place].saidAt
                    list[place].saidAt = now
                } else {
                    isHolding = true
                    next = min(next ?? throttle, Span(nanoseconds: throttle.nanoseconds - waited.nanoseconds))
                }
            }
            if !list.isEmpty { entries[connection] = list }
            if !isHolding { holding.remove(connection) }
        }
        return (due, next)
    }

    // MARK: Ends

    /// The channels that still believe this connection to be typing; it's forgotten.
    package mutating func closed(_ connection: UInt32, at now: Instant) -> [Name] {
        holding.remove(connection)
        guard let list = entries.removeValue(forKey: connection) else { return [] }
        return list.filter { $0.isTyping && now.since($0.saidAt) < expire }.map(\.channel)
    }

    /// Forgets what has expired: its receivers have done so by themselves. Cost: a look at every connection that typed lately.
    package mutating func prune(at now: Instant) {
        func isOver(_ entry: Entry) -> Bool { entry.held == nil && now.since(entry.saidAt) >= expire }
        for (connection, list) in entries where list.contains(where: isOver) {
            let left = list.filter { !isOver($0) }
            entries[connection] = left.isEmpty ? nil : left
        }
    }

    package var count: Int { entries.count }
}
