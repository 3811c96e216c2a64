import HubBase
import HubRedis
import Testing

@Suite struct ByteTableTests {
    @Test("random inserts, removes and look-ups agree with a dictionary", arguments: [1, 2, 3] as [UInt64])
    func twin(seed: UInt64) {
        var chance = Chance(seed: seed)
        var table = ByteTable(seed: seed)
        var twin: [[UInt8]: Int] = [:]
        for _ in 0..<20_000 {
            let name = [UInt8]("channel:\(UInt64.random(in: 0..<400, using: &chance))".utf8)
            switch UInt64.random(in: 0..<3, using: &chance) {
            case 0 where twin[name] == nil:
                let index = table.insert(name)
                #expect(!twin.values.contains(index))
                twin[name] = index
            case 1:
                if let index = twin.removeValue(forKey: name) { table.remove(index) }
            default: #expect(table.find(name) == twin[name])
            }
        }
        #expect(table.count == twin.count)
        for (name, index) in twin { #expect(table.find(name) == index && table.name(index) == name) }
    }

    @Test("a name is the same whatever of it is kept elsewhere")
    func tails() {
        var table = ByteTable(seed: 5)
        func bytes(_ text: String) -> [UInt8] { [UInt8](text.utf8) }
        let whole = table.insert(bytes("hub:{1}:pf"))
        let parted = table.insert(bytes("hub:{1}:c:room"), tail: bytes("room"))
        let other = table.insert(bytes("hub:{1}:c:hall"), tail: bytes("hall"))
        let mistaken = table.insert(bytes("hub:{2}:c:room"), tail: bytes("rooms"))
        let bare = table.insert(bytes("room"), tail: bytes("room"))
        let names = ["hub:{1}:pf", "hub:{1}:c:room", "hub:{1}:c:hall", "hub:{2}:c:room", "room"]
        for (name, index) in zip(names, [whole, parted, other, mistaken, bare]) {
            #expect(table.find(bytes(name)) == index)
            #expect(table.name(index) == bytes(name))
        }
        #expect(table.find(bytes("hub:{1}:c:roo")) == nil)
        table.remove(parted)
        #expect(table.find(bytes("hub:{1}:c:room")) == nil && table.find(bytes("room")) == bare)
        #expect(table.insert(bytes("hub:{9}:c:x"), tail: bytes("x")) == parted)
    }

    @Test("a ring gives back in order, over its border and when it grows, from both ends")
    func ring() {
        var ring = Ring<Int>()
        var twin: [Int] = []
        var chance = Chance(seed: 7)
        for number in 0..<5_000 {
            switch UInt64.random(in: 0..<5, using: &chance) {
            case 0, 1:
                ring.append(number)
                twin.append(number)
            case 2:
                ring.prepend(number)
                twin.insert(number, at: 0)
            default: #expect(ring.removeFirst() == (twin.isEmpty ? nil : twin.removeFirst()))
            }
            #expect(ring.count == twin.count && ring.first == twin.first)
        }
    }

    @Test("the backoff grows from 50 ms to 2 s, each delay in the upper half of its step, and starts again when reset")
    func backoff() {
        var backoff = Backoff()
        var chance = Chance(seed: 3)
        var limit: UInt64 = 50
        for _ in 0..<10 {
            let delay = backoff.delay(&chance).milliseconds
            #expect(delay >= limit / 2 && delay <= limit)
            limit = min(limit * 2, 2_000)
        }
        backoff.reset()
        #expect(backoff.delay(&chance) < .milliseconds(50))
    }
}
