import HubBase
import HubCore
import HubWire
import Testing

/// Several nodes, one store and a receiver under virtual time: crashes, pauses, slow and lost answers, failures by seed. However it goes, each
/// event arrives, none for the first time after a later one of its partition, and none is lost.
@Suite struct HookSimulationTests {
    @Test("whatever happens to nodes, links and receiver, all arrives at least once and first in order", arguments: 0..<40)
    func allArrives(seed: Int) {
        let world = HookWorld(seed: UInt64(seed))
        world.run(.seconds(90), troubles: true)
        world.heal()
        for _ in 0..<60 where !world.isDrained { world.run(.seconds(10), troubles: false) }
        #expect(world.complaints.isEmpty, "seed \(seed): \(world.complaints.prefix(3))")
        #expect(world.isDrained, "seed \(seed): \(world.left) of \(world.made) are left")
        #expect(world.made > 500)
    }
}

final class HookWorld {
    private static let lease = Span.seconds(6)
    private static let partitions = [0, 1, 7, 90, 200, 255]

    private struct Queue {
        var events: [HookEvent] = []
        var holder: (node: Int, until: Instant)?
        var isWanted = false
    }

    private enum Input {
        case claimed(Result<HookPage, WireError>, RequestTag)
        case answered(HookOutcome, number: UInt64, partition: Int)
    }

    /// Something that arrives at a node, if it's still the same process then.
    private struct Arrival {
        var at: Instant
        var node: Int
        var life: Int
        var input: Input
    }

    private enum Deed {
        case claim(HookClaim, partition: Int, tag: RequestTag)
        case request(HookDelivery)
    }

    /// Something that a node sent, on its way to store or receiver.
    private struct Sent {
        var at: Instant
        var node: Int
        var life: Int
        var deed: Deed
    }

    private struct Node {
        var machine: HookMachine
        var life = 0
        var isAlive = true
        var pausedUntil = Instant(nanoseconds: 0)
    }

    private var chance: Chance
    private var now = Instant(nanoseconds: 1_000_000_000_000)
    private var queues = [Queue](repeating: Queue(), count: Partition.count)
    private var nodes: [Node] = []
    private var sent: [Sent] = []
    private var arrivals: [Arrival] = []
    private var isReceiverDown = false
    private var isTroubled = false
    private var lastID: UInt64 = 0
    private var order: [Int: [UInt64]] = [:]
    private var taken: [Int: [UInt64]] = [:]
    private var takenOnce = Set<UInt64>()
    private(set) var complaints: [String] = []
    var made: Int { Int(lastID) }

    init(seed: UInt64) {
        chance = Chance(seed: seed &+ 1)
        for _ in 0..<3 { nodes.append(Node(machine: makeMachine())) }
    }

    private func makeMachine() -> HookMachine {
        var limits = HookMachine.Limits()
        limits.lease = Self.lease
        limits.batch = 5
        limits.concurrency = 2
        limits.retryMax = .seconds(8)
        return HookMachine(limits: limits, tagSpace: 5, chance: Chance(seed: chance.next()), at: now)
    }

    var left: Int { queues.reduce(0) { $0 + $1.events.count } }
    var isDrained: Bool { left == 0 && takenOnce.count == made }

    private func roll(_ outOf: UInt64) -> Bool { chance.next() % outOf == 0 }
    private func some(_ low: UInt64, _ high: UInt64) -> Span { .milliseconds(low + chance.next() % (high - low)) }

    func heal() {
        isTroubled = false
        isReceiverDown = false
        for place in nodes.indices {
            nodes[place].pausedUntil = now
            if !nodes[place].isAlive { revive(place) }
        }
    }

    private func revive(_ place: Int) {
        nodes[place] = Node(machine: makeMachine(), life: nodes[place].life + 1)
    }

    func run(_ span: Span, troubles: Bool) {
        isTroubled = troubles
        let end = now + span
        while now < end {
            now = now + .milliseconds(20)
            if troubles { trouble() }
            arrive()
            for place in nodes.indices where isRunning(place) {
                nodes[place].machine.nodesLive(nodes.count(where: \.isAlive))
                nodes[place].machine.tick(at: now)
                take(from: place)
            }
        }
    }

    private func isRunning(_ place: Int) -> Bool { nodes[place].isAlive && nodes[place].pausedUntil <= now }

    private func trouble() {
        if roll(2) { append(Self.partitions[Int(chance.next() % 6)]) }
        if roll(600) { isReceiverDown.toggle() }
        let place = Int(chance.next() % 3)
        if roll(500) {
            if nodes[place].isAlive { nodes[place].isAlive = false } else { revive(place) }
        }
        // As SIGSTOP does: shorter and longer than a lease.
        if roll(500), isRunning(place) { nodes[place].pausedUntil = now + some(500, 20_000) }
    }

    private func append(_ partition: Int) {
        lastID += 1
        queues[partition].events.append(
            HookEvent(
                id: HookEventID(milliseconds: milliseconds, sequence: lastID), kind: .userOnline, name: "ann", status: .online,
                version: lastID,
                time: milliseconds))
        order[partition, default: []].append(lastID)
        // Every node hears the feed, or doesn't.
        for place in nodes.indices where isRunning(place) && !roll(4) { nodes[place].machine.noticed(partition, at: now) }
    }

