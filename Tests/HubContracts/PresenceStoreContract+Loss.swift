import HubBase
import HubCore
import HubWire
import Testing

// A store that has lost everything while nodes and their links live on: each registers its connections again in its own time.
extension PresenceStoreContract {
    private static let (phone, desk): (Name, Name) = ("aaaaaaaaaaaa-1", "bbbbbbbbbbbb-1")

    /// Online with a phone at A and a desk at B; then all is lost, and B alone has registered again.
    private static func half(
        _ users: [Name], _ nodes: (PresenceNode, PresenceNode), _ fixture: any PresenceStoreFixture
    ) -> [Name: UInt64] {
        sweep(users, on: nodes, fixture, turns: 3)
        var versions: [Name: UInt64] = [:]
        for user in users {
            nodes.0.apply(.up(.online), user, phone)
            versions[user] = nodes.1.apply(.up(.online), user, desk, device: "desk")
        }
        #expect(fixture.run { users.allSatisfy { nodes.1.recorder.states(of: $0).last == .online } })
        fixture.loseAllData()
        for user in users { nodes.1.apply(.restore(.online), user, desk, floor: versions[user] ?? 0, device: "desk") }
        return versions
    }

    @Sendable static func endsAmidLoss(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let (stays, lost, hides, early): (Name, Name, Name, Name) = ("amid-1", "amid-2", "amid-3", "amid-4")
        let versions = half([stays, lost, hides, early], nodes, fixture)
        // Before anybody has swept, and found out.
        nodes.1.apply(.down(grace: .zero), early, desk, isAsked: true, device: "desk", was: .online, loss: .seen)
        sweep([stays, lost, hides, early], on: nodes, fixture, turns: 2)
        for user in [stays, lost] {
            nodes.1.apply(.down(grace: .zero), user, desk, isAsked: true, device: "desk", was: .online, loss: .seen)
        }
        nodes.1.apply(.up(.invisible), hides, desk, isAsked: true, device: "desk", loss: .seen)
        // A hasn't seen the loss, and hadn't registered this one again.
        nodes.0.apply(.down(grace: .milliseconds(200)), lost, phone, was: .online)
        sweep([stays, lost, hides, early], on: nodes, fixture, turns: 5)
        for user in [stays, lost, hides, early] {
            #expect(!nodes.1.recorder.states(of: user).contains(.offline), "\(user)")
            #expect(nodes.1.read([user])?.changes.first?.status == .online, "\(user)")
        }
        for user in [stays, hides, early] { nodes.0.apply(.restore(.online), user, phone, floor: versions[user] ?? 0) }
        // Nobody came: gone when the others had their time, once, and seen last when the phone was.
        #expect(sweep([lost], on: nodes, fixture) { nodes.1.recorder.states(of: lost).last == .offline })
        sweep([stays, lost, hides, early], on: nodes, fixture, turns: 3)
        #expect(nodes.1.recorder.states(of: lost).filter { $0 == .offline }.count == 1)
        #expect(nodes.1.inspect(lost)?.transitions.last?.cause == .lost && nodes.1.inspect(lost)?.transitions.last?.connection == phone)
        for user in [stays, hides, early] {
            #expect(!nodes.1.recorder.states(of: user).contains(.offline), "\(user)")
            // The data aren't new any more: a goodbye is one at once.
            nodes.0.apply(.down(grace: .zero), user, phone, isAsked: true, was: .online, loss: .seen)
            #expect(fixture.run { nodes.1.recorder.states(of: user).last == .offline }, "\(user)")
        }
    }

    @Sendable static func repeatedAmidLoss(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let (goodbye, over, runs): (Name, Name, Name) = ("again-1", "again-2", "again-3")
        let users = [goodbye, over, runs]
        sweep(users, on: nodes, fixture, turns: 3)
        fixture.loseAllData()
        // All were online, and what they had besides is away.
        func end(_ user: Name, ago: UInt64, isAsked: Bool) {
            nodes.0.apply(
                .down(grace: .seconds(1), ago: .milliseconds(ago)), user, phone, isAsked: isAsked, was: .online, loss: .repeated)
        }
        end(goodbye, ago: 10, isAsked: true)
        end(over, ago: 1_100, isAsked: false)
        end(runs, ago: 10, isAsked: false)
        for user in users {
            #expect(nodes.1.read([user])?.changes.first?.status == .online, "\(user)")
            nodes.1.apply(.restore(.away), user, desk, device: "desk")
        }
        #expect(nodes.1.read(users)?.changes.map(\.status) == [.away, .away, .online])
        #expect(sweep([runs], on: nodes, fixture) { nodes.1.recorder.states(of: runs).last == .away })
        sweep(users, on: nodes, fixture, turns: 3)
        #expect(nodes.1.read(users)?.changes.map(\.status) == [.away, .away, .away])
    }

    @Sendable static func overBesideOthers(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let (beside, alone): (Name, Name) = ("over-1", "over-2")
        var versions: [Name: UInt64] = [:]
        for user in [beside, alone] { versions[user] = nodes.0.apply(.up(.online), user, phone) }
        nodes.1.apply(.up(.away), beside, desk, device: "desk")
        // Older data have the phone again; that its user is away without it had been told.
        for user in [beside, alone] {
            nodes.0.apply(
                .down(grace: .milliseconds(400), ago: .milliseconds(900)), user, phone, floor: (versions[user] ?? 0) + 5_000_000,
                was: .away, loss: .over)
        }
        let changes = nodes.1.read([beside, alone])?.changes
        #expect(changes?.map(\.status) == [.away, .online])
        #expect(changes?.first?.version ?? 0 > (versions[beside] ?? 0) + 5_000_000)
        #expect(sweep([alone], on: nodes, fixture) { nodes.1.recorder.states(of: alone) == [.online, .offline] })
    }

    /// The store came back with data from before the phone at A turned invisible, and the desk at B came.
    @Sendable static func hiddenInOlderData(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let (stays, gone): (Name, Name) = ("older-1", "older-2")
        #expect(sweep([stays, gone], on: nodes, fixture) { nodes.1.read([stays, gone])?.isWarming == false })
        for user in [stays, gone] { nodes.0.apply(.up(.away), user, phone) }
        for user in [stays, gone] { nodes.0.apply(.restore(.invisible), user, phone) }
        sweep([stays, gone], on: nodes, fixture, turns: 2)
        nodes.1.apply(.restore(.away), stays, desk, device: "desk")
        #expect(sweep([stays, gone], on: nodes, fixture) { nodes.1.recorder.states(of: gone).last == .offline })
        sweep([stays, gone], on: nodes, fixture, turns: 3)
        #expect(nodes.1.recorder.states(of: stays) == [.away] && nodes.1.recorder.states(of: gone) == [.away, .offline])
    }

    @Sendable static func restoredLate(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let (soon, late): (Name, Name) = ("late-restored-1", "late-restored-2")
        sweep([soon, late], on: nodes, fixture, turns: 3)
        fixture.loseAllData()
        sweep([soon, late], on: nodes, fixture, turns: 1)
        nodes.0.apply(.restore(.online), soon, phone)
        #expect(sweep([late], on: nodes, fixture) { nodes.1.read([late])?.isWarming == false })
        let version = nodes.0.apply(.restore(.away), late, phone)
        #expect(fixture.run { nodes.1.recorder.changes(of: late).map(\.version) == [version] })
        #expect(nodes.1.recorder.states(of: late) == [.away] && nodes.1.recorder.states(of: soon) == [])
    }
}
