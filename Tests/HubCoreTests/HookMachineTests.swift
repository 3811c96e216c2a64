import HubBase
import HubCore
import HubWire
import Testing

/// Events and actions of the machine that delivers webhooks, one after the other.
@Suite struct HookMachineTests {
    /// A machine whose claims are answered by hand.
    struct Driven {
        var machine: HookMachine
        var now = Instant(nanoseconds: 1_000_000_000_000)
        var clock: UInt64 = 1_800_000_000_000
        var claims: [(claim: HookClaim, partition: Int)] = []
        var deliveries: [HookDelivery] = []
        var notices: [HookNotice] = []

        init(_ limits: HookMachine.Limits = HookMachine.Limits(), nodes: Int = 1, seed: UInt64 = 7) {
            machine = HookMachine(limits: limits, tagSpace: 5, chance: Chance(seed: seed), at: now)
            machine.nodesLive(nodes)
        }

        mutating func take() {
            for action in machine.takeActions() {
                switch action {
                case .claim(let claim, let partition, let tag):
                    #expect(machine.owns(tag))
                    claims.append((claim, partition))
                case .deliver(let delivery): deliveries.append(delivery)
                case .tell(let notice): notices.append(notice)
                }
            }
        }

        /// Ticks every 20 ms.
        mutating func pass(_ span: Span, answering: (HookClaim, Int) -> HookPage? = { _, _ in nil }) {
            let end = now + span
            while now < end {
                now = now + .milliseconds(20)
                clock += 20
                machine.tick(at: now)
                take()
                let asked = claims
                claims = []
                for (claim, partition) in asked {
                    if var page = answering(claim, partition) {
                        page.now = clock
                        answer(.success(page), partition)
                    } else {
                        claims.append((claim, partition))
                    }
                }
            }
        }

        mutating func answer(_ result: Result<HookPage, WireError>, _ partition: Int) {
            machine.claimed(result, tag: RequestTag(high: 5, low: UInt64(partition)), at: now)
            take()
        }

        mutating func answered(_ outcome: HookOutcome) {
            guard !deliveries.isEmpty else { return #expect(Bool(false), "nothing is under way") }
            let delivery = deliveries.removeFirst()
            machine.answered(outcome, number: delivery.number, partition: delivery.partition, at: now)
            take()
        }
    }

    /// Queues that are never trimmed, all held by us.
    final class Store {
        var waiting: [Int: [HookEvent]] = [:]
        var givenUp: UInt64 = 0
        var told: UInt64 = 0
        var claims = 0
        private var sequence: UInt64 = 0

        func append(_ count: Int, to partition: Int, at milliseconds: UInt64 = 1_800_000_000_000) {
            for _ in 0..<count {
                sequence += 1
                waiting[partition, default: []].append(
                    HookEvent(
                        id: HookEventID(milliseconds: milliseconds, sequence: sequence), kind: .userOnline, name: "ann", status: .online,
                        version: sequence, time: milliseconds))
            }
        }

        func page(_ claim: HookClaim, _ partition: Int) -> HookPage {
            claims += 1
            let before = waiting[partition]?.count ?? 0
            waiting[partition]?.removeAll { claim.dropped.contains($0.id) }
            givenUp += UInt64(before - (waiting[partition]?.count ?? 0))
            waiting[partition]?.removeAll { claim.settled.contains($0.id) }
            told = min(max(told, claim.told), givenUp)
            let all = waiting[partition] ?? []
            return HookPage(
                holder: claim.holding == .letGo ? .nobody : .us, now: 0, length: all.count, oldest: all.first?.id.milliseconds,
                givenUp: givenUp, told: told, events: Array(all.prefix(claim.limit)))
        }
    }

