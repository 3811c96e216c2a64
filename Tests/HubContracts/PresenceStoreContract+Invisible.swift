import HubBase
import HubCore
import HubWire
import Testing

// Invisible connections count for nobody: whatever they do, what others can see is what it would be without them.
extension PresenceStoreContract {
    /// Whom nobody ever saw.
    private static func nobody(_ user: Name) -> PresenceChange { PresenceChange(user: user, status: .offline, version: 0, lastSeen: 0) }

    @Sendable static func neverSeen(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "hidden-1", swept: Name = "hidden-2"
        #expect(nodes.0.apply(.up(.invisible), user, "aaaaaaaaaaaa-1") == 0)
        #expect(nodes.0.read([user])?.changes == [nobody(user)])
        #expect(nodes.0.apply(.up(.invisible), user, "aaaaaaaaaaaa-1", isAsked: true) == 0)
        #expect(nodes.1.apply(.restore(.invisible), user, "bbbbbbbbbbbb-1") == 0)
        #expect(nodes.0.inspect(user)?.change == nobody(user))
        #expect(nodes.0.inspect(user)?.connections.map(\.state) == [.invisible, .invisible])
        #expect(nodes.0.refresh([Lease(user: user, connection: "aaaaaaaaaaaa-1")]) == [])
        nodes.0.apply(.down(grace: .milliseconds(400)), user, "aaaaaaaaaaaa-1")
        nodes.1.apply(.down(grace: .zero), user, "bbbbbbbbbbbb-1", isAsked: true)
        // One whose lease runs out, too.
        nodes.0.apply(.up(.invisible), swept, "aaaaaaaaaaaa-2")
        #expect(sweep([user, swept], on: nodes, fixture) { nodes.0.inspect(swept)?.connections == [] })
        for name in [user, swept] {
            #expect(nodes.0.read([name])?.changes == [nobody(name)])
            let record = nodes.0.inspect(name)
            #expect(record?.change == nobody(name) && record?.transitions == [] && record?.connections == [] && record?.graceLeft == nil)
            #expect(nodes.1.recorder.states(of: name) == [])
        }
        // The first time that others may see it, it begins like anybody's.
        #expect(nodes.0.apply(.up(.invisible), user, "aaaaaaaaaaaa-3") == 0)
        let version = nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-3", isAsked: true)
        #expect(fixture.run { nodes.1.recorder.states(of: user) == [.online] })
        #expect(nodes.1.recorder.changes(of: user).map(\.version) == version.map { [$0] })
        #expect(nodes.0.inspect(user)?.transitions.map(\.status) == [.online])
    }

    @Sendable static func knownAndInvisible(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "hidden-3"
        nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1")
        nodes.0.apply(.down(grace: .milliseconds(100)), user, "aaaaaaaaaaaa-1")
        #expect(sweep([user], on: nodes, fixture) { nodes.1.recorder.states(of: user) == [.online, .offline] })
        guard let before = nodes.0.read([user])?.changes.first, let trail = nodes.0.inspect(user)?.transitions else {
            Issue.record("refused")
            return
        }
        #expect(nodes.1.apply(.up(.invisible), user, "bbbbbbbbbbbb-1") == before.version)
        #expect(nodes.1.read([user])?.changes == [before])
        nodes.1.apply(.down(grace: .zero), user, "bbbbbbbbbbbb-1", isAsked: true)
        nodes.1.apply(.up(.invisible), user, "bbbbbbbbbbbb-2")
        #expect(sweep([user], on: nodes, fixture) { nodes.0.inspect(user)?.connections == [] })
        #expect(nodes.0.read([user])?.changes == [before])
        #expect(nodes.0.inspect(user)?.transitions == trail)
        #expect(nodes.1.recorder.states(of: user) == [.online, .offline])
    }

