import HubBase
import HubContracts
import HubCore
import HubWire
import Testing

@Suite("Presence under random faults")
struct PresenceSimulationTests {
    @Test(
        "in the end everyone agrees with the truth, versions never go back, nobody is falsely offline, redis-design §11",
        arguments: 1...40)
    func simulate(_ seed: Int) {
        let world = PresenceWorld(seed: UInt64(seed))
        // A record that is restored in silence (no event) reaches a watcher that never heard of it by the audit only: these runs are long.
        let losesRecords = seed % 3 == 0
        var isStoreDown = false
        for _ in 0..<400 {
            switch world.chance.next() % 100 {
            case 0..<30: world.connect()
            case 30..<44: world.close(clean: false)
            case 44..<52: world.close(clean: true)
            case 52..<66: world.setStatus()
            case 66..<68: world.cut(Int(world.chance.next() % 2))
            case 68..<73: world.heal(Int(world.chance.next() % 2))
            case 73..<74: world.crash(Int(world.chance.next() % 2))
            case 74..<76: world.pause(Int(world.chance.next() % 2))
            case 76..<81: world.resume(Int(world.chance.next() % 2))
            case 81..<83: world.store.failNext(Int(world.chance.next() % 4) + 1, with: WireError(.storeFull, "full"))
            case 83..<84:
                world.store.dropFeed(1)
                world.hurtAll()
            case 84..<85: if losesRecords { world.loseAllData() }
            case 85..<86: if losesRecords { world.forgetRecord() }
            case 86..<87:
                isStoreDown = true
                world.store.setHealth(.down("away"))
            case 87..<90:
                if isStoreDown { world.store.setHealth(.up) }
                isStoreDown = false
            default: break
            }
            for _ in 0..<(1 + world.chance.next() % 8) { world.turn(.milliseconds(20 + world.chance.next() % 30)) }
        }
        if isStoreDown { world.store.setHealth(.up) }
        for number in 0..<2 {
            world.resume(number)
            world.heal(number)
        }
        // Quiet: over the check of the feeds' tails, and where records were lost over an audit and a hold.
        for _ in 0..<(losesRecords ? 900 : 120) { world.turn(.milliseconds(400)) }
        world.judgeEnd()
        #expect(world.transitions > 0)
        #expect(world.problems.isEmpty, "seed \(seed): \(world.problems.prefix(5))")
    }
}
