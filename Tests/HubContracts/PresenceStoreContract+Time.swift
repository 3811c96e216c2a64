import HubBase
import HubCore
import HubWire
import Testing

// Whose time counts, for how long, and what shows that all was lost.
extension PresenceStoreContract {
    @Sendable static func longGrace(_ fixture: any PresenceStoreFixture) {
        // Beyond what a sweep grants a lease after a clock that went back: 5 s.
        fixture.timers.grace = .seconds(9)
        fixture.timers.userTTL = .seconds(20)
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "grace|~long"
        nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1")
        nodes.0.apply(.down(grace: .seconds(9)), user, "aaaaaaaaaaaa-1")
        sweep([user], on: nodes, fixture, turns: 4)
        if let record = nodes.1.inspect(user) {
            #expect(record.change.status == .online && (record.graceLeft ?? 0) > 7_000)
        } else {
            Issue.record("refused")
        }
        // Past what the lease would have been.
        sweep([user], on: nodes, fixture, turns: 27)
        #expect(nodes.1.recorder.states(of: user) == [.online])
        nodes.1.apply(.up(.online), user, "bbbbbbbbbbbb-1")
        sweep([user], on: nodes, fixture, turns: 3)
        #expect(nodes.1.recorder.states(of: user) == [.online])
    }
}
