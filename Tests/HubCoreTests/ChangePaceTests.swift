import HubBase
import HubCore
import Testing

@Suite("Pace of presence changes") struct ChangePaceTests {
    @Test("up to 200 changes in a second are told as they come, more once a second, until a second has fewer again")
    func pace() {
        let start = Instant(nanoseconds: 5_000_000_000)
        var pace = ChangePace(at: start)
        #expect(pace.admits(150, at: start) == true)
        #expect(pace.admits(50, at: start + .milliseconds(500)) == true)
        // A new second.
        #expect(pace.admits(200, at: start + .seconds(1)) == true)
        #expect(pace.admits(1, at: start + .milliseconds(1_900)) == false)
        #expect(pace.isSlow)
        // Slow it stays whatever the clock says, until the second's message.
        #expect(pace.admits(1, at: start + .milliseconds(2_500)) == false)
        pace.told(500, at: start + .milliseconds(2_900))
        #expect(pace.admits(1, at: start + .seconds(3)) == false)
        pace.told(200, at: start + .milliseconds(3_900))
        #expect(!pace.isSlow)
        // Those count for the second that has begun.
        #expect(pace.admits(1, at: start + .seconds(4)) == false)
        pace.told(0, at: start + .seconds(5))
        #expect(pace.admits(200, at: start + .seconds(5)) == true)
    }
}
