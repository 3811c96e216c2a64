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

    @Sendable static func since(_ fixture: any PresenceStoreFixture) {
        let (one, two) = PresenceNode.pair(fixture)
        let user: Name = "since-1", connection: Name = "aaaaaaaaaaaa-1"
        one.apply(.up(.online), user, connection, age: .seconds(3))
        guard let first = two.inspect(user), let since = first.connections.first?.since else {
            Issue.record("refused")
            return
        }
        let age = first.now - min(first.now, since)
        #expect(age >= 3_000 && age < 5_000)
        fixture.pass(.milliseconds(50))
        // Whatever it says later: by a change, by a repetition.
        one.apply(.up(.away), user, connection, isAsked: true, age: .zero)
        one.apply(.restore(.away), user, connection, age: .seconds(1_000))
        #expect(two.inspect(user)?.connections.map(\.since) == [since])
        // Where it isn't known any more it's as long ago as the node has had it.
        fixture.forgetRecord(of: user)
        one.apply(.restore(.away), user, connection, age: .seconds(60))
        guard let again = two.inspect(user), let other = again.connections.first?.since else {
            Issue.record("refused")
            return
        }
        #expect(again.now - min(again.now, other) >= 60_000 && again.now - min(again.now, other) < 62_000)
    }

    @Sendable static func backInAnotherState(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "back-1", connection: Name = "aaaaaaaaaaaa-1"
        nodes.0.apply(.up(.online), user, connection)
        #expect(sweep([user], on: nodes, fixture) { nodes.1.recorder.states(of: user) == [.online, .offline] })
        nodes.0.apply(.up(.away), user, connection, isKnown: true)
        // It's there: what changes it is told as ever.
        nodes.0.apply(.up(.online), user, connection, isKnown: true)
        nodes.0.apply(.up(.away), user, connection, isAsked: true, isKnown: true)
        #expect(nodes.0.inspect(user)?.transitions.map(\.cause) == [.connected, .expired, .heartbeat, .active, .setAway])
        #expect(fixture.run { nodes.1.recorder.states(of: user) == [.online, .offline, .away, .online, .away] })
        fixture.forgetRecord(of: user)
        nodes.0.apply(.up(.online), user, connection, isAsked: true, isKnown: true)
        #expect(nodes.0.inspect(user)?.transitions.last?.cause == .restored)
        #expect(fixture.run { nodes.1.recorder.states(of: user).last == .online })
    }

    @Sendable static func lost(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "lost-1", other: Name = "lost-2"
        let partition = Partition.of(user)
        #expect(partition != Partition.of(other))
        sweep([user, other], on: nodes, fixture, turns: 3)
        #expect(nodes.0.recorder.lost == [] && nodes.1.recorder.lost == [])
        fixture.loseAllData()
        sweep([user], on: nodes, fixture, turns: 4)
        #expect(nodes.0.recorder.lost == [partition] && nodes.1.recorder.lost == [partition])
        sweep([other], on: nodes, fixture, turns: 3)
        #expect(nodes.0.recorder.lost == [partition, Partition.of(other)])
        #expect(nodes.0.recorder.toldInsideCall == 0)
    }
}
