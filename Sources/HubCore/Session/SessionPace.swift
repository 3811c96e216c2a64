import HubBase

/// How fast one connection has been lately: its buckets. What a connection keeps of its limits, 32 bytes, whether they're on or off.
package struct SessionPace: Sendable {
    private var messages = TokenBucket()
    private var bytes = TokenBucket()
    private var subscribes = TokenBucket()
    private var refusals = TokenBucket()

    package init() {}

    /// A message came; nil when it's within the rates.
    package mutating func message(bytes count: Int, _ paces: Paces, at now: Instant) -> Refusal? {
        if let wait = messages.take(of: paces.messages, at: now) { return RateLimit.messages.refusal(paces.messages, after: wait) }
        if let wait = bytes.take(count, of: paces.bytes, at: now) { return RateLimit.bytes.refusal(paces.bytes, after: wait) }
        return nil
    }

    package mutating func subscribe(_ count: Int, _ paces: Paces, at now: Instant) -> Refusal? {
        subscribes.take(count, of: paces.subscribes, at: now).map { RateLimit.subscribes.refusal(paces.subscribes, after: $0) }
    }

    /// A request was refused for its rate. True when that happened so often that the connection must go.
    package mutating func refused(_ paces: Paces, at now: Instant) -> Bool { refusals.take(of: paces.refusals, at: now) != nil }
}
