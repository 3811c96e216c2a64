import HubBase
import Testing

/// Time as numbers: nothing overflows, nothing is negative.
@Suite struct InstantTests {
    @Test("too large a span is the largest one")
    func saturation() {
        let largest = Span(nanoseconds: .max)
        #expect(Span.milliseconds(.max) == largest)
        #expect(Span.microseconds(.max) == largest)
        #expect(Span.seconds(.max) == largest)
        #expect(Span.seconds(18_446_744_073) < largest && Span.seconds(18_446_744_074) == largest)
        #expect(largest + .milliseconds(1) == largest)
        #expect(Instant(nanoseconds: .max - 5) + .milliseconds(1) == .distantFuture)
        #expect(Instant.distantFuture + largest == .distantFuture)
    }

    @Test("units")
    func units() {
        #expect(Span.seconds(2) == .milliseconds(2_000) && Span.milliseconds(2) == .microseconds(2_000))
        #expect(Span.microseconds(1_999).milliseconds == 1)
        #expect(Span.zero + .seconds(1) == .seconds(1))
        #expect(Span.milliseconds(1) < .milliseconds(2))
    }

    @Test("the time since a later instant is zero")
    func since() {
        let early = Instant(nanoseconds: 1_000)
        let late = early + .milliseconds(3)
        #expect(late.since(early) == .milliseconds(3))
        #expect(early.since(late) == .zero)
        #expect(early < late && Instant.distantFuture.since(Instant(nanoseconds: 0)) == Span(nanoseconds: .max))
    }

    @Test("scaling rounds down, and takes any factor without a trap (B67)")
    func scaling() {
        #expect(Span.milliseconds(10).scaled(by: 2.5) == .milliseconds(25))
        #expect(Span(nanoseconds: 3).scaled(by: 0.5) == Span(nanoseconds: 1))
        #expect(Span.milliseconds(10).scaled(by: 0) == .zero)
        #expect(Span.milliseconds(10).scaled(by: -1) == .zero)
        for factor in [Double.infinity, .greatestFiniteMagnitude, .nan, 1e300] {
            #expect(Span.milliseconds(10).scaled(by: factor) == Span(nanoseconds: .max))
        }
        #expect(Span(nanoseconds: .max).scaled(by: 1) == Span(nanoseconds: .max))
        #expect(Span.zero.scaled(by: -.infinity) == Span(nanoseconds: .max), "zero times infinity is no number: read as the largest")
    }

    @Test("spans are written in the largest unit that is exact")
    func descriptions() {
        #expect(Span.seconds(30).description == "30s")
        #expect(Span.milliseconds(800).description == "800ms")
        #expect(Span(nanoseconds: 1_000_001).description == "1000001ns")
        #expect(Span.zero.description == "0s")
    }
}
