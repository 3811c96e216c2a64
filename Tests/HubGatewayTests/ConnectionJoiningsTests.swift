import HubBase
import HubCore
import Testing

import HubGateway

@Suite("What one connection waits to join")
struct ConnectionJoiningsTests {
    @Test("few or many, it's what a plain list would be", arguments: [1, 2, 3])
    func twin(seed: UInt64) {
        var chance = Chance(seed: seed)
        var joinings = ConnectionJoinings()
        var twin: [(key: UInt64, slot: Int, isMade: Bool)] = []
        var last: UInt64 = 0
        // Beyond the bound of the few and back, several times.
        for step in 0..<3_000 {
            if Int.random(in: 0..<100, using: &chance) < (step / 300 % 2 == 0 ? 60 : 40) {
                last += 1
                let line = (key: last, slot: Int.random(in: 0..<40, using: &chance), isMade: Bool.random(using: &chance))
                joinings.insert(line.key, slot: line.slot, isMade: line.isMade)
                twin.append(line)
            } else if !twin.isEmpty {
                let gone = twin.remove(at: Int.random(in: 0..<twin.count, using: &chance))
                joinings.remove(gone.key)
                joinings.remove(gone.key)
            }
            let slot = step % 40
            #expect(joinings.isEmpty == twin.isEmpty && joinings.contains(slot) == twin.contains { $0.slot == slot })
            #expect(joinings.unmade == twin.count { !$0.isMade } && Set(joinings.keys) == Set(twin.map(\.key)))
        }
    }
}
