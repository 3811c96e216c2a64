import HubBase
import HubNet
import Testing

@Suite("what one client address holds and opens")
struct AddressTableTests {
    private let start = Instant(nanoseconds: 1_000_000_000_000)

    @Test("the limit is taken, one more is refused, and a place that is given back is taken again")
    func counts() {
        let table = AddressTable()
        for _ in 0..<3 { #expect(table.take(7, limit: 3, at: start) == .taken) }
        #expect(table.take(7, limit: 3, at: start) == .tooMany)
        #expect(table.take(8, limit: 3, at: start) == .taken)
        table.giveBack(7)
        #expect(table.take(7, limit: 3, at: start) == .taken)
        for _ in 0..<3 { table.giveBack(7) }
        table.giveBack(8)
        table.giveBack(9)
        #expect(table.count == 0)
    }

    @Test("an address opens so many at once, then at the rate; leaving doesn't give the pace back; others aren't concerned")
    func pace() {
        let table = AddressTable()
        let rate = Rate(perSecond: 10, burst: 5)
        for _ in 0..<5 {
            #expect(table.take(7, limit: .max, connects: rate, at: start) == .taken)
            table.giveBack(7)
        }
        #expect(table.take(7, limit: .max, connects: rate, at: start) == .tooFast(.milliseconds(100)))
        #expect(table.take(8, limit: .max, connects: rate, at: start) == .taken)
        #expect(table.take(7, limit: .max, connects: rate, at: start + .milliseconds(100)) == .taken)
    }

    @Test("addresses that left are forgotten as others come, once their pace is whole again; those that are here never are")
    func forgets() {
        let table = AddressTable()
        let rate = Rate(perSecond: 10, burst: 5)
        for key in 1...1000 { #expect(table.take(UInt64(key), limit: .max, connects: rate, at: start) == .taken) }
        for key in 1...990 { table.giveBack(UInt64(key)) }
        #expect(table.count == 1000)
        for key in 2001...2600 {
            #expect(table.take(UInt64(key), limit: .max, connects: rate, at: start + .seconds(10)) == .taken)
            table.giveBack(UInt64(key))
        }
        #expect(table.count < 800)
        for key in 991...1000 { #expect(table.take(UInt64(key), limit: 1, connects: rate, at: start + .seconds(20)) == .tooMany) }
    }
}
