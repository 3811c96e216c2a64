import HubBase
import Testing

@Suite("PlaceTable: finds the line of each connection, user or channel")
struct PlaceTableTests {
    @Test("random inserts, removes and look-ups agree with a dictionary, also where hashes collide", arguments: [1, 2, 3] as [UInt64])
    func twin(seed: UInt64) {
        var chance = Chance(seed: seed)
        var names: [Int] = []
        var table = PlaceTable()
        var twin: [Int: Int] = [:]
        // In seed 3 all names share eight homes.
        func hash(_ name: Int) -> UInt64 { seed == 3 ? UInt64(name) & 7 : PlaceTable.hash(UInt64(name), seed: seed) }
        for _ in 0..<20_000 {
            let name = Int.random(in: 0..<400, using: &chance)
            let kept = names
            if Bool.random(using: &chance) {
                #expect(table.find(hash(name)) { kept[$0] == name } == twin[name])
            } else if let place = twin.removeValue(forKey: name) {
                table.remove(place, hash(name)) { hash(kept[$0]) }
                // Whatever takes the place next has another name.
                names[place] = -1
            } else {
                let place = names.firstIndex(of: -1) ?? names.count
                if place == names.count { names.append(name) } else { names[place] = name }
                table.insert(place, hash(name)) { hash(kept[$0]) }
                twin[name] = place
            }
        }
        #expect(table.count == twin.count)
        for (name, place) in twin { #expect(table.find(hash(name)) { names[$0] == name } == place) }
    }

    @Test("a name is hashed alike as bytes and as a name, and in two parts as in one")
    func hashes() {
        let name: Name = "hub:{12}:c:room"
        let whole = PlaceTable.hash(name, seed: 7)
        #expect(name.bytes.withUnsafeBytes { PlaceTable.hash($0, seed: 7) } == whole)
        let head = name.bytes[..<11].withUnsafeBytes { FNV1a.hash($0, seed: 7) }
        #expect(name.bytes[11...].withUnsafeBytes { PlaceTable.hash($0, seed: head) } == whole)
        #expect(PlaceTable.secret == PlaceTable.secret)
    }

    @Test("memory for batches is kept as long as batches are of its size, and given back when they no longer are")
    func reuse() {
        var batch = Array(0..<1_000)
        batch.removeAllForReuse()
        #expect(batch.isEmpty && batch.capacity >= 1_000)
        batch.append(contentsOf: 0..<500)
        batch.removeAllForReuse()
        #expect(batch.capacity >= 1_000)
        batch.append(1)
        batch.removeAllForReuse()
        #expect(batch.isEmpty && batch.capacity == 0)
        batch = Array(0..<100_000)
        batch.removeAllForReuse()
        #expect(batch.capacity == 0)
    }
}
