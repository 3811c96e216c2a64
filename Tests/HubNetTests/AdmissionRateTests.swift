import HubBase
import HubNet
import Testing

@Suite("Admission of WebSockets")
struct AdmissionRateTests {
    private let start = Instant(nanoseconds: 5_000_000_000)

    @Test("as many as a second allows come in at once, then one each time that its part of a second has passed")
    func pace() {
        let rate = AdmissionRate()
        #expect((0..<150).count { _ in rate.admits(perSecond: 100, at: start) } == 100)
        #expect(!rate.admits(perSecond: 100, at: start + .milliseconds(9)))
        #expect(rate.admits(perSecond: 100, at: start + .milliseconds(10)))
        #expect(!rate.admits(perSecond: 100, at: start + .milliseconds(19)))
        #expect((0..<150).count { _ in rate.admits(perSecond: 100, at: start + .seconds(60)) } == 100)
    }

    @Test("who is turned away is told a later time each, at the pace, from one second on")
    func hints() {
        let rate = AdmissionRate()
        let hints = (0..<50).map { _ in rate.hint(perSecond: 10, at: start) }
        let expected = (0..<50).map { number -> Span in Span.milliseconds(1_000 + UInt64(number) * 100) }
        #expect(hints == expected)
        // Later ones begin anew once the places are past.
        #expect(rate.hint(perSecond: 10, at: start + .seconds(20)) == .seconds(1))
    }

    @Test("nobody is told to come back after more than a minute, however many come")
    func longest() {
        let rate = AdmissionRate()
        for _ in 0..<10_000 {
            let hint = rate.hint(perSecond: 50, at: start)
            #expect(hint >= AdmissionRate.hintMin && hint <= AdmissionRate.hintMax)
        }
    }

    @Test("a clock that stands still, or a rate of one, is no trap", arguments: [1, 1_000_000])
    func extremes(perSecond: Int) {
        let rate = AdmissionRate()
        for _ in 0..<3 {
            _ = rate.admits(perSecond: perSecond, at: Instant(nanoseconds: 0))
            _ = rate.hint(perSecond: perSecond, at: Instant(nanoseconds: 0))
        }
        #expect(AdmissionRate().admits(perSecond: perSecond, at: start))
    }
}
