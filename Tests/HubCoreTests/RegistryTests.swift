import HubBase
import HubCore
import HubWire
import Testing

@Suite("Registry: who wants what on one loop")
struct RegistryTests {
    private func name(_ number: Int) -> Name { Name(validating: "room:\(number)")! }
    private func format(_ connection: UInt32) -> WireFormat { WireFormat(rawValue: UInt8(connection % 3))! }

    @Test("agrees with a slow, obvious twin under random operations", arguments: [1, 2, 3, 4, 5] as [UInt64])
    func twin(seed: UInt64) {
        var chance = Chance(seed: seed)
        var registry = Registry(seed: chance.next())
        var twin: [Name: Set<UInt32>] = [:]
        for step in 0..<20_000 {
            let channel = name(Int.random(in: 0..<200, using: &chance))
            let connection = UInt32.random(in: 0..<50, using: &chance)
            switch Int.random(in: 0..<10, using: &chance) {
            case 0..<5:
                let slot = registry.insert(channel).slot
                let wasNew = twin[channel, default: []].insert(connection).inserted
                #expect(registry.add(connection, to: slot, format(connection)) == wasNew)
            case 5..<9:
                guard let slot = registry.slot(of: channel) else {
                    #expect(twin[channel] == nil)
                    continue
                }
                #expect(registry.remove(connection, from: slot) == (twin[channel]?.remove(connection) != nil))
                #expect(registry.removeIfEmpty(slot) == (twin[channel]?.isEmpty ?? false))
                if twin[channel]?.isEmpty == true { twin[channel] = nil }
            default:
                let slots = registry.removeAll(connection)
                #expect(slots.count == twin.values.count { $0.contains(connection) })
                for slot in slots { registry.removeIfEmpty(slot) }
                for (key, members) in twin {
                    let left = members.subtracting([connection])
                    twin[key] = left.isEmpty ? nil : left
                }
            }
            if step % 500 == 0 { compare(registry, twin) }
        }
        compare(registry, twin)
    }

    private func compare(_ registry: borrowing Registry, _ twin: [Name: Set<UInt32>]) {
        #expect(registry.count == twin.count)
        for number in 0..<200 {
            let channel = name(number)
            guard let slot = registry.slot(of: channel) else {
                #expect(twin[channel] == nil)
                continue
            }
            for format in WireFormat.allCases {
                let members = registry.withMembers(of: slot, format) { Array($0) }
                #expect(members.sorted() == twin[channel]?.filter { self.format($0) == format }.sorted())
                #expect(registry.memberCount(of: slot, format) == members.count)
            }
            #expect(registry.memberCount(of: slot) == twin[channel]?.count)
        }
    }

    @Test("a name is compared as bytes: composed and decomposed é are two channels")
    func bytes() {
        var registry = Registry(seed: 7)
        let composed = registry.insert(Name(validating: "caf\u{E9}")!).slot
        let decomposed = registry.insert(Name(validating: "cafe\u{301}")!).slot
        #expect(composed != decomposed)
        #expect(registry.count == 2)
    }

    @Test("a freed slot is used again, and the old name no longer found")
    func reuse() {
        var registry = Registry(seed: 1)
        let first = registry.insert("a").slot
        registry.removeIfEmpty(first)
        #expect(registry.slot(of: "a") == nil)
        #expect(registry.insert("b").slot == first)
        registry.add(5, to: first, .messagePack)
        let wentAway = registry.removeIfEmpty(first)
        #expect(!wentAway, "a slot with a member stays")
        #expect(registry.slot(of: "b") == first)
    }
}