    private var milliseconds: UInt64 { now.nanoseconds / 1_000_000 }

    private func take(from place: Int) {
        for action in nodes[place].machine.takeActions() {
            switch action {
            case .claim(let claim, let partition, let tag):
                send(.claim(claim, partition: partition, tag: tag), from: place, within: some(1, 20))
            case .deliver(let delivery):
                let isSlow = isTroubled && roll(8)
                send(.request(delivery), from: place, within: isSlow ? some(1_000, 12_000) : some(1, 300))
            case .tell: break
            }
        }
    }

    private func send(_ deed: Deed, from place: Int, within delay: Span) {
        sent.append(Sent(at: now + delay, node: place, life: nodes[place].life, deed: deed))
        // Nobody waits for longer than this, whatever still arrives.
        if case .request(let delivery) = deed {
            reply(
                .answered(.failed, number: delivery.number, partition: delivery.partition), to: place, nodes[place].life,
                after: .seconds(10))
        }
    }

    private func reply(_ input: Input, to place: Int, _ life: Int, after delay: Span) {
        arrivals.append(Arrival(at: now + delay, node: place, life: life, input: input))
    }

    private func arrive() {
        let due = sent.filter { $0.at <= now }
        sent.removeAll { $0.at <= now }
        for one in due.sorted(by: { $0.at < $1.at }) {
            switch one.deed {
            case .claim(let claim, let partition, let tag): store(claim, partition, tag, from: one)
            case .request(let delivery): receive(delivery, from: one)
            }
        }
        let come = arrivals.filter { $0.at <= now && (isRunning($0.node) || $0.life != nodes[$0.node].life) }
        arrivals.removeAll { $0.at <= now && (isRunning($0.node) || $0.life != nodes[$0.node].life) }
        for one in come.sorted(by: { $0.at < $1.at }) where one.life == nodes[one.node].life && isRunning(one.node) {
            switch one.input {
            case .claimed(let result, let tag): nodes[one.node].machine.claimed(result, tag: tag, at: now)
            case .answered(let outcome, let number, let partition):
                nodes[one.node].machine.answered(outcome, number: number, partition: partition, at: now)
            }
            take(from: one.node)
        }
    }

    /// As hooks.lua does.
    private func store(_ claim: HookClaim, _ partition: Int, _ tag: RequestTag, from one: Sent) {
        if isTroubled, roll(40) {
            // It never came there, or its answer never comes back.
            if roll(2) { _ = perform(claim, partition, node: one.node * 1000 + one.life) }
            return reply(.claimed(.failure(WireError(.unavailable, "away")), tag), to: one.node, one.life, after: .seconds(3))
        }
        let page = perform(claim, partition, node: one.node * 1000 + one.life)
        reply(.claimed(.success(page), tag), to: one.node, one.life, after: some(1, 20))
    }

    private func perform(_ claim: HookClaim, _ partition: Int, node: Int) -> HookPage {
        if !claim.dropped.isEmpty { complaints.append("\(claim.dropped.count) events were given up") }
        queues[partition].events.removeAll { claim.settled.contains($0.id) }
        if let holder = queues[partition].holder, holder.until <= now { queues[partition].holder = nil }
        let holder = queues[partition].holder
        if let holder, holder.node != node {
            if claim.holding == .want { queues[partition].isWanted = true }
            return HookPage(holder: .other(left: holder.until.since(now)), now: milliseconds)
        }
        let wasWanted = holder != nil && queues[partition].isWanted
        queues[partition].isWanted = false
        if claim.holding == .letGo {
            queues[partition].holder = nil
            return HookPage(holder: .nobody, now: milliseconds)
        }
        queues[partition].holder = (node, now + claim.lease)
        let events = queues[partition].events
        var page = HookPage(
            holder: .us, now: milliseconds, length: events.count, oldest: events.first?.id.milliseconds,
            events: Array(events.prefix(claim.limit)))
        page.isWanted = wasWanted
        return page
    }

    private func receive(_ delivery: HookDelivery, from one: Sent) {
        if isReceiverDown || (isTroubled && roll(10)) {
            let status = roll(2) ? 500 : 404
            return reply(
                .answered(.answer(status: status, retryAfter: nil), number: delivery.number, partition: delivery.partition), to: one.node,
                one.life, after: some(1, 200))
        }
        for event in delivery.events where takenOnce.insert(event.id.sequence).inserted {
            taken[delivery.partition, default: []].append(event.id.sequence)
        }
        let sequence = taken[delivery.partition] ?? []
        if sequence != Array((order[delivery.partition] ?? []).prefix(sequence.count)), complaints.count < 5 {
            complaints.append("partition \(delivery.partition): \(sequence.suffix(8)) isn't how it happened")
        }
        // Now and then the answer is lost.
        if isTroubled, roll(12) { return }
        reply(
            .answered(.answer(status: 200, retryAfter: nil), number: delivery.number, partition: delivery.partition), to: one.node,
            one.life,
            after: some(1, 200))
    }
}
