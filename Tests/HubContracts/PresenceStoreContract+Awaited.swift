import HubBase
import HubCore
import HubWire
import Testing

// A page that is loaded again makes no event, whatever else of its user is there: where its end would make the user away, that waits for grace.
extension PresenceStoreContract {
    @Sendable static func reloadBesideAway(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "beside-1"
        nodes.1.apply(.up(.away), user, "bbbbbbbbbbbb-1", device: "phone")
        let online = nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1", device: "laptop")
        for turn in 2..<5 {
            nodes.0.apply(.down(grace: .seconds(1)), user, Name(trusted: [UInt8]("aaaaaaaaaaaa-\(turn - 1)".utf8)), device: "laptop")
            let record = nodes.1.inspect(user)
            #expect(record?.change.status == .online && record?.change.version == online)
            #expect(record?.connections.map(\.connection) == ["bbbbbbbbbbbb-1"] && record?.graceLeft == nil)
            #expect((record?.awaitedLeft ?? 2_000) <= 1_000 && record?.close?.device == "laptop")
            #expect(nodes.1.read([user])?.changes.first?.status == .online)
            let again = Name(trusted: [UInt8]("aaaaaaaaaaaa-\(turn)".utf8))
            #expect((turn % 2 == 0 ? nodes.0 : nodes.1).apply(.up(.online), user, again, device: "laptop") == online)
            #expect(nodes.1.inspect(user)?.awaitedLeft == nil)
        }
        var beats = 0
        _ = sweep([user], on: nodes, fixture) {
            beats += 1
            return beats > 12
        }
        #expect(nodes.1.recorder.states(of: user) == [.away, .online])
        // The same close again, as after an answer that was lost, changes nothing.
        nodes.0.apply(.down(grace: .seconds(1)), user, "aaaaaaaaaaaa-1", device: "laptop")
        #expect(nodes.1.inspect(user)?.awaitedLeft == nil)
    }

    @Sendable static func awayAfterGrace(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "beside-2"
        nodes.1.apply(.up(.away), user, "bbbbbbbbbbbb-1")
        nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1")
        nodes.0.apply(.down(grace: .milliseconds(600)), user, "aaaaaaaaaaaa-1")
        // Again, as after an answer that was lost: neither begun anew nor ended.
        nodes.0.apply(.down(grace: .zero), user, "aaaaaaaaaaaa-1")
        #expect(nodes.1.recorder.states(of: user) == [.away, .online])
        #expect(sweep([user], on: nodes, fixture) { nodes.1.recorder.states(of: user) == [.away, .online, .away] })
        expectGrowing(nodes.1.recorder.changes(of: user))
        let last = nodes.0.inspect(user)?.transitions.last
        #expect(last?.cause == .lost && last?.connection == "aaaaaaaaaaaa-1" && last?.status == .away)
        #expect(["north", "south"].contains(last?.sweeper))
        #expect(nodes.0.inspect(user)?.awaitedLeft == nil && nodes.0.inspect(user)?.close == nil)
        #expect(nodes.0.inspect(user)?.connections.map(\.connection) == ["bbbbbbbbbbbb-1"])
    }

    @Sendable static func graceOfTwo(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let lost: Name = "beside-3", left: Name = "beside-4", hidden: Name = "beside-5"
        for user in [lost, left, hidden] {
            nodes.1.apply(.up(.away), user, "bbbbbbbbbbbb-1")
            nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1")
            nodes.0.apply(.down(grace: .milliseconds(700)), user, "aaaaaaaaaaaa-1")
        }
        fixture.pass(.milliseconds(300))
        // The other one ends as well: lost, by a goodbye, by turning invisible.
        nodes.1.apply(.down(grace: .milliseconds(700)), lost, "bbbbbbbbbbbb-1")
        nodes.1.apply(.down(grace: .zero), left, "bbbbbbbbbbbb-1", isAsked: true)
        nodes.1.apply(.up(.invisible), hidden, "bbbbbbbbbbbb-1", isAsked: true)
        let users = [lost, left, hidden]
        for user in users {
            #expect(nodes.1.recorder.states(of: user) == [.away, .online])
            #expect(nodes.0.read([user])?.changes.first?.status == .online)
        }
        let told = { users.allSatisfy { nodes.1.recorder.states(of: $0) == [.away, .online, .offline] } }
        #expect(sweep(users, on: nodes, fixture, until: told))
        sweep(users, on: nodes, fixture, turns: 4)
        #expect(told())
        for user in users { expectGrowing(nodes.1.recorder.changes(of: user)) }
        if let last = nodes.1.recorder.changes(of: lost).last { #expect(last.lastSeen + 650 <= last.version / 1_000) }
        // Who was invisible when it ended is no coming back, and isn't shown.
        #expect(nodes.0.inspect(hidden)?.transitions.last?.cause == .setInvisible)
        #expect(nodes.0.inspect(left)?.transitions.last?.cause == .left)
        #expect(nodes.0.inspect(left)?.connections == [] && nodes.0.inspect(lost)?.connections == [])
    }
}
