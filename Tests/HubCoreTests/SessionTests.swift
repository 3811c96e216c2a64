import HubBase
import HubCore
import HubWire
import Testing

@Suite("Session: what is served when")
struct SessionTests {
    private let start = Instant(nanoseconds: 1_000_000_000_000)
    private func session(_ phase: Session.Phase) -> Session {
        var session = Session(generation: 1, serial: 1, since: 0, at: start)
        session.phase = phase
        return session
    }

    @Test("before authentication only connect and ping are served", arguments: RequestType.allCases)
    func anonymous(type: RequestType) {
        var session = session(.anonymous)
        let refusal = session.judge(type, limits: Configuration.Limits(), at: start)
        #expect(refusal?.code == (type == .connect || type == .ping ? nil : .unauthenticated))
    }

    @Test("once open every type is served", arguments: RequestType.allCases)
    func open(type: RequestType) {
        var session = session(.open)
        #expect(session.judge(type, limits: Configuration.Limits(), at: start) == nil)
    }

    @Test("over the rate a refusal carries the time after which it will do")
    func rate() {
        var limits = Configuration.Limits()
        limits.messagesPerSecond = 10
        limits.messageBurst = 3
        var session = session(.open)
        for _ in 0..<3 { #expect(session.judge(.chat, limits: limits, at: start) == nil) }
        let refusal = session.judge(.chat, limits: limits, at: start)
        #expect(refusal?.code == .rateLimited)
        #expect(refusal?.retryAfter == 100)
        #expect(session.judge(.chat, limits: limits, at: start + .milliseconds(100)) == nil)
    }

    @Test("activity is told at most eight times in awayAfter, and at once after a pause that long")
    func activity() {
        var session = session(.open)
        let awayAfter = Span.seconds(80)
        #expect(session.tellsActivity(awayAfter: awayAfter, at: start + .seconds(9)) == false)
        #expect(session.tellsActivity(awayAfter: awayAfter, at: start + .seconds(10)) == true)
        #expect(session.tellsActivity(awayAfter: awayAfter, at: start + .seconds(19)) == false)
        #expect(session.tellsActivity(awayAfter: awayAfter, at: start + .seconds(100)) == true)
    }

    @Test("pings and reading lists are no activity; saying something is")
    func activityTypes() {
        #expect(RequestType.allCases.filter(\.isActivity) == [.chat, .event, .typing, .read, .presence])
    }
}

@Suite("Token bucket")
struct TokenBucketTests {
    private let start = Instant(nanoseconds: 5_000_000_000_000)

    @Test("lets a burst through, then the rate, over a long time exactly")
    func rate() {
        var bucket = TokenBucket(full: start)
        var taken = 0
        for millisecond in 0..<10_000 where bucket.take(rate: 100, burst: 50, at: start + .milliseconds(UInt64(millisecond))) == nil {
            taken += 1
        }
        #expect(taken == 50 + 999)
    }

    @Test("rate 0 is no limit")
    func unlimited() {
        var bucket = TokenBucket(full: start)
        for _ in 0..<100_000 { #expect(bucket.take(rate: 0, burst: 0, at: start) == nil) }
    }

    @Test("hostile settings neither trap nor lock out for ever", arguments: [1, 1_000_000_000, Int.max])
    func extremes(rate: Int) {
        var bucket = TokenBucket(full: start)
        _ = bucket.take(rate: rate, burst: Int.max, at: start)
        #expect(bucket.take(rate: rate, burst: 1, at: start + .seconds(10)) == nil)
    }
}
