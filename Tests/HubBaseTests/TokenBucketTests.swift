import HubBase
import Testing

@Suite("Token bucket")
struct TokenBucketTests {
    private let start = Instant(nanoseconds: 5_000_000_000_000)

    @Test("lets a burst through, then the rate, over a long time exactly")
    func rate() {
        let rate = Rate(perSecond: 100, burst: 50)
        var bucket = TokenBucket()
        var taken = 0
        for millisecond in 0..<10_000 where bucket.take(of: rate, at: start + .milliseconds(UInt64(millisecond))) == nil { taken += 1 }
        #expect(taken == 50 + 999)
    }

    @Test("the limit is taken, one more is refused, with the time until there's one", arguments: [1, 3, 7, 1000])
    func exact(burst: Int) {
        let rate = Rate(perSecond: 10, burst: burst)
        var bucket = TokenBucket()
        for _ in 0..<burst { #expect(bucket.take(of: rate, at: start) == nil) }
        #expect(bucket.take(of: rate, at: start) == .milliseconds(100))
        #expect(bucket.take(of: rate, at: start + .milliseconds(99)) == .milliseconds(1))
        #expect(bucket.take(of: rate, at: start + .milliseconds(100)) == nil)
    }

    @Test("several at once cost as many; what is refused costs nothing")
    func several() {
        let rate = Rate(perSecond: 1000, burst: 10)
        var bucket = TokenBucket()
        #expect(bucket.take(6, of: rate, at: start) == nil)
        #expect(bucket.take(6, of: rate, at: start) == .milliseconds(2))
        #expect(bucket.take(4, of: rate, at: start) == nil)
    }

    @Test("more than a whole burst passes a full bucket, which then owes the rest")
    func larger() {
        let rate = Rate(perSecond: 1000, burst: 10)
        var bucket = TokenBucket()
        #expect(bucket.take(30, of: rate, at: start) == nil)
        #expect(bucket.take(of: rate, at: start) == .milliseconds(21))
        var used = TokenBucket()
        #expect(used.take(of: rate, at: start) == nil)
        #expect(used.take(30, of: rate, at: start) == .milliseconds(1))
    }

    @Test("rate 0 is no limit")
    func unlimited() {
        var bucket = TokenBucket()
        for _ in 0..<100_000 { #expect(bucket.take(of: .unlimited, at: start) == nil) }
    }

    @Test("hostile settings neither trap nor lock out for ever", arguments: [1, 1_000_000_000, Int.max])
    func extremes(perSecond: Int) {
        let rate = Rate(perSecond: perSecond, burst: Int.max)
        var bucket = TokenBucket()
        _ = bucket.take(of: rate, at: start)
        #expect(bucket.take(of: rate, at: start + .seconds(10)) == nil)
        #expect(bucket.take(.max, of: Rate(perSecond: perSecond, within: Span(nanoseconds: .max)), at: .distantFuture) == nil)
        _ = bucket.take(-1, of: rate, at: start)
    }

    @Test("what a rate allows within a time is its burst, one token at least")
    func within() {
        #expect(Rate(perSecond: 100, within: .seconds(5)) == Rate(perSecond: 100, burst: 500))
        #expect(Rate(perSecond: 1, within: .milliseconds(100)) == Rate(perSecond: 1, burst: 1))
        #expect(Rate(perSecond: 0, within: .seconds(5)).isLimited == false)
    }

    @Test("a rate in bytes is exact to a thousandth", arguments: [10_000, 1_000_000, 100_000_000, 1_000_000_000])
    func bytes(perSecond: Int) {
        let rate = Rate(perSecond: perSecond, within: .seconds(1))
        var bucket = TokenBucket()
        var taken = 0
        for step in 0..<10_000 where bucket.take(perSecond / 500, of: rate, at: start + .milliseconds(UInt64(step))) == nil {
            taken += perSecond / 500
        }
        #expect(abs(Double(taken) / Double(perSecond) - 11) < 0.02)
    }

    @Test("a charge is taken whether it's there or not; the overdraft goes back with time and has a bound")
    func charge() {
        var bucket = TokenBucket()
        let depth = Span.seconds(1)
        #expect(bucket.charge(.milliseconds(600), of: depth, at: start, overdraftMax: .seconds(60)) == .zero)
        #expect(bucket.charge(.milliseconds(600), of: depth, at: start, overdraftMax: .seconds(60)) == .milliseconds(200))
        #expect(bucket.charge(.zero, of: depth, at: start + .milliseconds(150), overdraftMax: .seconds(60)) == .milliseconds(50))
        #expect(bucket.charge(.seconds(1000), of: depth, at: start, overdraftMax: .seconds(60)) == .seconds(60))
    }

    @Test("a bucket takes eight bytes")
    func size() { #expect(MemoryLayout<TokenBucket>.size == 8) }
}
