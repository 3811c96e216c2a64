import HubBase
import HubCore
import HubFetch
import HubNet
import HubWire
import Synchronization

/// Asks backends for the loops: one machine and one fetcher for each kind of question, so that one whose backend hangs keeps no other waiting.
///
/// Used by all loops and by the fetchers' threads: what changes is behind a mutex, held for a look at a table, never while something is sent.
final class AskShell: Sendable {
    /// What became of a question.
    enum Reply: Sendable {
        case answer(AskAnswer)
        /// There's none; what counts then the configuration says. `label`: from a closed list, for logs.
        case failed(label: String, retryAfter: Span)
        /// There's one, and it can't be read: it may have been a denial, so it is one, whatever the configuration says (decision 0294).
        case wrong
    }

    /// What became of questions, by kind, since start.
    struct Numbers: Sendable {
        var asked: UInt64 = 0
        var allowed: UInt64 = 0
        var denied: UInt64 = 0
        var failed: UInt64 = 0
        /// Answered by what was kept.
        var known: UInt64 = 0
        /// Not asked, since the breaker is open.
        var spared: UInt64 = 0
        /// Bodies that were no answers; such that denied all the same are among them.
        var malformed: UInt64 = 0
        /// By `AskFailureReason`.
        var failures = [UInt64](repeating: 0, count: AskFailureReason.allCases.count)
        /// What the requests that came to an end took together.
        var time = Span.zero
        var isOpen = false
        /// How often the breaker opened, or a probe failed.
        var opened: UInt64 = 0
        /// Until the next probe.
        var pauseLeft = Span.zero
        var kept = 0
        var underWay = 0
    }

    private struct Desk {
        var machine: AskMachine
        var url: FetchURL?
        var fetcher: Fetcher?
        var numbers = Numbers()
    }

    private struct State {
        var settings: AskSettings
        var rules: AskAnswerReader.Rules
        var desks: [Desk]
        var isStopped = false
    }

    private let state: Mutex<State>
    private let log: Log
    private let outgoing: Configuration.Outgoing
    /// Of the start: fetchers keep theirs.
    private let concurrency: Int
    private let queue: Int
    private let deliver: @Sendable (Reply, _ loop: Int, _ tag: UInt64) -> Void
    private let clock: @Sendable () -> UInt64

    private static let answerBytesMax = 64 * 1024
    /// For the rest of the answer beside a payload.
    private static let answerBytesAround = 4 * 1024
    /// When to come back after a question that failed.
    static let retryAfter = Span.seconds(1)

    /// - Parameters:
    ///   - clock: what questions are signed by, milliseconds since 1970.
    ///   - deliver: called on a fetcher's thread, or within `ask`.
    init(
        _ configuration: Configuration, log: Log, clock: @escaping @Sendable () -> UInt64,
        deliver: @escaping @Sendable (Reply, _ loop: Int, _ tag: UInt64) -> Void
    ) {
        self.log = log
        self.clock = clock
        self.deliver = deliver
        outgoing = configuration.outgoing
        concurrency = configuration.ask.concurrency
        queue = configuration.ask.queue
        state = Mutex(
            State(
                settings: configuration.ask, rules: Self.rules(configuration),
                desks: AskKind.allCases.map { Desk(machine: AskMachine(configuration.ask.limits($0))) }))
        adopt(configuration)
    }

    private static func rules(_ configuration: Configuration) -> AskAnswerReader.Rules {
        var rules = AskAnswerReader.Rules()
        rules.isIssuer = configuration.ask.isIssuer
        rules.payloadBytesMax = configuration.limits.messageBytes
        rules.depthMax = configuration.limits.depth
        return rules
    }

    /// At start and at each reload. Other settings mean that nothing counts which was learnt with the old ones.
    func adopt(_ configuration: Configuration) {
        let ask = configuration.ask
        // Made outside the lock; only the main thread adopts, and nobody else makes any.
        let missing = state.withLock { state in
            AskKind.allCases.filter { ask[$0].url != nil && state.desks[$0.rawValue].fetcher == nil && !state.isStopped }
        }
        let made = missing.map { ($0, makeFetcher($0)) }
        state.withLock { state in
            for (kind, fetcher) in made { state.desks[kind.rawValue].fetcher = fetcher }
            let isSame = ask.isIssuer == state.settings.isIssuer && ask.secrets.map(\.bytes) == state.settings.secrets.map(\.bytes)
            for kind in AskKind.allCases {
                let limits = ask.limits(kind)
                let isKnown = state.desks[kind.rawValue].url?.text == ask[kind].url && limits == state.desks[kind.rawValue].machine.limits
                if !isSame || !isKnown { state.desks[kind.rawValue].machine.setLimits(limits) }
                // The loader let no other through.
                state.desks[kind.rawValue].url = ask[kind].url.flatMap { try? FetchURL($0) }
            }
            state.settings = ask
            state.rules = Self.rules(configuration)
        }
    }