    @Test("nothing is claimed before it's known how many nodes live; alone, a node takes everything within a second or so")
    func begins() {
        var driven = Driven(nodes: 0)
        driven.pass(.seconds(3))
        #expect(driven.claims.isEmpty)
        driven.machine.nodesLive(1)
        driven.pass(.seconds(2))
        #expect(Set(driven.claims.map(\.partition)).count == 256)
        #expect(driven.claims.allSatisfy { $0.claim.holding == .take && $0.claim.limit == 0 })
    }

    @Test("events are delivered in batches, the next one with what the last one settled")
    func batches() {
        var limits = HookMachine.Limits()
        limits.batch = 3
        var driven = Driven(limits)
        let store = Store()
        driven.pass(.seconds(2), answering: store.page)
        store.append(7, to: 9)
        driven.machine.noticed(9, at: driven.now)
        var counts: [Int] = []
        for _ in 0..<3 {
            driven.pass(.milliseconds(100), answering: store.page)
            guard let delivery = driven.deliveries.first else { break }
            #expect(driven.deliveries.count == 1 && delivery.partition == 9)
            #expect(delivery.events == Array(store.waiting[9]!.prefix(3)))
            #expect((driven.clock - 100...driven.clock).contains(delivery.time), "the store's clock as it was read, for the signature")
            counts.append(delivery.events.count)
            driven.answered(.answer(status: 204, retryAfter: nil))
        }
        driven.pass(.milliseconds(100), answering: store.page)
        #expect(counts == [3, 3, 1])
        #expect(store.waiting[9] == [] && driven.deliveries.isEmpty)
        #expect(driven.machine.numbers.delivered == 7 && driven.machine.numbers.requestsDelivered == 3)
    }

    @Test("leases are renewed each second, so that what nobody heard of is found, while a request is under way too, without reading")
    func renews() {
        var driven = Driven()
        let store = Store()
        store.append(1, to: 0)
        driven.pass(.seconds(2), answering: store.page)
        #expect(driven.deliveries.count == 1)
        store.claims = 0
        var limits = Set<Int>()
        driven.pass(.seconds(16)) {
            if $1 == 0 { limits.insert($0.limit) }
            return store.page($0, $1)
        }
        #expect(limits == [0])
        #expect((256 * 15...256 * 18).contains(store.claims))
    }

    @Test("a failure is tried again, later each time, and told once; a success is told as well")
    func retries() {
        var driven = Driven()
        let store = Store()
        store.append(1, to: 3)
        driven.pass(.seconds(2), answering: store.page)
        var waits: [UInt64] = []
        for status in [500, 404, 301, 401, 503] {
            guard driven.deliveries.count == 1 else { break }
            driven.answered(status == 301 ? .failed : .answer(status: status, retryAfter: nil))
            let from = driven.now
            for _ in 0..<2000 where driven.deliveries.isEmpty { driven.pass(.milliseconds(20), answering: store.page) }
            waits.append(driven.now.since(from).milliseconds)
        }
        for (place, wait) in waits.enumerated() {
            let whole = UInt64(1000) << UInt64(place)
            #expect((whole / 2...whole + 60).contains(wait), "wait \(place): \(wait) ms")
        }
        #expect(driven.notices == [.troubled])
        driven.answered(.answer(status: 200, retryAfter: nil))
        #expect(driven.notices == [.troubled, .recovered])
        driven.pass(.milliseconds(100), answering: store.page)
        #expect(store.waiting[3] == [] && store.givenUp == 0)
    }

    @Test("a refused batch is offered one by one; the event that is refused again and again is given up, and the receiver told of the loss")
    func poison() {
        var driven = Driven()
        let store = Store()
        store.append(4, to: 3)
        let poison = store.waiting[3]![1].id
        driven.pass(.seconds(2), answering: store.page)
        var taken: [HookEventID] = []
        var offers = 0
        var losses: [UInt64] = []
        for _ in 0..<20_000 where store.waiting[3] != [] {
            driven.pass(.milliseconds(20), answering: store.page)
            guard let delivery = driven.deliveries.first else { continue }
            if delivery.events.map(\.id).contains(poison) {
                if delivery.events.count == 1 { offers += 1 }
                driven.answered(.answer(status: 422, retryAfter: nil))
            } else {
                taken += delivery.events.map(\.id)
                losses.append(delivery.lost)
                driven.answered(.answer(status: 200, retryAfter: nil))
            }
        }
        #expect(offers == HookMachine.refusalsMax)
        #expect(taken.count == 3 && taken == taken.sorted() && !taken.contains(poison))
        // Before, told once, and known from then on.
        #expect(losses == [0, 1, 0])
        #expect(driven.machine.numbers.refused == 1 && store.givenUp == 1 && store.told == 1)
        #expect(driven.notices.contains(.refused(partition: 3, poison, status: 422)))
    }

