import HubBase
import HubClient
import Testing

@Suite("What an end means: docs/protocol.md, close codes")
struct ReconnectRuleTests {
    @Test(
        "every close code has its rule",
        arguments: [
            (1000, "", .backoff),
            (1001, "", .soon),
            (1002, "", .backoff), (1003, "", .backoff), (1007, "", .backoff), (1008, "", .backoff), (1009, "", .backoff),
            (1011, "", .backoff),
            (1012, "1500", .after(.milliseconds(1500))),
            (1012, "", .backoff),
            (1013, "2500 overloaded", .backoffNotBefore(.milliseconds(2500))),
            (1013, "overloaded", .backoff),
            (4001, "", .never(.tokenInvalid)),
            (4002, "", .renewToken),
            (4003, "", .never(.disconnected)),
            (4004, "", .soon),
            (4008, "", .soon),
            (4009, "700", .backoffNotBefore(.milliseconds(700))),
            (4010, "", .backoff),
            (4011, "", .soon),
            (4999, "", .backoff),
        ] as [(UInt16, String, ReconnectRule)])
    func closeCodes(_ code: UInt16, _ reason: String, _ rule: ReconnectRule) {
        #expect(ReconnectRule.after(.closed(code: code, reason: reason)) == rule)
    }

    @Test(
        "a refused handshake has its rule",
        arguments: [
            (401, nil, .renewToken),
            (403, nil, .never(.refused(status: 403))),
            (404, nil, .never(.refused(status: 404))),
            (503, nil, .backoff),
            (503, .seconds(3), .backoffNotBefore(.seconds(3))),
            (429, .seconds(999_999), .backoffNotBefore(.seconds(3600))),
        ] as [(Int, Span?, ReconnectRule)])
    func statuses(_ status: Int, _ retryAfter: Span?, _ rule: ReconnectRule) {
        #expect(ReconnectRule.after(.refused(status: status, retryAfter: retryAfter)) == rule)
    }

    @Test("no code (1005) and no handshake at all back off")
    func codeless() {
        #expect(ReconnectRule.after(.closed(code: nil, reason: "")) == .backoff)
        #expect(ReconnectRule.after(.failed("Connection reset by peer")) == .backoff)
    }

    @Test("a 1012 that names no time uses the one that the drain event named")
    func drainHint() {
        let end = TransportEnd.closed(code: 1012, reason: "")
        #expect(ReconnectRule.after(end, drainHint: .seconds(4)) == .after(.seconds(4)))
        let own = TransportEnd.closed(code: 1012, reason: "9000")
        #expect(ReconnectRule.after(own, drainHint: .seconds(4)) == .after(.seconds(9)))
    }

    @Test("a hint above an hour is cut, however many digits it has", arguments: ["3600001", "99999999999999999999999999", "7200000x"])
    func hintMax(_ reason: String) {
        #expect(ReconnectRule.after(.closed(code: 1012, reason: reason)) == .after(.seconds(3600)))
    }
}

@Suite("Backoff")
struct BackoffTests {
    @Test(
        "windows double up to the cap",
        arguments: [(0, 1000), (1, 2000), (2, 4000), (4, 16_000), (5, 30_000), (63, 30_000), (Int.max, 30_000), (-1, 1000)]
            as [(Int, UInt64)])
    func windows(_ failures: Int, _ milliseconds: UInt64) {
        let backoff = Backoff()
        #expect(backoff.window(failures, from: backoff.first) == .milliseconds(milliseconds))
    }

    @Test("jitter is full: delays fill the whole window, from zero, evenly")
    func fullJitter() {
        var chance = Chance(seed: 7)
        var quarters = [0, 0, 0, 0]
        for _ in 0..<4000 {
            guard let delay = Backoff().delay(.backoff, failures: 2, chance: &chance) else { Issue.record("no delay"); return }
            #expect(delay < .seconds(4))
            quarters[min(Int(delay.milliseconds / 1000), 3)] += 1
        }
        // Binomial, 4,000 draws at 1/4: 1,000 ± 27; six deviations.
        for count in quarters { #expect((838...1162).contains(count)) }
    }

    @Test("a hint is never undercut")
    func hints() {
        var chance = Chance(seed: 8)
        for failures in 0..<50 {
            let after = Backoff().delay(.after(.seconds(5)), failures: failures, chance: &chance)
            let notBefore = Backoff().delay(.backoffNotBefore(.seconds(5)), failures: failures, chance: &chance)
            #expect((after ?? .zero) >= .seconds(5) && (after ?? .zero) < .milliseconds(5750))
            #expect((notBefore ?? .zero) >= .seconds(5) && (notBefore ?? .zero) < .seconds(35))
        }
    }

    @Test("what isn't to be waited for has no delay")
    func never() {
        var chance = Chance(seed: 9)
        #expect(Backoff().delay(.never(.disconnected), failures: 0, chance: &chance) == nil)
    }
}
