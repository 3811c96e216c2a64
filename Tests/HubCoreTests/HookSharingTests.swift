import HubBase
import HubCore
import HubWire
import Testing

/// Who of several nodes delivers which webhooks (decision 0354).
@Suite struct HookSharingTests {
    /// Leases of several machines, by their places, as the store keeps them.
    final class Leases {
        var held: [Int: (node: Int, until: Instant)] = [:]
        var wanted = Set<Int>()
        var now = Instant(nanoseconds: 0)

        func count(_ node: Int) -> Int { held.values.count { $0.node == node && $0.until > now } }
        var free: Int { Partition.count - held.values.count { $0.until > now } }

        func page(_ claim: HookClaim, _ partition: Int, _ node: Int) -> HookPage {
            if let holder = held[partition], holder.until <= now { held[partition] = nil }
            if let holder = held[partition], holder.node != node {
                if claim.holding == .want { wanted.insert(partition) }
                return HookPage(holder: .other(left: holder.until.since(now)), now: 0)
            }
            let wasWanted = wanted.remove(partition) != nil
            if claim.holding == .letGo {
                held[partition] = nil
                return HookPage(holder: .nobody, now: 0)
            }
            held[partition] = (node, now + claim.lease)
            var page = HookPage(holder: .us, now: 0)
            page.isWanted = wasWanted
            return page
        }
    }

    /// 20 ms at a time, of each in turn; the longest that any partition was nobody's.
    @discardableResult private func pass(_ span: Span, _ nodes: inout [HookMachineTests.Driven], _ leases: Leases, live: [Int]) -> Span {
        var free = [Span](repeating: .zero, count: Partition.count)
        var longest = Span.zero
        for _ in 0..<Int(span.milliseconds / 20) {
            leases.now = leases.now + .milliseconds(20)
            for node in live {
                nodes[node].now = leases.now
                nodes[node].pass(.milliseconds(20)) { leases.page($0, $1, node) }
            }
            for partition in free.indices {
                let isHeld = leases.held[partition].map { $0.until > leases.now } ?? false
                free[partition] = isHeld ? .zero : free[partition] + .milliseconds(20)
                longest = max(longest, free[partition])
            }
        }
        return longest
    }

    private func driven(_ count: Int, _ leases: Leases, nodes: Int, lease: Span) -> [HookMachineTests.Driven] {
        var limits = HookMachine.Limits()
        limits.lease = lease
        let made = (0..<count).map { HookMachineTests.Driven(limits, nodes: nodes, seed: UInt64($0) + 7) }
        leases.now = made[0].now
        return made
    }

    @Test("who finds a partition that nobody holds takes it, however many nodes there are: not every one may deliver")
    func takesAll() {
        let leases = Leases()
        var nodes = driven(1, leases, nodes: 3, lease: .seconds(15))
        pass(.seconds(2), &nodes, leases, live: [0])
        #expect(leases.count(0) == 256)
        // Nobody asks, so it stays so, without a gap.
        #expect(pass(.seconds(1_300), &nodes, leases, live: [0]) == .zero)
    }

