import HubBase
import HubRedis
import Testing

@Suite struct ByteTableTests {
    /// A table and what it has to be told: the tails of the names in it, by index.
    private struct Kept {
        var table: ByteTable
        var tails: [Int: [UInt8]] = [:]

        mutating func insert(_ name: String, tail: String) -> Int {
            let tails = tails
            let index = table.insert([UInt8](name.utf8), tail: [UInt8](tail.utf8)) { tails[$0] ?? [] }
            self.tails[index] = [UInt8](tail.utf8)
            return index
        }

        mutating func remove(_ index: Int) {
            let tails = tails
            table.remove(index) { tails[$0] ?? [] }
            self.tails[index] = nil
        }

        func find(_ name: String) -> Int? { table.find([UInt8](name.utf8)) { tails[$0] ?? [] } }
        func name(_ index: Int) -> String { String(decoding: table.name(index, tail: tails[index] ?? []), as: UTF8.self) }
    }

    @Test("random inserts, removes and look-ups agree with a dictionary", arguments: [1, 2, 3] as [UInt64])
    func twin(seed: UInt64) {
        var chance = Chance(seed: seed)
        var kept = Kept(table: ByteTable(seed: seed))
        var twin: [String: Int] = [:]
        for _ in 0..<20_000 {
            let tail = "\(UInt64.random(in: 0..<400, using: &chance))"
            let name = "channel{\(tail.count)}:" + tail
            switch UInt64.random(in: 0..<3, using: &chance) {
            case 0 where twin[name] == nil:
                let index = kept.insert(name, tail: UInt64.random(in: 0..<9, using: &chance) == 0 ? "" : tail)
                #expect(!twin.values.contains(index))
                twin[name] = index
            case 1:
                if let index = twin.removeValue(forKey: name) { kept.remove(index) }
            default: #expect(kept.find(name) == twin[name])
            }
        }
        #expect(kept.table.count == twin.count)
        for (name, index) in twin { #expect(kept.find(name) == index && kept.name(index) == name) }
    }

    @Test("a name is the same whatever of it is kept elsewhere")
    func tails() {
        var kept = Kept(table: ByteTable(seed: 5))
        let parted = kept.insert("hub:{1}:c:room", tail: "room")
        let named = [
            (name: "hub:{1}:pf", index: kept.insert("hub:{1}:pf", tail: "")), (name: "hub:{1}:c:room", index: parted),
            (name: "hub:{1}:c:hall", index: kept.insert("hub:{1}:c:hall", tail: "hall")),
            (name: "hub:{2}:c:room", index: kept.insert("hub:{2}:c:room", tail: "rooms")),
            (name: "room", index: kept.insert("room", tail: "room")), (name: "hub:{1}:c:", index: kept.insert("hub:{1}:c:", tail: "")),
        ]
        for (name, index) in named {
            #expect(kept.find(name) == index)
            #expect(kept.name(index) == name)
        }
        #expect(kept.find("hub:{1}:c:roo") == nil)
        kept.remove(parted)
        #expect(kept.find("hub:{1}:c:room") == nil && kept.find("room") != nil)
        #expect(kept.insert("hub:{9}:c:x", tail: "x") == parted)
    }

    @Test("names that end with what is kept of them leave nothing behind")
    func nothingLeft() {
        var kept = Kept(table: ByteTable(seed: 6))
        for number in 0..<1_000 { kept.remove(kept.insert("hub:{1}:c:\(number)", tail: "\(number)")) }
        for number in 0..<1_000 { kept.remove(kept.insert("\(number)", tail: "\(number)")) }
        #expect(kept.table.headCount == 2 && kept.table.bound == 1)
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