    @Test("Retry-After holds all requests off, also when others succeed meanwhile")
    func holdsOff() {
        var driven = Driven()
        let store = Store()
        for partition in 0..<3 { store.append(1, to: partition) }
        driven.pass(.seconds(2), answering: store.page)
        #expect(driven.deliveries.count == 3)
        driven.answered(.answer(status: 429, retryAfter: .seconds(20)))
        driven.answered(.answer(status: 200, retryAfter: nil))
        driven.answered(.failed)
        driven.pass(.milliseconds(19_500), answering: store.page)
        #expect(driven.deliveries.isEmpty)
        driven.pass(.seconds(2), answering: store.page)
        #expect(driven.deliveries.count == 2)
    }

    @Test("one partition's trouble holds no other up")
    func oneBlocked() {
        var driven = Driven()
        let store = Store()
        store.append(1, to: 3)
        driven.pass(.seconds(2), answering: store.page)
        for _ in 0..<8 {
            driven.answered(.answer(status: 500, retryAfter: nil))
            for _ in 0..<8000 where driven.deliveries.isEmpty { driven.pass(.milliseconds(20), answering: store.page) }
        }
        driven.answered(.answer(status: 500, retryAfter: nil))
        store.append(1, to: 4)
        driven.machine.noticed(4, at: driven.now)
        driven.pass(.milliseconds(200), answering: store.page)
        #expect(driven.deliveries.map(\.partition) == [4])
    }

    @Test("a receiver that is down gets one request at a time, farther and farther apart; when it's back, all go at once")
    func down() {
        var driven = Driven()
        let store = Store()
        for partition in 0..<100 { store.append(1, to: partition) }
        driven.pass(.seconds(2), answering: store.page)
        #expect(driven.deliveries.count == driven.machine.limits.concurrency)
        while !driven.deliveries.isEmpty { driven.answered(.failed) }
        var requests = 0
        for _ in 0..<(600 * 50) {
            driven.pass(.milliseconds(20), answering: store.page)
            #expect(driven.deliveries.count <= 1)
            if !driven.deliveries.isEmpty {
                requests += 1
                driven.answered(.failed)
            }
        }
        // 1, 2, 4, 8, 16 s, then 30 s each, by chance down to half of it.
        #expect((20...60).contains(requests), "\(requests) requests in ten minutes")
        for _ in 0..<2000 where driven.deliveries.isEmpty { driven.pass(.milliseconds(20), answering: store.page) }
        driven.answered(.answer(status: 200, retryAfter: nil))
        for _ in 0..<200 where store.waiting.values.contains(where: { !$0.isEmpty }) {
            driven.pass(.milliseconds(20), answering: store.page)
            while !driven.deliveries.isEmpty { driven.answered(.answer(status: 200, retryAfter: nil)) }
        }
        #expect(driven.machine.numbers.delivered == 100)
    }