    private func makeFetcher(_ kind: AskKind) -> Fetcher? {
        var options = Fetcher.Options(name: "hub-ask-\(kind.rawValue)", agent: "hubd/\(HubVersion.text)")
        options.inFlightMax = concurrency
        options.waitingMax = queue
        options.authorities = outgoing.authorities
        options.proxy = outgoing.proxy
        do throws(NetError) { return try Fetcher(options) } catch {
            log.error("ask.off", ["ask": "\(kind.name)", "message": error.description])
            return nil
        }
    }

    /// Answers that are kept, or on their way, are kept no longer: somebody was shut out.
    func forget() {
        state.withLock { state in
            for place in state.desks.indices { state.desks[place].machine.forget() }
        }
    }

    var numbers: [Numbers] {
        let now = Node.monotonicNow()
        return state.withLock { state in
            state.desks.map { desk in
                var numbers = desk.numbers
                numbers.isOpen = desk.machine.isOpen
                numbers.opened = desk.machine.openedCount
                numbers.pauseLeft = desk.machine.pauseLeft(at: now)
                numbers.kept = desk.machine.keptCount
                return numbers
            }
        }
    }

    /// Kinds whose breaker is open.
    var broken: [AskKind] {
        state.withLock { state in AskKind.allCases.filter { state.desks[$0.rawValue].machine.isOpen } }
    }

    /// What waits or is under way fails before this returns. Once.
    func stop() {
        let fetchers = state.withLock { state in
            state.isStopped = true
            return state.desks.compactMap(\.fetcher)
        }
        for fetcher in fetchers { fetcher.stop() }
    }

    // MARK: Asking

    private struct Errand: Sendable {
        var kind: AskKind
        var since: Instant
        var ticket: AskMachine.Ticket
        var url: FetchURL
        var fetcher: Fetcher
        var secrets: [Secret]
        var deadline: Span
        var rules: AskAnswerReader.Rules
    }

    /// nil: the answer comes by `deliver`, once.
    func ask(_ question: AskQuestion, loop: Int, tag: UInt64) -> Reply? {
        let kind = question.kind
        var basis = ByteBuffer(capacity: 512)
        question.appendBasis(to: &basis)
        let key = Digest.sha256(basis.copyBytes())
        let now = Node.monotonicNow()
        let (reply, errand) = state.withLock { state -> (Reply?, Errand?) in
            let place = kind.rawValue
            guard !state.isStopped, let url = state.desks[place].url, let fetcher = state.desks[place].fetcher else {
                state.desks[place].numbers.fail(.stopped)
                return (.failed(label: "stopped", retryAfter: Self.retryAfter), nil)
            }
            switch state.desks[place].machine.ask(key, at: now, wall: WallClock.milliseconds()) {
            case .known(let answer):
                state.desks[place].numbers.known += 1
                state.desks[place].numbers.count(answer)
                return (.answer(answer), nil)
            case .spared(let wait):
                state.desks[place].numbers.spared += 1
                state.desks[place].numbers.fail(.spared)
                return (.failed(label: "breaker open", retryAfter: max(wait, Self.retryAfter)), nil)
            case .ask(let ticket):
                state.desks[place].numbers.asked += 1
                state.desks[place].numbers.underWay += 1
                return (
                    nil,
                    Errand(
                        kind: kind, since: now, ticket: ticket, url: url, fetcher: fetcher, secrets: state.settings.secrets,
                        deadline: state.settings.deadline, rules: state.rules)
                )
            }
        }
        if let errand { send(question, errand, loop: loop, tag: tag) }
        return reply
    }

