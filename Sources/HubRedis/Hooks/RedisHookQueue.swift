import HubBase
import HubCore
import HubWire

/// The queues of webhooks on Redis: a stream for each partition, which the scripts of presence and channels append to, and a lease for the
/// node that delivers it (docs/redis.md). On the backend of broker and store, whose `advance` drives it.
package final class RedisHookQueue: HookQueue {
    package weak var hookDelegate: (any HookQueueDelegate)?
    private let backend: RedisBackend
    /// Answers that mustn't be given from within a call.
    private var refused: [(HookCall, WireError)] = []

    package init(_ backend: RedisBackend) {
        self.backend = backend
        backend.hookQueue = self
    }

    deinit { backend.hookQueue = nil }

    package var hasSharedClock: Bool { true }

    package func setHookRules(_ rules: HookRules) { backend.encoder.setHookRules(rules) }

    package func claim(_ claim: HookClaim, partition: Int, tag: RequestTag, at now: Instant) {
        precondition(max(claim.limit, claim.settled.count + claim.dropped.count) <= HookClaim.eventsMax, "a claim of \(claim)")
        let call = HookCall(claim: claim, partition: partition, tag: tag)
        if let refusal = backend.link.refusal() { refused.append((call, refusal)) } else { backend.link.send(.hooks(call)) }
    }

    package func advance(at now: Instant) {
        guard !refused.isEmpty else { return }
        let due = refused
        refused.removeAll(keepingCapacity: true)
        for (call, error) in due { failed(call, error) }
    }

    func replied(_ call: HookCall, _ reply: borrowing Reply) {
        let page = HookReply.page(reply)
        hookDelegate?.claimed(page.map { .success($0) } ?? .failure(.notOurs), partition: call.partition, tag: call.tag)
    }

    func failed(_ call: HookCall, _ error: WireError) {
        hookDelegate?.claimed(.failure(error), partition: call.partition, tag: call.tag)
    }
}

/// Reads the reply of hooks.lua.
package enum HookReply {
    private static let head = 8
    private static let eventFields = 6

    /// nil when it isn't ours to read.
    package static func page(_ reply: borrowing Reply) -> HookPage? {
        guard let count = reply.elements(0), reply.count == count + 1, count >= head, (count - head) % eventFields == 0,
            let now = reply.string(1)?.decimal, now < 1 << 53, let state = reply.string(2), let left = reply.string(3)?.decimal,
            let length = reply.string(4)?.decimal, let oldest = reply.string(5), let overflowed = reply.string(6)?.decimal,
            let givenUp = reply.string(7)?.decimal, let told = reply.string(8)?.decimal
        else { return nil }
        let holder: HookPage.Holder
        if state.equals("u") || state.equals("w") {
            holder = .us
        } else if state.equals("o") {
            // No lease of ours is longer than a day.
            holder = .other(left: .milliseconds(min(left, 86_400_000)))
        } else if state.equals("n") {
            holder = .nobody
        } else {
            return nil
        }
        var page = HookPage(
            holder: holder, now: now, length: Int(clamping: length), oldest: oldest.decimal, overflowed: overflowed, givenUp: givenUp,
            told: told)
        page.isWanted = state.equals("w")
        for index in stride(from: head + 1, to: count + 1, by: eventFields) {
            guard let event = event(reply, index) else { return nil }
            page.events.append(event)
        }
        return page
    }

    /// nil when even its id can't be read. Of a foreign entry nothing else can: it's `foreign`, for whoever reads the page to give up.
    private static func event(_ reply: borrowing Reply, _ index: Int) -> HookEvent? {
        guard var idText = reply.string(index), let milliseconds = idText.take(until: UInt8(ascii: "-"), limit: 20)?.decimal,
            let sequence = idText.decimal
        else { return nil }
        let id = HookEventID(milliseconds: milliseconds, sequence: sequence)
        guard let letters = reply.string(index + 1), letters.count == 1, let kind = HookKind(letter: letters[0]),
            let detail = reply.string(index + 2), let version = reply.string(index + 3)?.decimal, version < 1 << 53,
            let time = reply.string(index + 4)?.decimal, time < 1 << 53,
            let name = reply.string(index + 5).flatMap({ Name(validating: $0) })
        else { return .unreadable(id) }
        if kind.isOfUser {
            guard let status = PresenceStatus(detail) else { return .unreadable(id) }
            return HookEvent(id: id, kind: kind, name: name, status: status, version: version, time: time)
        }
        guard let occupancy = detail.decimal else { return .unreadable(id) }
        return HookEvent(id: id, kind: kind, name: name, version: version, time: time, occupancy: occupancy)
    }
}