    @Test("what is too old is given up, and what follows it is delivered")
    func tooOld() {
        var limits = HookMachine.Limits()
        limits.keep = .seconds(3600)
        var driven = Driven(limits)
        let store = Store()
        store.append(2, to: 3, at: driven.clock - 3_600_001)
        store.append(1, to: 3, at: driven.clock)
        driven.pass(.seconds(2), answering: store.page)
        #expect(driven.deliveries.map(\.events.count) == [1] && driven.deliveries.map(\.lost) == [2])
        #expect(driven.notices == [.tooOld(partition: 3, count: 2)])
        driven.answered(.answer(status: 200, retryAfter: nil))
        driven.pass(.milliseconds(200), answering: store.page)
        #expect(store.waiting[3] == [] && store.givenUp == 2 && store.told == 2 && driven.machine.numbers.tooOld == 2)
    }

    @Test("entries that nobody can read are given up, and hold up nothing")
    func foreign() {
        var driven = Driven()
        let store = Store()
        store.append(1, to: 3)
        store.waiting[3]!.insert(.unreadable(HookEventID(milliseconds: 1_800_000_000_000, sequence: 0)), at: 0)
        driven.pass(.seconds(2), answering: store.page)
        #expect(driven.deliveries.map(\.events.count) == [1])
        driven.answered(.answer(status: 200, retryAfter: nil))
        driven.pass(.milliseconds(200), answering: store.page)
        #expect(store.waiting[3] == [] && driven.machine.numbers.foreign == 1)
    }

    @Test("a store that can't be reached keeps nothing from being settled later")
    func storeAway() {
        var driven = Driven()
        let store = Store()
        store.append(2, to: 3)
        driven.pass(.seconds(2), answering: store.page)
        driven.answered(.answer(status: 200, retryAfter: nil))
        for _ in 0..<10 {
            driven.pass(.seconds(1))
            let asked = driven.claims
            driven.claims = []
            for (_, partition) in asked { driven.answer(.failure(WireError(.unavailable, "away")), partition) }
        }
        #expect(driven.deliveries.isEmpty)
        driven.pass(.seconds(3), answering: store.page)
        #expect(store.waiting[3] == [] && driven.deliveries.isEmpty)
    }

    @Test("a node that stops lets go of what it holds, and claims nothing more")
    func stops() {
        var driven = Driven()
        let store = Store()
        driven.pass(.seconds(2), answering: store.page)
        driven.machine.stop(at: driven.now)
        driven.take()
        #expect(driven.claims.count == 256 && driven.claims.allSatisfy { $0.claim.holding == .letGo })
        driven.claims = []
        driven.pass(.seconds(60))
        #expect(driven.claims.isEmpty)
    }

    @Test("a node that stops lets go, behind it, of what a claim under way takes, renews or reads; its answer makes nothing happen")
    func stopsUnderWay() {
        let store = Store()
        store.append(1, to: 3)
        var taking = Driven()
        taking.pass(.milliseconds(500))
        var busy = Driven()
        busy.pass(.seconds(2)) { claim, partition in claim.limit > 0 ? nil : store.page(claim, partition) }
        busy.pass(.seconds(10))
        for var driven in [taking, busy] {
            let underWay = driven.claims
            #expect(underWay.count > 10 && underWay.allSatisfy { $0.claim.holding == .take })
            driven.claims = []
            driven.machine.stop(at: driven.now)
            driven.take()
            let letGo = driven.claims
            #expect(letGo.allSatisfy { $0.claim.holding == .letGo })
            #expect(Set(letGo.map(\.partition)).isSuperset(of: underWay.map(\.partition)))
            driven.claims = []
            for (claim, partition) in underWay + letGo { driven.answer(.success(store.page(claim, partition)), partition) }
            driven.pass(.seconds(60))
            #expect(driven.claims.isEmpty && driven.deliveries.isEmpty)
        }
    }

    @Test("the backlog is what waits, and the age of the oldest goes on between claims")
    func backlog() {
        var driven = Driven()
        let store = Store()
        store.append(5, to: 3, at: driven.clock - 60_000)
        driven.pass(.seconds(2), answering: store.page)
        driven.pass(.seconds(1))
        let backlog = driven.machine.backlog(at: driven.now)
        #expect(backlog.length == 5)
        #expect((62_900...63_200).contains(backlog.oldest.milliseconds))
    }
}
