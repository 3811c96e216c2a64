import HubBase
import HubCore
import HubWire
import Testing

// Ends that are written again, since the store may have lost them (decision 0324).
extension PresenceStoreContract {
    @Sendable static func endedAgain(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "lost-1"
        guard let online = nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1") else { return }
        // As if the leave had been told, and lost.
        let told = PresenceChange(user: user, status: .offline, version: online + 5_000_000, lastSeen: (online + 4_000_000) / 1_000)
        let end = PresenceOperation.Kind.ended(grace: .milliseconds(400), ago: .seconds(3), told: told)
        #expect(nodes.0.apply(end, user, "aaaaaaaaaaaa-1", floor: told.version, isAsked: true) == told.version)
        #expect(nodes.1.read([user])?.changes == [told])
        #expect(nodes.1.inspect(user)?.connections == [] && nodes.1.inspect(user)?.transitions.last?.cause == .left)
        #expect(fixture.run { nodes.1.recorder.changes(of: user).last == told })
        // Once more, it changes nothing; and who comes is told above it.
        #expect(nodes.0.apply(end, user, "aaaaaaaaaaaa-1", floor: told.version, isAsked: true) == told.version)
        let again = nodes.1.apply(.up(.online), user, "bbbbbbbbbbbb-1") ?? 0
        #expect(again > told.version)
        // A record that has moved on stays as it is, also where the ended one isn't there.
        #expect(nodes.0.apply(end, user, "aaaaaaaaaaaa-1", floor: told.version, isAsked: true) == again)
        #expect(fixture.run { nodes.1.recorder.states(of: user) == [.online, .offline, .online] })
        expectGrowing(nodes.1.recorder.changes(of: user))
    }

    @Sendable static func endedBesideOthers(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "lost-2", untold: Name = "lost-3"
        for name in [user, untold] {
            nodes.0.apply(.up(.online), name, "aaaaaaaaaaaa-1")
        }
        let other = nodes.1.apply(.up(.online), user, "bbbbbbbbbbbb-1") ?? 0
        // Somebody is there: what was told of then doesn't hold.
        let told = PresenceChange(user: user, status: .offline, version: other + 5_000_000, lastSeen: 1)
        nodes.0.apply(.ended(grace: .milliseconds(400), ago: .seconds(3), told: told), user, "aaaaaaaaaaaa-1", isAsked: true)
        #expect(nodes.1.inspect(user)?.connections.map(\.connection) == ["bbbbbbbbbbbb-1"])
        #expect(nodes.1.read([user])?.changes.first?.status == .online)
        // Nothing is known to have been told: the grace is for who may be back elsewhere, and last seen is the end.
        fixture.pass(.milliseconds(600))
        nodes.0.apply(.ended(grace: .milliseconds(400), ago: .milliseconds(500), told: nil), untold, "aaaaaaaaaaaa-1")
        #expect(nodes.1.read([untold])?.changes.first?.status == .online)
        #expect(sweep([untold], on: nodes, fixture) { nodes.1.recorder.states(of: untold) == [.online, .offline] })
        if let last = nodes.1.recorder.changes(of: untold).last { #expect(last.lastSeen + 900 <= last.version / 1_000) }
    }

    /// A hold is for leases that nobody could renew: they aren't counted as ended by who asks either.
    @Sendable static func inspectHeld(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "lost-4"
        let partition = Partition.of(user)
        _ = nodes.0.sweep(partition)
        fixture.pass(.milliseconds(1_500))
        _ = nodes.0.sweep(partition)
        nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1")
        fixture.pass(.milliseconds(2_500))
        #expect(nodes.1.inspect(user)?.change.status == .offline)
        // Nobody has swept for longer than gapMax.
        let tag = nodes.0.sweep(partition)
        #expect(fixture.run { nodes.0.recorder.swept[tag] != nil })
        let record = nodes.1.inspect(user)
        #expect(record?.change.status == .online && record?.connections.first?.leaseLeft == 0)
        #expect(record?.change == nodes.1.read([user])?.changes.first)
        #expect(sweep([user], on: nodes, fixture) { nodes.1.recorder.states(of: user) == [.online, .offline] })
    }
}
