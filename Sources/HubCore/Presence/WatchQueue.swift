import HubBase

/// Users to be read, in calls of up to a thousand, and the requests that wait for them.
struct WatchQueue {
    /// The call that is being filled.
    private var filling = ReadBatch(number: 1)
    private var full = Queue<ReadBatch>()
    private var lastWatch: UInt64 = 0
    private var pending: [UInt64: PendingWatch] = [:]
    /// Which requests wait for a call.
    private var waiting: [UInt64: [UInt64]] = [:]
    /// Users to be read again at a time, in order of it: after a failed read, and after a hold.
    var retries = Queue<(user: Name, at: Instant)>()
    var suspects = Queue<(user: Name, at: Instant)>()
    /// Users who may be shown by one of their devices alone, to be read again when all nodes had time to register theirs.
    var halves = Queue<(user: Name, at: Instant)>()
    var inFlight = 0
    /// Some partition's feed has one: its watched users are to be read again.
    var hasGap = false

    static let inFlightMax = 8

    /// The number of the call that the user will be read in.
    mutating func append(_ user: Name) -> UInt64 {
        if filling.users.count == PresenceLimits.reads {
            full.append(filling)
            filling = ReadBatch(number: filling.number + 1)
        }
        filling.users.append(user)
        return filling.number
    }

    /// The next call, when there is one and few enough are in flight.
    mutating func next() -> ReadBatch? {
        guard inFlight < WatchQueue.inFlightMax else { return nil }
        if let batch = full.popFirst() {
            inFlight += 1
            return batch
        }
        guard !filling.users.isEmpty else { return nil }
        inFlight += 1
        defer { filling = ReadBatch(number: filling.number + 1) }
        return filling
    }

    /// The call is there and wasn't sent yet.
    func isUnsent(_ number: UInt64) -> Bool { number >= (full.first ?? filling).number }

    mutating func wait(_ watch: PendingWatch, for batches: [UInt64]) {
        lastWatch += 1
        pending[lastWatch] = watch
        for batch in batches { waiting[batch, default: []].append(lastWatch) }
    }

    /// The requests that waited for nothing else.
    mutating func finish(_ batch: ReadBatch, failed: Bool) -> [PendingWatch] {
        inFlight -= 1
        var done: [PendingWatch] = []
        for id in waiting.removeValue(forKey: batch.number) ?? [] {
            guard var watch = pending.removeValue(forKey: id) else { continue }
            watch.batches -= 1
            if failed { watch.isStale = true }
            if watch.batches == 0 { done.append(watch) } else { pending[id] = watch }
        }
        return done
    }

    /// All requests that wait, in order; none does afterwards.
    mutating func giveUp() -> [PendingWatch] {
        defer {
            pending = [:]
            waiting = [:]
        }
        return pending.keys.sorted().map { pending[$0]! }
    }
}

struct ReadBatch {
    let number: UInt64
    var users: [Name] = []
}

/// A `watch` that can't be answered from what is known.
struct PendingWatch {
    var tag: RequestTag
    var users: [Name]
    /// Calls it still waits for.
    var batches: Int
    var isStale = false
}