    @Test(
        "who joins gets its share soon after the holders' next renewals, and no partition is nobody's for longer than a second or two",
        arguments: [15, 60])
    func joins(lease: Int) {
        let leases = Leases()
        var nodes = driven(3, leases, nodes: 1, lease: .seconds(UInt64(lease)))
        pass(.seconds(2), &nodes, leases, live: [0])
        #expect(leases.count(0) == 256)
        for (count, share) in [(2, 128), (3, 85)] {
            for node in 0..<count { nodes[node].machine.nodesLive(count) }
            let longest = pass(.seconds(UInt64(2 * lease)), &nodes, leases, live: Array(0..<count))
            #expect(longest <= .seconds(2), "\(count) nodes: \(longest)")
            for node in 0..<count { #expect((share...share + 1).contains(leases.count(node)), "\(count): \(leases.count(node))") }
        }
        // What nobody lacks is nobody's to ask for.
        let before = leases.held.mapValues(\.node)
        pass(.seconds(UInt64(2 * lease)), &nodes, leases, live: [0, 1, 2])
        #expect(leases.held.mapValues(\.node) == before && leases.wanted.isEmpty)
    }

    @Test("what a node lets go of as it stops is taken within a second or two, once others know", arguments: [false, true])
    func stops(isTold: Bool) {
        let leases = Leases()
        var nodes = driven(3, leases, nodes: 3, lease: .seconds(60))
        pass(.seconds(130), &nodes, leases, live: [0, 1, 2])
        nodes[2].machine.stop(at: leases.now)
        nodes[2].take()
        for (claim, partition) in nodes[2].claims { _ = leases.page(claim, partition, 2) }
        #expect(leases.free > 80)
        if isTold { for node in 0..<2 { nodes[node].machine.othersLetGo() } }
        var longest = isTold ? pass(.seconds(5), &nodes, leases, live: [0, 1]) : .zero
        for node in 0..<2 { nodes[node].machine.nodesLive(2) }
        longest = max(longest, pass(.seconds(60), &nodes, leases, live: [0, 1]))
        #expect(
            longest <= .seconds(2) && leases.count(0) == 128 && leases.count(1) == 128, "\(longest), \(leases.count(0)), \(leases.count(1))"
        )
    }

    @Test("what a node had asked for that has stopped since isn't let go of for nobody", arguments: [15, 60])
    func stopsAsking(lease: Int) {
        let leases = Leases()
        var nodes = driven(3, leases, nodes: 2, lease: .seconds(UInt64(lease)))
        pass(.seconds(130), &nodes, leases, live: [0, 1])
        for node in 0..<3 { nodes[node].machine.nodesLive(3) }
        pass(.milliseconds(1_200), &nodes, leases, live: [0, 1, 2])
        #expect(leases.wanted.count > 5, "\(leases.wanted.count)")
        nodes[2].machine.stop(at: leases.now)
        nodes[2].take()
        for (claim, partition) in nodes[2].claims { _ = leases.page(claim, partition, 2) }
        for node in 0..<2 { nodes[node].machine.othersLetGo() }
        var longest = pass(.seconds(5), &nodes, leases, live: [0, 1])
        for node in 0..<2 { nodes[node].machine.nodesLive(2) }
        longest = max(longest, pass(.seconds(130), &nodes, leases, live: [0, 1]))
        #expect(
            longest <= .seconds(2) && leases.count(0) == 128 && leases.count(1) == 128, "\(longest), \(leases.count(0)), \(leases.count(1))"
        )
    }

    @Test("a partition that is always busy is let go of between two requests, with what was delivered")
    func letsGoOfBusy() {
        var driven = HookMachineTests.Driven(nodes: 2)
        let store = HookMachineTests.Store()
        var wanted = Set<Int>()
        var given: [Int: Int] = [:]
        func answer(_ claim: HookClaim, _ partition: Int) -> HookPage {
            var page = store.page(claim, partition)
            page.isWanted = wanted.contains(partition)
            if claim.holding == .letGo { given[partition] = claim.settled.count }
            if given[partition] != nil, claim.holding != .letGo { return HookPage(holder: .other(left: .seconds(15)), now: 0) }
            return page
        }
        driven.pass(.seconds(2), answering: answer)
        wanted = [9]
        store.append(1_000, to: 9)
        driven.machine.noticed(9, at: driven.now)
        for _ in 0..<200 where given.isEmpty {
            driven.pass(.milliseconds(40), answering: answer)
            if !driven.deliveries.isEmpty { driven.answered(.answer(status: 200, retryAfter: nil)) }
        }
        #expect(given == [9: 100] && store.waiting[9]?.count == 900)
        driven.pass(.seconds(1), answering: answer)
        #expect(driven.deliveries.isEmpty)
    }
}
