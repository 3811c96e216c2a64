import HubBase
import HubRedis
import Testing

/// What a node reckons Redis's clock to be (decision 0355).
@Suite struct StoreClocksTests {
    private let start = Instant(nanoseconds: 50_000_000_000)
    private let wall: UInt64 = 1_800_000_000_000

    @Test("before a partition has answered the announcement counts, and then its own")
    func sources() {
        var clocks = StoreClocks()
        #expect(clocks.time(7, at: start) == nil)
        clocks.asked(.announcement, at: start)
        clocks.heard(wall, from: .announcement, at: start + .milliseconds(10))
        #expect(clocks.time(7, at: start + .seconds(1)) == wall + 990)
        clocks.asked(.sweep(partition: 7), at: start + .seconds(2))
        clocks.heard(wall + 5_000, from: .sweep(partition: 7), at: start + .seconds(2))
        #expect(clocks.time(7, at: start + .seconds(3)) == wall + 6_000 && clocks.time(8, at: start + .seconds(3)) == wall + 2_990)
    }

    @Test("an answer that took long says nothing: the clock would seem to be behind, and whatever is sent by it late")
    func prompt() {
        var clocks = StoreClocks()
        clocks.heard(wall, from: .sweep(partition: 0), at: start)
        for source in [StoreClocks.Source.announcement, .sweep(partition: 0)] {
            clocks.asked(source, at: start)
            clocks.heard(wall, from: source, at: start + .milliseconds(1_500))
        }
        #expect(clocks.time(0, at: start + .seconds(2)) == nil)
    }

    @Test("of the last two answers the one that waited less counts, and a clock that was stepped back is followed by the second")
    func lastTwo() {
        var clocks = StoreClocks()
        func hear(_ milliseconds: UInt64, at seconds: UInt64) {
            clocks.asked(.sweep(partition: 0), at: start + .seconds(seconds))
            clocks.heard(milliseconds, from: .sweep(partition: 0), at: start + .seconds(seconds))
        }
        hear(wall, at: 0)
        hear(wall + 800, at: 1)
        #expect(clocks.time(0, at: start + .seconds(1)) == wall + 1_000)
        hear(wall - 8_000, at: 2)
        #expect(clocks.time(0, at: start + .seconds(2)) == wall + 1_800)
        hear(wall - 7_000, at: 3)
        #expect(clocks.time(0, at: start + .seconds(3)) == wall - 7_000)
    }
}
