import Foundation
import HubBase
import HubCheck
import Testing

/// How many seeds: a few with every test run, thousands with `scripts/simulate`.
enum Seeds {
    static let first = UInt64(ProcessInfo.processInfo.environment["HUB_SEED"] ?? "") ?? 1
    static let count = UInt64(ProcessInfo.processInfo.environment["HUB_SEEDS"] ?? "") ?? 200
    static var all: Range<UInt64> { first..<(first + count) }
    /// Failed once.
    static let kept: [UInt64] = [77, 87, 168, 329, 633, 1146, 1190, 1278, 1699, 2397, 2823, 6495, 9659]
    /// Of what is taken back: failed once.
    static let keptOfTakingBack: [UInt64] = [342, 550, 639, 775, 810, 823, 859, 1191, 7266, 7549, 9693]
}

@Suite("A cluster under random faults")
struct ClusterSimulationTests {
    @Test("nothing acknowledged is lost unannounced, nothing comes twice or out of order, everybody is whole in the end")
    func simulate() {
        var sum = CheckReport()
        for seed in Seeds.all { judge(seed, &sum) }
        // What didn't happen wasn't tested.
        #expect(sum.recovered > 0 && sum.unrecovered > 0 && sum.resyncs > 0 && sum.retries > 0 && sum.takenBack > 0)
    }

    @Test("whatever a failover or older data take back is told to everybody who stood before it, wherever it was then")
    func takesBack() {
        var sum = CheckReport()
        var silent = 0
        for seed in Seeds.all {
            judge(seed, &sum, TakingBack.allCases[Int(seed % 3)])
            // As it was without looking: the checker must see it.
            if seed <= 60 { silent += Self.run(seed, TakingBack.allCases[Int(seed % 3)], areRenewed: false).0.isClean ? 0 : 1 }
        }
        #expect(sum.recovered > 0 && sum.unrecovered > 0 && sum.resyncs > 0 && sum.retries > 0 && sum.takenBack > 0)
        #expect(silent > 0 || !Seeds.all.contains(1))
    }

    @Test("a seed that failed once passes for good", arguments: Seeds.kept)
    func kept(_ seed: UInt64) {
        var sum = CheckReport()
        judge(seed, &sum)
    }

    @Test("a seed of what is taken back that failed once passes for good", arguments: Seeds.keptOfTakingBack)
    func keptOfTakingBack(_ seed: UInt64) {
        var sum = CheckReport()
        judge(seed, &sum, TakingBack.allCases[Int(seed % 3)])
    }

    /// How data come to be older than what was acknowledged.
    enum TakingBack: CaseIterable {
        case sentinels, cluster, restart
    }

    private func judge(_ seed: UInt64, _ sum: inout CheckReport, _ way: TakingBack? = nil) {
        let (report, problems) = Self.run(seed, way)
        #expect(report.isClean, "seed \(seed): \(report.text())")
        #expect(problems.isEmpty, "seed \(seed): \(problems)")
        sum.recovered += report.recovered
        sum.unrecovered += report.unrecovered
        sum.resyncs += report.resyncs
        sum.retries += report.retries
        sum.takenBack += report.takenBack
    }

    @Test("a channel's first message that is lost with all data is told to who hasn't heard it; if it weren't, the checker would find it")
    func firstMessage() {
        var found = 0
        for seed in 1...UInt64(20) {
            let report = Self.loseFirst(seed, generationsLast: false)
            #expect(report.isClean, "seed \(seed): \(report.text())")
            #expect(report.resyncs > 0)
            found += Self.loseFirst(seed, generationsLast: true).counts[.lost] == nil ? 0 : 1
        }
        #expect(found > 15)
    }

    /// One client publishes a channel's first message while the other one's node hears nothing, and is acknowledged; then Redis loses everything.
    private static func loseFirst(_ seed: UInt64, generationsLast: Bool) -> CheckReport {
        // Nor does any node look what became of it.
        let world = ClusterWorld(
            seed: seed, nodes: 2, clients: 2, channels: 1, generationsLast: generationsLast, areRenewed: !generationsLast)
        world.pass(.seconds(1))
        repeat {
            for client in world.clients.indices {
                world.disconnect(client)
                world.connect(client)
            }
        } while world.clients[0].node == world.clients[1].node
        world.pass(.seconds(2))
        if let deaf = world.clients[1].node { world.nodes[deaf].run { world.nodes[deaf].cutPubsub() } }
        world.publish(0)
        world.pass(.milliseconds(40))
        world.restart(losing: true)
        return world.settle().report
    }

    /// Each seed has faults of a few kinds only, so that some see one kind alone.
    private static func run(_ seed: UInt64, _ way: TakingBack? = nil, areRenewed: Bool = true) -> (CheckReport, [String]) {
        // A few clients leave a node without any for a while: channels are let go and wanted again.
        let world = ClusterWorld(seed: seed, clients: seed % 4 == 0 ? 3 : 10, areRenewed: areRenewed)
        var kinds = (0..<3).map { _ in Int(world.chance.next() % 11) }
        if way != nil { kinds[0] = 8 }
        world.pass(.seconds(1))
        for client in world.clients.indices { world.connect(client) }
        for _ in 0..<600 {
            let client = Int(world.chance.next() % UInt64(world.clients.count))
            switch world.chance.next() % 100 {
            case 0..<70: world.publish(client)
            case 70..<78: world.disconnect(client)
            case 78..<94: world.connect(client)
            case 94..<96: world.replicate()
            default:
                if world.chance.next() % 3 == 0 { hurt(world, kinds[Int(world.chance.next() % 3)], way) }
            }
            world.pass(world.chance.span(in: .milliseconds(1)..<(.milliseconds(seed % 4 == 0 ? 2_000 : 200))))
        }
        let end = world.settle()
        return (end.report, end.problems)
    }

    private static func hurt(_ world: ClusterWorld, _ kind: Int, _ way: TakingBack?) {
        let node = Int(world.chance.next() % UInt64(world.nodes.count))
        let span = world.chance.span(in: .milliseconds(100)..<(.seconds(20)))
        switch kind {
        case 0: world.nodes[node].run { world.nodes[node].cutPubsub() }
        case 1: world.nodes[node].run { world.nodes[node].cutCommands() }
        case 2: world.isolate(node, for: span)
        case 3: world.pause(node, for: span)
        case 4: world.crash(node)
        case 5: world.freeze(for: span)
        case 6: world.restart(losing: false)
        case 7: world.restart(losing: true)
        case 8:
            switch way {
            case nil, .sentinels: world.failOver()
            case .cluster: world.failOver(isNumbered: false)
            case .restart: world.restartOlder()
            }
        case 9: span < .seconds(5) ? world.endGeneration() : world.forgetChannel()
        default: world.slow(world.chance.span(in: .milliseconds(2)..<(.seconds(2))))
        }
    }
}
