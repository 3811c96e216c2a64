import HubBase

/// Who is typing, as the subscribers of one loop were told: whoever isn't heard of again within the expiry has stopped, and they're told
/// that once.
///
/// A value, bounded: beyond `limit` nobody new is remembered, and subscribers go by their own clocks (docs/protocol.md).
package struct TypingBoard {
    package struct Typist: Hashable, Sendable {
        package var channel: Name
        package var user: Name
        package var device: Name

        package init(channel: Name, user: Name, device: Name) {
            self.channel = channel
            self.user = user
            self.device = device
        }
    }

    /// When each was heard last.
    private var heard: [Typist: Instant] = [:]
    package var expire: Span
    package let limit: Int

    package init(expire: Span, limit: Int = 10_000) {
        self.expire = expire
        self.limit = limit
    }

    package var isEmpty: Bool { heard.isEmpty }

    /// Subscribers are told this.
    package mutating func told(_ isTyping: Bool, of typist: Typist, at now: Instant) {
        if !isTyping {
            heard[typist] = nil
        } else if heard[typist] != nil || heard.count < limit {
            heard[typist] = now
        }
    }

    /// Those who have fallen silent; told once. Cost: a look at all who type.
    package mutating func expired(at now: Instant) -> [Typist] {
        let silent = heard.filter { now.since($0.value) >= expire }.map(\.key)
        for typist in silent { heard[typist] = nil }
        return silent
    }
}
