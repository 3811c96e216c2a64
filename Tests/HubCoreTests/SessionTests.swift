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
        let refusal = session.judge(type, bytes: 10, paces: Paces(Configuration.Limits()), at: start)
        #expect(refusal?.error.code == (type == .connect || type == .ping ? nil : .unauthenticated))
    }

    @Test("what comes before authentication counts as well")
    func anonymousRate() {
        var limits = Configuration.Limits()
        limits.messagesPerSecond = 1
        limits.messageBurst = 2
        let paces = Paces(limits)
        var session = session(.anonymous)
        for _ in 0..<2 { #expect(session.judge(.chat, bytes: 10, paces: paces, at: start)?.error.code == .unauthenticated) }
        let refusal = session.judge(.connect, bytes: 10, paces: paces, at: start)
        #expect(refusal?.limit == .messages)
    }

    @Test("once open every type is served", arguments: RequestType.allCases)
    func open(type: RequestType) {
        var session = session(.open)
        #expect(session.judge(type, bytes: 10, paces: Paces(Configuration.Limits()), at: start) == nil)
    }

    @Test("over the rate a refusal carries the time after which it will do")
    func rate() {
        var limits = Configuration.Limits()
        limits.messagesPerSecond = 10
        limits.messageBurst = 3
        let paces = Paces(limits)
        var session = session(.open)
        for _ in 0..<3 { #expect(session.judge(.chat, bytes: 10, paces: paces, at: start) == nil) }
        let refusal = session.judge(.chat, bytes: 10, paces: paces, at: start)
        #expect(refusal?.limit == .messages)
        #expect(refusal?.error.code == .rateLimited)
        #expect(refusal?.error.retryAfter == 100)
        #expect(session.judge(.chat, bytes: 10, paces: paces, at: start + .milliseconds(100)) == nil)
    }

    @Test("bytes and subscriptions have rates of their own, several channels at once cost as many")
    func otherRates() {
        var limits = Configuration.Limits()
        limits.bytesPerSecond = 1000
        limits.subscribesPerSecond = 10
        limits.channels = 20
        limits.burst = .seconds(1)
        let paces = Paces(limits)
        var session = session(.open)
        #expect(session.judge(.chat, bytes: 900, paces: paces, at: start) == nil)
        let refusal = session.judge(.chat, bytes: 200, paces: paces, at: start)
        #expect(refusal?.limit == .bytes)
        #expect(refusal?.error.retryAfter == 100)
        // As many at once as a connection may have, whatever the rate: who comes back had them before.
        #expect(session.pace.subscribe(20, paces, at: start) == nil)
        let more = session.pace.subscribe(1, paces, at: start)
        #expect(more?.limit == .subscribes)
    }

    @Test("so many refusals for its rate a connection may get, one more is a flood; they come back with time")
    func flood() {
        var limits = Configuration.Limits()
        limits.refusalsPerSecond = 10
        limits.burst = .seconds(2)
        let paces = Paces(limits)
        var pace = SessionPace()
        for _ in 0..<20 { #expect(pace.refused(paces, at: start) == false) }
        #expect(pace.refused(paces, at: start) == true)
        #expect(pace.refused(paces, at: start + .milliseconds(100)) == false)
        limits.refusalsPerSecond = 0
        let never = Paces(limits)
        for _ in 0..<1000 { #expect(pace.refused(never, at: start) == false) }
    }

    @Test("what a node keeps of a connection's session stays small, with all its buckets")
    func size() { #expect(MemoryLayout<Session>.stride <= 144) }

    @Test("a session's rights are those it was given, a token's in its user's name")
    func rights() throws {
        var session = session(.open)
        #expect(session.rights == .token(.empty, .none))
        for reads in [true, false] {
            for publishes in [true, false] {
                session.rights = .key(reads: reads, publishes: publishes)
                #expect(session.rights == .key(reads: reads, publishes: publishes))
            }
        }
        session.rights = .everything
        #expect(session.rights == .everything)
        let grants = try #require(Grants(patterns: [(Array("room:*".utf8), .subscribe)]))
        session.user = "alice"
        session.rights = .token("alice", grants)
        #expect(session.rights == .token("alice", grants))
        session.tokenExpires = 7
        #expect(session.tokenExpires == 7)
        session.tokenExpires = nil
        #expect(session.tokenExpires == nil)
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