    @Sendable static func graceBesideInvisible(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "hidden-4"
        nodes.1.apply(.up(.invisible), user, "bbbbbbbbbbbb-1")
        let first = nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1")
        // Three times a page is loaded again.
        for turn in 2..<5 {
            nodes.0.apply(.down(grace: .seconds(1)), user, Name(trusted: [UInt8]("aaaaaaaaaaaa-\(turn - 1)".utf8)))
            let record = nodes.0.inspect(user)
            #expect(record?.change.status == .online && record?.change.version == first && record?.graceLeft != nil)
            #expect(nodes.0.apply(.up(.online), user, Name(trusted: [UInt8]("aaaaaaaaaaaa-\(turn)".utf8))) == first)
        }
        fixture.pass(.milliseconds(100))
        #expect(nodes.1.recorder.states(of: user) == [.online])
        // And it ends by grace, once, seen last at the close; a goodbye at once, or with the next sweep.
        nodes.0.apply(.down(grace: .milliseconds(400)), user, "aaaaaaaaaaaa-4")
        let lease = Lease(user: user, connection: "bbbbbbbbbbbb-1")
        func swept(_ states: [PresenceStatus]) -> Bool {
            sweep([user], on: nodes, fixture) {
                _ = nodes.1.refresh([lease])
                return nodes.1.recorder.states(of: user) == states
            }
        }
        #expect(swept([.online, .offline]))
        if let last = nodes.1.recorder.changes(of: user).last { #expect(last.lastSeen + 350 <= last.version / 1_000) }
        nodes.0.apply(.up(.away), user, "aaaaaaaaaaaa-5")
        nodes.0.apply(.down(grace: .zero), user, "aaaaaaaaaaaa-5", isAsked: true)
        #expect(swept([.online, .offline, .away, .offline]))
        #expect(nodes.0.inspect(user)?.transitions.map(\.cause) == [.connected, .lost, .connected, .left])
        #expect(nodes.0.inspect(user)?.connections.map(\.state) == [.invisible])
    }

    @Sendable static func invisibleInGrace(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "hidden-5", back: Name = "hidden-6"
        for name in [user, back] {
            nodes.0.apply(.up(.online), name, "aaaaaaaaaaaa-1")
            nodes.0.apply(.down(grace: .milliseconds(900)), name, "aaaaaaaaaaaa-1")
        }
        fixture.pass(.milliseconds(300))
        for name in [user, back] { nodes.1.apply(.up(.invisible), name, "bbbbbbbbbbbb-1") }
        let record = nodes.0.inspect(user)
        #expect(record?.change.status == .online && record?.graceLeft != nil)
        // Who comes back where others see it was never gone.
        nodes.0.apply(.up(.online), back, "aaaaaaaaaaaa-2")
        #expect(nodes.1.recorder.states(of: user) == [.online])
        #expect(sweep([user], on: nodes, fixture) { nodes.1.recorder.states(of: user) == [.online, .offline] })
        #expect(nodes.1.recorder.states(of: back) == [.online])
        // The moment of the loss, not of the invisible one's coming, and by the loss.
        if let last = nodes.1.recorder.changes(of: user).last { #expect(last.lastSeen + 850 <= last.version / 1_000) }
        #expect(nodes.0.inspect(user)?.transitions.map(\.cause) == [.connected, .lost])
    }

    @Sendable static func invisibleEndsInGrace(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "hidden-7", left: Name = "hidden-8"
        for name in [user, left] {
            nodes.1.apply(.up(.invisible), name, "bbbbbbbbbbbb-1")
            nodes.0.apply(.up(.online), name, "aaaaaaaaaaaa-1")
        }
        fixture.pass(.milliseconds(300))
        // The invisible one's lease runs out, or it leaves, while the grace runs.
        for name in [user, left] { nodes.0.apply(.down(grace: .milliseconds(3_500)), name, "aaaaaaaaaaaa-1") }
        nodes.1.apply(.down(grace: .zero), left, "bbbbbbbbbbbb-1", isAsked: true)
        #expect(sweep([user, left], on: nodes, fixture) { nodes.0.inspect(user)?.connections == [] })
        for name in [user, left] {
            #expect(nodes.1.recorder.states(of: name) == [.online])
            #expect(nodes.0.inspect(name)?.graceLeft != nil)
        }
        #expect(
            sweep([user, left], on: nodes, fixture) {
                [user, left].allSatisfy { nodes.1.recorder.states(of: $0) == [.online, .offline] }
            })
        for name in [user, left] { #expect(nodes.0.inspect(name)?.transitions.map(\.cause) == [.connected, .lost]) }
    }
}
