import HubBase

/// When a key set is read: now and then, and soon when a token names a key that isn't known, but never more often than every `interval`, however
/// many such tokens come. A machine: the time in, what to do out; one reading at a time.
package struct KeySetWatch: Sendable {
    package struct Times: Sendable, Equatable {
        /// Between readings when all is well.
        package var refresh = Span.seconds(600)
        /// Between readings at least.
        package var interval = Span.seconds(30)
        /// How long keys count after the last reading that succeeded.
        package var keep = Span.seconds(86_400)
        package init() {}
    }

    package enum Action: Sendable, Equatable {
        case none, read
        /// Too long unread: its keys count no more.
        case forget
    }

    private let times: Times
    private var isReading = false
    private var isWanted = false
    private var hasFailed = false
    private var askedAt: Instant?
    private var readAt: Instant?
    /// Keys that tokens named and the set lacked, by hash: when first since they were last looked for in vain.
    private var named: [UInt64: Instant] = [:]
    private let seed: UInt64

    /// Of the keys that are named; beyond them the answer is that it isn't known.
    private static let namedMax = 256

    /// `seed` is secret chance: nobody can name a key that stands for another one.
    package init(_ times: Times, seed: UInt64) {
        self.times = times
        self.seed = seed
    }

    /// `read` begins a reading, which `ended` ends.
    package mutating func tick(at now: Instant) -> Action {
        if let read = readAt, now.since(read) >= times.keep {
            readAt = nil
            return .forget
        }
        guard !isReading, dueIn(now) == .zero else { return .none }
        isReading = true
        isWanted = false
        askedAt = now
        return .read
    }

    /// How long nothing is due.
    package func patience(at now: Instant) -> Span {
        let forgetting = readAt.map { times.keep.nanoseconds - min(now.since($0).nanoseconds, times.keep.nanoseconds) } ?? .max
        return Span(nanoseconds: min(isReading ? .max : dueIn(now).nanoseconds, forgetting))
    }

    private func dueIn(_ now: Instant) -> Span {
        guard let asked = askedAt else { return .zero }
        let wait = (isWanted || hasFailed ? min(times.interval, times.refresh) : times.refresh).nanoseconds
        let passed = now.since(asked).nanoseconds
        return Span(nanoseconds: wait > passed ? wait - passed : 0)
    }

    /// A token names a key that isn't known: how long until the set has been read again, and it may be. nil: the set was read since the key was
    /// named, and doesn't hold it. That counts for `interval`: the issuer may add the key at any time, and whoever named it before (a forger who
    /// guesses the next name) must not keep out those who have it. So an unknown key causes a reading once an interval at most, and no more rarely.
    package mutating func lacksKey(_ id: some Sequence<UInt8>, at now: Instant) -> Span? {
        let hash = [UInt8](id).withUnsafeBytes { FNV1a.hash($0, seed: seed) }
        if let asked = askedAt, let named = named[hash], asked > named, !isReading, !hasFailed {
            if now.since(asked) < times.interval { return nil }
            self.named[hash] = now
        }
        if named[hash] == nil, named.count < Self.namedMax { named[hash] = now }
        isWanted = true
        return isReading ? .zero : dueIn(now)
    }

    /// The configuration was read again: so is the set.
    package mutating func want() { isWanted = true }

    package mutating func ended(well: Bool, at now: Instant) {
        isReading = false
        hasFailed = !well
        guard well else { return }
        readAt = now
        // A reading comes within an interval of a name; those of before it have had their answer.
        named = named.filter { now.since($0.value).nanoseconds / 2 < times.interval.nanoseconds }
    }
}
