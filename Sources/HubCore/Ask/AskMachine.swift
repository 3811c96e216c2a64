import HubBase

/// When a backend is asked, about one kind of thing: what is still known of an earlier answer isn't asked again, and a backend that fails isn't asked
/// for a while. A machine: inputs in, verdicts out, no clock of its own.
///
/// - *The cache* holds what answers themselves allowed to be kept, each for its own question, so many at most: the oldest make room. None holds longer
///   than what it allows does.
/// - *The breaker* opens when `failures` requests failed within `window` and no more than half of its requests went well. Then nobody asks for
///   `pause`, longer each time, up to a minute. The first question after it is the probe: when that goes well everybody asks again.
package struct AskMachine: Sendable {
    package struct Limits: Sendable, Equatable {
        /// How long answers hold that don't say it themselves; zero: for their own question alone.
        package var cache = Span.zero
        /// The longest that an answer may hold.
        package var cacheMax = Span.seconds(300)
        package var entries = 10_000
        package var failures = 5
        package var window = Span.seconds(10)
        package var pause = Span.seconds(5)

        package init() {}
    }

    /// A digest of the question: equal for equal ones, and for no others.
    package typealias Key = [UInt8]

    package struct Ticket: Sendable {
        fileprivate let key: Key
        /// What was asked before everything was forgotten isn't kept.
        fileprivate let era: UInt64
        fileprivate let probe: UInt64?
    }

    package enum Verdict: Sendable {
        case known(AskAnswer)
        /// Ask, and tell what came of it by `answered`: always, or a probe would never end.
        case ask(Ticket)
        /// Nobody asks now; so long at least.
        case spared(Span)
    }

    package enum Outcome: Sendable {
        case answer(AskAnswer)
        /// The backend is at work, and has no answer to this question.
        case alive
        case failed
        /// It never heard of the question.
        case unasked
    }

    package enum Notice: Sendable, Equatable { case opened, closed }

    /// Answers larger than this aren't kept.
    static let weightMax = 4096
    static let pauseMax = Span.seconds(60)

    private struct Entry {
        var answer: AskAnswer
        var until: Instant
        var number: UInt64
    }

    private enum Breaker {
        case closed
        case open(until: Instant)
        /// A question is on its way that decides.
        case probing(UInt64)
    }

    package private(set) var limits: Limits
    private var entries: [Key: Entry] = [:]
    private var order = Queue<(key: Key, number: UInt64)>()
    private var lastNumber: UInt64 = 0
    private var era: UInt64 = 0
    private var breaker = Breaker.closed
    private var windowStart = Instant(nanoseconds: 0)
    private var failed = 0
    private var succeeded = 0
    /// Openings since it last went well.
    private var openings = 0
    /// How often it opened, or a probe failed, since the start.
    package private(set) var openedCount: UInt64 = 0
    private var lastProbe: UInt64 = 0

    package init(_ limits: Limits) { self.limits = limits }

    /// Whether nobody is asked, but for a probe.
    package var isOpen: Bool {
        if case .closed = breaker { return false }
        return true
    }

    package var keptCount: Int { entries.count }

    /// How long nobody will be asked yet; zero: somebody is, or may be.
    package func pauseLeft(at now: Instant) -> Span {
        if case .open(let until) = breaker, until > now { return until.since(now) }
        return .zero
    }

    /// Other limits, or another backend: nothing that was learnt counts.
    package mutating func setLimits(_ limits: Limits) {
        self.limits = limits
        forget()
        breaker = .closed
        failed = 0
        succeeded = 0
        openings = 0
    }

    /// Answers that are kept, or on their way, hold no more.
    package mutating func forget() {
        era &+= 1
        entries.removeAll()
        order.removeAll()
    }

    /// `wall`: milliseconds since 1970. What an answer allows may end by that clock while the answer would still be kept.
    package mutating func ask(_ key: Key, at now: Instant, wall: UInt64) -> Verdict {
        if let entry = entries[key] {
            if now < entry.until, entry.answer.expires.map({ wall < $0 }) ?? true { return .known(entry.answer) }
            entries[key] = nil
        }
        switch breaker {
        case .closed: return .ask(Ticket(key: key, era: era, probe: nil))
        case .probing: return .spared(.seconds(1))
        case .open(let until):
            guard now >= until else { return .spared(until.since(now)) }
            lastProbe &+= 1
            breaker = .probing(lastProbe)
            return .ask(Ticket(key: key, era: era, probe: lastProbe))
        }
    }

    package mutating func answered(_ ticket: Ticket, _ outcome: Outcome, at now: Instant) -> Notice? {
        if case .answer(let answer) = outcome, ticket.era == era { keep(answer, ticket.key, at: now) }
        if case .probing(let probe) = breaker {
            // What others asked before it opened decides nothing any more.
            guard probe == ticket.probe else { return nil }
            switch outcome {
            case .answer, .alive:
                breaker = .closed
                openings = 0
                failed = 0
                succeeded = 0
                return .closed
            case .failed:
                open(at: now)
                return nil
            case .unasked:
                breaker = .open(until: now)
                return nil
            }
        }
        guard case .closed = breaker else { return nil }
        if now.since(windowStart) >= limits.window {
            windowStart = now
            failed = 0
            succeeded = 0
        }
        switch outcome {
        case .answer, .alive: succeeded += 1
        case .failed: failed += 1
        case .unasked: return nil
        }
        guard failed >= limits.failures, failed >= succeeded else { return nil }
        open(at: now)
        return .opened
    }

    private mutating func open(at now: Instant) {
        let doubled = limits.pause.nanoseconds.multipliedReportingOverflow(by: 1 << UInt64(min(openings, 16)))
        let pause = Span(nanoseconds: doubled.overflow ? .max : doubled.partialValue)
        breaker = .open(until: now + max(limits.pause, min(pause, Self.pauseMax)))
        openings += 1
        openedCount += 1
    }

    private mutating func keep(_ answer: AskAnswer, _ key: Key, at now: Instant) {
        let span = min(answer.ttl ?? limits.cache, limits.cacheMax)
        guard span > .zero, answer.weight <= Self.weightMax, limits.entries > 0 else { return }
        // "Come back later" isn't what later holds, unless it says so.
        if case .deny(let error) = answer.verdict, error.mayRetry, answer.ttl == nil { return }
        while entries.count >= limits.entries || order.count >= limits.entries * 2, let oldest = order.popFirst() {
            if entries[oldest.key]?.number == oldest.number { entries[oldest.key] = nil }
        }
        lastNumber &+= 1
        entries[key] = Entry(answer: answer, until: now + span, number: lastNumber)
        order.append((key, lastNumber))
    }
}
