import HubBase
import HubCore
import Testing

/// Clients come and go between nodes while publications race with them (issue: no duplicate and no hole at the seam, however many do).
@Suite struct RecoverySimulationTests {
    @Test("nothing is missing and nothing comes twice, whatever races with whom", arguments: 0..<60)
    func races(seed: UInt64) {
        var options = RecoveryWorld.Options()
        options.publishes = [50, 400, 900][Int(seed % 3)]
        options.recent = [1, 8, 64][Int(seed / 3 % 3)]
        options.page = [3, 10, 100][Int(seed / 9 % 3)]
        var world = RecoveryWorld(options, seed: seed)
        world.run(6_000)
        #expect(world.problems.prefix(3).isEmpty, "seed \(seed): \(world.problems.prefix(3))")
        #expect(world.recovered > 20 && world.delivered > 200, "\(world.recovered) recovered, \(world.delivered) delivered")
    }

    @Test("a small history loses, and says so", arguments: 100..<120)
    func trimmed(seed: UInt64) {
        var options = RecoveryWorld.Options()
        options.history = 5
        options.recent = 2
        options.publishes = 700
        var world = RecoveryWorld(options, seed: seed)
        world.run(4_000)
        #expect(world.problems.prefix(3).isEmpty, "seed \(seed): \(world.problems.prefix(3))")
        #expect(world.lost > 5 && world.recovered > 5, "\(world.lost) lost, \(world.recovered) recovered")
    }

    @Test("what was lost or rolled back is announced, never passed over", arguments: 200..<260)
    func losses(seed: UInt64) {
        var options = RecoveryWorld.Options()
        options.losses = seed % 2 == 0 ? 3 : 0
        options.rollBacks = seed % 2 == 1 ? 10 : 2
        var world = RecoveryWorld(options, seed: seed)
        world.run(6_000)
        #expect(world.problems.prefix(3).isEmpty, "seed \(seed): \(world.problems.prefix(3))")
        #expect(world.lost > 0 && world.recovered > 20)
    }

    @Test("a page that's too small for what is missed is continued until the end", arguments: 300..<320)
    func pages(seed: UInt64) {
        var options = RecoveryWorld.Options()
        options.page = 2
        options.bytes = 900
        options.publishes = 150
        var world = RecoveryWorld(options, seed: seed)
        world.run(6_000)
        #expect(world.problems.prefix(3).isEmpty, "seed \(seed): \(world.problems.prefix(3))")
        #expect(world.continued > 20)
    }
}