    private func send(_ question: AskQuestion, _ errand: Errand, loop: Int, tag: UInt64) {
        var text = ByteBuffer(capacity: 1024)
        question.append(to: &text)
        let body = text.copyBytes()
        let signature = HookSignature.text(body, secrets: errand.secrets, seconds: clock() / 1000)
        let request = FetchRequest(
            method: .post, url: errand.url,
            headers: ["Content-Type: application/json", "Accept: application/json", "Hub-Signature: \(signature)"],
            body: body, deadline: errand.deadline,
            answerBytesMax: errand.kind == .publish
                ? max(Self.answerBytesMax, errand.rules.payloadBytesMax + Self.answerBytesAround) : Self.answerBytesMax)
        errand.fetcher.send(request) { [self] result in
            deliver(took(result, errand), loop, tag)
        }
    }

    private func took(_ result: Result<FetchAnswer, FetchFailure>, _ errand: Errand) -> Reply {
        let (outcome, reply, words, isMalformed) = judge(result, errand)
        let now = Node.monotonicNow()
        let notice = state.withLock { state -> AskMachine.Notice? in
            let place = errand.kind.rawValue
            state.desks[place].numbers.underWay -= 1
            state.desks[place].numbers.time = state.desks[place].numbers.time + now.since(errand.since)
            if isMalformed { state.desks[place].numbers.malformed += 1 }
            switch reply {
            case .answer(let answer): state.desks[place].numbers.count(answer)
            case .failed, .wrong: state.desks[place].numbers.fail(Self.reason(result))
            }
            return state.desks[place].machine.answered(errand.ticket, outcome, at: now)
        }
        if isMalformed {
            log.limited(
                .warning, "ask.malformed", perSecond: 1, at: Node.monotonicNow(),
                ["ask": "\(errand.kind.name)", "receiver": errand.url.place, "message": words])
        }
        switch notice {
        case .opened:
            log.warning(
                "ask.failing",
                [
                    "ask": "\(errand.kind.name)", "receiver": errand.url.place, "message": words,
                    "then": "nobody is asked for a while, ask.\(errand.kind.name).onFailure counts",
                ])
        case .closed: log.info("ask.answering", ["ask": "\(errand.kind.name)", "receiver": errand.url.place])
        case nil: break
        }
        return reply
    }

    /// What the machine hears, what the loop does, words for the log, and whether a body was at fault.
    private func judge(_ result: Result<FetchAnswer, FetchFailure>, _ errand: Errand) -> (AskMachine.Outcome, Reply, String, Bool) {
        func failed(_ label: String, _ outcome: AskMachine.Outcome, _ words: String, after wait: Span? = nil, isMalformed: Bool = false)
            -> (AskMachine.Outcome, Reply, String, Bool)
        {
            (outcome, .failed(label: label, retryAfter: min(wait ?? Self.retryAfter, .seconds(60))), words, isMalformed)
        }
        switch result {
        case .failure(let failure):
            switch failure {
            case .busy, .stopped, .unusable: return failed(failure.label, .unasked, failure.description)
            default: return failed(failure.label, .failed, failure.description)
            }
        case .success(let answer):
            guard answer.status == 200 else {
                // These speak of the question: others may have answers.
                let isAlive = [400, 413, 422].contains(answer.status)
                return failed("HTTP \(answer.status)", isAlive ? .alive : .failed, "HTTP \(answer.status)", after: answer.retryAfter)
            }
            guard let type = answer.field("content-type"), Self.isJSON(type) else {
                return failed("not JSON", .failed, "the answer's Content-Type isn't application/json", isMalformed: true)
            }
            switch AskAnswerReader.read(answer.body, of: errand.kind, errand.rules) {
            // Whoever answers is at work. If it counted as a failure, nobody would be asked after some, and who may not come in might.
            case .failure(let fault): return (.alive, .wrong, fault.description, true)
            case .success(let read): return (.answer(read), .answer(read), read.slip?.description ?? "", read.slip != nil)
            }
        }
    }

    private static func reason(_ result: Result<FetchAnswer, FetchFailure>) -> AskFailureReason {
        switch result {
        case .failure(let failure): AskFailureReason(failure)
        case .success(let answer): answer.status == 200 ? .malformed : .status
        }
    }

    private static func isJSON(_ contentType: String) -> Bool {
        contentType.prefix { $0 != ";" && $0 != " " }.lowercased() == "application/json"
    }
}

extension AskShell.Numbers {
    fileprivate mutating func fail(_ reason: AskFailureReason) {
        failed += 1
        if let place = AskFailureReason.allCases.firstIndex(of: reason) { failures[place] += 1 }
    }

    fileprivate mutating func count(_ answer: AskAnswer) {
        switch answer.verdict {
        case .allow: allowed += 1
        case .deny: denied += 1
        }
    }
}
