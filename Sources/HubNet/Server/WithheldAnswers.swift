import HubBase

/// Which connections' answers are put aside, in the order of their time. Those that have left meanwhile are passed over when theirs comes.
struct WithheldAnswers {
    /// How long at most: a client that waits for its handshake's answer mustn't take the server for dead.
    static let patience = Span.milliseconds(50)

    private var waiting: [(id: ConnectionID, until: Instant)] = []
    private var first = 0

    var isEmpty: Bool { first == waiting.count }
    /// When the next one's time is over.
    var due: Instant? { isEmpty ? nil : waiting[first].until }

    mutating func append(_ id: ConnectionID, at now: Instant) { waiting.append((id, now + Self.patience)) }

    mutating func removeDue(at now: Instant) -> ConnectionID? {
        guard first < waiting.count, waiting[first].until <= now else { return nil }
        let id = waiting[first].id
        first += 1
        if first == waiting.count {
            waiting.removeAll(keepingCapacity: waiting.capacity <= 1024)
            first = 0
        } else if first > 1024, first > waiting.count / 2 {
            // Under a flood it's never empty.
            waiting.removeFirst(first)
            first = 0
        }
        return id
    }
}
