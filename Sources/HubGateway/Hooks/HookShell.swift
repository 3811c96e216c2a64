import HubBase
import HubCore
import HubFetch
import HubNet
import HubWire

/// Carries out what the hook machine asks: claims at the queue, signed requests by a fetcher of its own. On the backplane's loop.
final class HookShell {
    private let queue: any HookQueue
    private let log: Log
    private let mailbox: Mailbox<BackplaneMessage>
    private let waker: LoopWaker
    private let outgoing: Configuration.Outgoing
    private var configuration = Configuration.Hooks()
    private var url: FetchURL?
    private var machine: HookMachine
    /// Made when there's somebody to tell.
    private var fetcher: Fetcher?
    private var lastFailure = ""

    /// An answer says its status; what else it holds is nobody's business.
    private static let answerBytesMax = 64 * 1024
    /// The `high` word of the tags of claims.
    static let tags: UInt64 = 1 << 38

    init(
        queue: any HookQueue, configuration: Configuration, log: Log, mailbox: Mailbox<BackplaneMessage>, waker: LoopWaker, chance: Chance,
        at now: Instant
    ) {
        self.queue = queue
        self.log = log
        self.mailbox = mailbox
        self.waker = waker
        outgoing = configuration.outgoing
        machine = HookMachine(limits: configuration.hooks.limits, tagSpace: Self.tags, chance: chance, at: now)
        adopt(configuration.hooks, at: now)
    }

    /// Whether anybody is told of anything.
    var isActive: Bool { url != nil && fetcher != nil }

    /// At start and at each reload.
    func adopt(_ hooks: Configuration.Hooks, at now: Instant) {
        let isSame = hooks.url == configuration.url && hooks.limits == configuration.limits
        configuration = hooks
        // The loader let no other through.
        url = hooks.url.flatMap { try? FetchURL($0) }
        if url != nil && fetcher == nil { makeFetcher() }
        queue.setHookRules(isActive ? hooks.rules : .none)
        if !isSame { machine.setLimits(hooks.limits, at: now) }
    }

    private func makeFetcher() {
        var options = Fetcher.Options(name: "hub-hooks", agent: "hubd/\(HubVersion.text)")
        // The machine says how many there are.
        options.inFlightMax = 32
        options.authorities = outgoing.authorities
        options.proxy = outgoing.proxy
        do throws(NetError) { fetcher = try Fetcher(options) } catch { log.error("hooks.off", ["message": error.description]) }
    }

    func noticed(_ partition: Int, at now: Instant) { if isActive { machine.noticed(partition, at: now) } }
    func othersLetGo() { machine.othersLetGo() }
    func claimed(_ result: Result<HookPage, WireError>, tag: RequestTag, at now: Instant) {
        machine.claimed(result, tag: tag, at: now)
        carryOut(at: now)
    }

    func tick(nodes: Int, at now: Instant) {
        queue.advance(at: now)
        guard isActive else { return }
        machine.nodesLive(nodes)
        machine.tick(at: now)
        carryOut(at: now)
    }

    var numbers: HookNumbers { machine.numbers }
    func backlog(at now: Instant) -> (length: Int, oldest: Span) { isActive ? machine.backlog(at: now) : (0, .zero) }

    /// Lets go of the partitions, within the turn in which the links still are; requests under way end unheard, and come again by others.
    /// False when it held nothing.
    func stop(at now: Instant) -> Bool {
        let held = isActive && machine.holdsAny
        machine.stop(at: now)
        carryOut(at: now)
        fetcher?.stop()
        fetcher = nil
        return held
    }

    func answered(_ result: Result<FetchAnswer, FetchFailure>, number: UInt64, partition: Int, at now: Instant) {
        let outcome: HookOutcome
        switch result {
        case .success(let answer):
            lastFailure = "HTTP \(answer.status)"
            outcome = .answer(status: answer.status, retryAfter: answer.retryAfter)
        case .failure(let failure):
            lastFailure = failure.description
            outcome = .failed
        }
        machine.answered(outcome, number: number, partition: partition, at: now)
        carryOut(at: now)
    }

    private func carryOut(at now: Instant) {
        for action in machine.takeActions() {
            switch action {
            case .claim(let claim, let partition, let tag): queue.claim(claim, partition: partition, tag: tag, at: now)
            case .deliver(let delivery): send(delivery)
            case .tell(let notice): tell(notice)
            }
        }
    }

    private func send(_ delivery: HookDelivery) {
        guard let url, let fetcher else { return }
        var text = ByteBuffer(capacity: 256 + 200 * delivery.events.count)
        HookBody.append(delivery.events, partition: delivery.partition, lost: delivery.lost, to: &text)
        let body = text.copyBytes()
        // A receiver refuses what is minutes from its clock: one node's that is wrong mustn't hold up the partitions which it has.
        let milliseconds = queue.hasSharedClock ? delivery.time : WallClock.milliseconds()
        let request = FetchRequest(
            method: .post, url: url,
            headers: [
                "Content-Type: application/json",
                "Hub-Signature: \(HookSignature.text(body, secrets: configuration.secrets, seconds: milliseconds / 1000))",
            ],
            body: body, deadline: configuration.deadline, answerBytesMax: Self.answerBytesMax)
        let (mailbox, waker, number, partition) = (mailbox, waker, delivery.number, delivery.partition)
        fetcher.send(request) { result in
            mailbox.post(.hookAnswered(result, number: number, partition: partition))
            waker.wake()
        }
    }

    private func tell(_ notice: HookNotice) {
        let place = url?.place ?? ""
        switch notice {
        case .troubled:
            log.warning(
                "hooks.failing", ["receiver": place, "message": lastFailure, "then": "events wait in the queue and are offered again"])
        case .recovered: log.info("hooks.delivering", ["receiver": place])
        case .refused(let partition, let id, let status):
            log.error(
                "hooks.refused",
                [
                    "receiver": place, "event": "\(partition).\(id.milliseconds).\(id.sequence)", "status": status,
                    "then": "given up after \(HookMachine.refusalsMax) refusals",
                ])
        case .tooOld(let partition, let count): log.error("hooks.tooOld", ["receiver": place, "partition": partition, "events": count])
        case .foreign(let partition, let count): log.error("hooks.foreign", ["partition": partition, "entries": count])
        case .overflowed(let partition, let count): log.error("hooks.overflowed", ["partition": partition, "events": count])
        case .unreadable(let partition, let error): log.error("hooks.unreadable", ["partition": partition, "message": error.message])
        }
    }
}

/// `Hub-Signature`: "t=1764530000,v1=5257a869…", once `v1` for each secret (docs/hooks.md).
package enum HookSignature {
    /// HMAC-SHA-256 over the time in decimal digits, a dot and the body, in hexadecimal digits.
    package static func text(_ body: [UInt8], secrets: [Secret], seconds: UInt64) -> String {
        let message = [UInt8]("\(seconds).".utf8) + body
        return secrets.reduce(into: "t=\(seconds)") { text, secret in
            text += ",v1=" + Digest.code(message, secret).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        }
    }
}
