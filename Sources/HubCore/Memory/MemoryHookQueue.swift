import HubBase
import HubWire

/// The embedded queues of webhooks: as Redis keeps them, but they end with the process.
package final class MemoryHookQueue: HookQueue {
    package weak var hookDelegate: (any HookQueueDelegate)?

    private struct State {
        var events = Queue<HookEvent>()
        var last = HookEventID(milliseconds: 0, sequence: 0)
        var overflowed: UInt64 = 0
        var givenUp: UInt64 = 0
        var told: UInt64 = 0
    }

    private var partitions = [State](repeating: State(), count: Partition.count)
    private var answers = Queue<(Result<HookPage, WireError>, Int, RequestTag)>()
    private var rules = HookRules.none
    private let wallClockAtStart: UInt64
    private let startedAt: Instant

    /// `wallClockAtStart`: milliseconds since 1970 at `startedAt`.
    package init(wallClockAtStart: UInt64, startedAt: Instant) {
        self.wallClockAtStart = wallClockAtStart
        self.startedAt = startedAt
    }

    package var hasSharedClock: Bool { false }

    package func setHookRules(_ rules: HookRules) { self.rules = rules }

    private func milliseconds(at now: Instant) -> UInt64 { wallClockAtStart + now.since(startedAt).milliseconds }

    /// Called by the store and the broker, with the thing itself.
    func append(
        _ kind: HookKind, _ name: Name, status: PresenceStatus = .offline, version: UInt64, time: UInt64, occupancy: UInt64 = 0,
        partition: Int, at now: Instant
    ) {
        guard rules.kinds.contains(kind) else { return }
        while partitions[partition].events.count >= max(rules.perPartition, 1) {
            _ = partitions[partition].events.popFirst()
            partitions[partition].overflowed += 1
        }
        var id = HookEventID(milliseconds: milliseconds(at: now), sequence: 0)
        let last = partitions[partition].last
        if id <= last { id = HookEventID(milliseconds: last.milliseconds, sequence: last.sequence + 1) }
        partitions[partition].last = id
        partitions[partition].events.append(
            HookEvent(id: id, kind: kind, name: name, status: status, version: version, time: time, occupancy: occupancy))
    }

    package func claim(_ claim: HookClaim, partition: Int, tag: RequestTag, at now: Instant) {
        precondition(max(claim.limit, claim.settled.count + claim.dropped.count) <= HookClaim.eventsMax, "a claim of \(claim)")
        remove(claim.settled, from: partition)
        partitions[partition].givenUp += UInt64(remove(claim.dropped, from: partition))
        let lost = partitions[partition].overflowed + partitions[partition].givenUp
        partitions[partition].told = min(max(partitions[partition].told, claim.told), lost)
        let state = partitions[partition]
        var page = HookPage(
            holder: claim.holding == .letGo ? .nobody : .us, now: milliseconds(at: now), length: state.events.count,
            oldest: state.events.first?.id.milliseconds, overflowed: state.overflowed, givenUp: state.givenUp, told: state.told)
        if claim.holding != .letGo { page.events = (0..<min(claim.limit, state.events.count)).map { state.events[$0] } }
        answers.append((.success(page), partition, tag))
    }

    /// How many of them were there. They stand at the head, but for those that made room meanwhile.
    @discardableResult private func remove(_ ids: [HookEventID], from partition: Int) -> Int {
        guard let last = ids.max() else { return 0 }
        let wanted = Set(ids)
        var kept: [HookEvent] = []
        var count = 0
        while let first = partitions[partition].events.first, first.id <= last {
            _ = partitions[partition].events.popFirst()
            if wanted.contains(first.id) { count += 1 } else { kept.append(first) }
        }
        guard !kept.isEmpty else { return count }
        // Nobody settles around an event, but the order must stand if somebody does.
        while let event = partitions[partition].events.popFirst() { kept.append(event) }
        for event in kept { partitions[partition].events.append(event) }
        return count
    }

    package func advance(at now: Instant) {
        for _ in 0..<answers.count {
            guard let (result, partition, tag) = answers.popFirst() else { return }
            hookDelegate?.claimed(result, partition: partition, tag: tag)
        }
    }
}
