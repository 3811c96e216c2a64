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
        let end = PresenceOperation.Kind.down(grace: .milliseconds(400), ago: .seconds(3), told: told)
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
        nodes.0.apply(.down(grace: .milliseconds(400), ago: .seconds(3), told: told), user, "aaaaaaaaaaaa-1", isAsked: true)
        #expect(nodes.1.inspect(user)?.connections.map(\.connection) == ["bbbbbbbbbbbb-1"])
        #expect(nodes.1.read([user])?.changes.first?.status == .online)
        // Nothing is known to have been told: the grace is for who may be back elsewhere, and last seen is the end.
        fixture.pass(.milliseconds(600))
        nodes.0.apply(.down(grace: .milliseconds(400), ago: .milliseconds(500), told: nil), untold, "aaaaaaaaaaaa-1")
        #expect(nodes.1.read([untold])?.changes.first?.status == .online)
        #expect(sweep([untold], on: nodes, fixture) { nodes.1.recorder.states(of: untold) == [.online, .offline] })
        if let last = nodes.1.recorder.changes(of: untold).last { #expect(last.lastSeen + 900 <= last.version / 1_000) }
    }

    /// While the store was away nobody could say elsewhere that they're back: a goodbye of that time has a grace too (decision 0353).
    @Sendable static func lateEnds(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let alone: Name = "late-1", beside: Name = "late-2", returns: Name = "late-3", ungraced: Name = "late-4"
        for user in [alone, beside, returns, ungraced] { nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1") }
        nodes.1.apply(.up(.away), beside, "bbbbbbbbbbbb-1", device: "desk")
        fixture.pass(.milliseconds(900))
        let late = PresenceOperation.Kind.down(grace: .milliseconds(500), ago: .milliseconds(700))
        for user in [alone, beside, returns] { nodes.0.apply(late, user, "aaaaaaaaaaaa-1", isAsked: true) }
        nodes.0.apply(.down(grace: .zero, ago: .milliseconds(700)), ungraced, "aaaaaaaaaaaa-1")
        for user in [alone, beside] {
            let record = nodes.1.inspect(user)
            #expect(record?.change.status == .online && record?.close?.cause == .left, "\(user)")
            #expect((record?.graceLeft ?? record?.awaitedLeft ?? 0) <= 500, "\(user)")
            if let record, let close = record.close { #expect(close.time + 700 <= record.now, "\(user)") }
        }
        nodes.1.apply(.up(.online), returns, "bbbbbbbbbbbb-1")
        #expect(sweep([alone, beside], on: nodes, fixture) { nodes.1.recorder.states(of: beside) == [.online, .away] })
        #expect(sweep([alone], on: nodes, fixture) { nodes.1.recorder.states(of: alone) == [.online, .offline] })
        for user in [alone, beside] {
            let last = nodes.0.inspect(user)?.transitions.last
            #expect(last?.cause == .left && last?.connection == "aaaaaaaaaaaa-1" && last?.sweeper.isEmpty == false, "\(user)")
        }
        // It was told when the grace was over, and says that it was before it began.
        if let last = nodes.1.recorder.changes(of: alone).last { #expect(last.lastSeen + 1_200 <= last.version / 1_000) }
        #expect(nodes.1.recorder.states(of: returns) == [.online])
        #expect(nodes.1.recorder.states(of: ungraced) == [.online, .offline])
        if let last = nodes.1.recorder.changes(of: ungraced).last { #expect(last.lastSeen + 700 <= last.version / 1_000) }
    }

    @Sendable static func lateEndsInAnyOrder(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "late-5"
        for connection in ["aaaaaaaaaaaa-1", "aaaaaaaaaaaa-2"] as [Name] { nodes.0.apply(.up(.online), user, connection) }
        nodes.1.apply(.up(.online), user, "bbbbbbbbbbbb-1")
        fixture.pass(.milliseconds(900))
        nodes.0.apply(.down(grace: .milliseconds(400), ago: .milliseconds(700)), user, "aaaaaaaaaaaa-1")
        nodes.1.apply(.down(grace: .milliseconds(400), ago: .milliseconds(100)), user, "bbbbbbbbbbbb-1", isAsked: true)
        nodes.0.apply(.down(grace: .milliseconds(400), ago: .milliseconds(800)), user, "aaaaaaaaaaaa-2")
        let record = nodes.1.inspect(user)
        #expect(record?.close?.connection == "bbbbbbbbbbbb-1" && record?.close?.cause == .left)
        if let record, let close = record.close { #expect(close.time + 700 > record.now) }
        #expect(sweep([user], on: nodes, fixture) { nodes.1.recorder.states(of: user) == [.online, .offline] })
        let last = nodes.0.inspect(user)?.transitions.last
        #expect(last?.cause == .left && last?.connection == "bbbbbbbbbbbb-1")
        if let close = record?.close { #expect(nodes.1.recorder.changes(of: user).last?.lastSeen == close.time) }
    }

    /// Also of those that were told in time, beside one that a node which was cut off still had.
    @Sendable static func lateEndsBesideOthers(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let left: Name = "late-6", hid: Name = "late-7", expired: Name = "late-8", ungraced: Name = "late-9"
        for user in [left, hid, expired, ungraced] {
            nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1")
            nodes.1.apply(.up(.online), user, "bbbbbbbbbbbb-1")
        }
        fixture.pass(.milliseconds(900))
        for user in [left, ungraced] { nodes.1.apply(.down(grace: .zero), user, "bbbbbbbbbbbb-1", isAsked: true) }
        nodes.1.apply(.up(.invisible), hid, "bbbbbbbbbbbb-1", isAsked: true)
        // The other one's lease goes on; of this user's second one it runs out, as it was renewed once more only.
        let began = nodes.1.inspect(expired)?.now ?? 0
        for turn in 0..<6 {
            fixture.pass(.milliseconds(600))
            if turn == 0 { nodes.1.apply(.up(.online), expired, "bbbbbbbbbbbb-1") }
            for user in [left, hid, expired, ungraced] { nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1") }
            nodes.1.apply(.up(.invisible), hid, "bbbbbbbbbbbb-1", isAsked: true)
            _ = nodes.0.sweep(Partition.of(expired))
        }
        // It ended long before the others did.
        let late = Span.milliseconds(4_300)
        for user in [left, hid, expired] { nodes.0.apply(.down(grace: .milliseconds(400), ago: late), user, "aaaaaaaaaaaa-1") }
        nodes.0.apply(.down(grace: .zero, ago: late), ungraced, "aaaaaaaaaaaa-1")
        #expect(
            sweep([left, hid, expired, ungraced], on: nodes, fixture) {
                [left, hid, expired, ungraced].allSatisfy { nodes.1.recorder.states(of: $0) == [.online, .offline] }
            })
        for (user, cause) in [(left, .left), (hid, .setInvisible), (ungraced, .left)] as [(Name, PresenceCause)] {
            let last = nodes.0.inspect(user)?.transitions.last
            #expect(last?.cause == cause && last?.connection == "bbbbbbbbbbbb-1", "\(user)")
            if let seen = nodes.1.recorder.changes(of: user).last?.lastSeen {
                #expect(seen + 1_000 >= began && seen <= began + 500, "\(user)")
            }
        }
        #expect([.expired, .nodeDead].contains(nodes.0.inspect(expired)?.transitions.last?.cause))
    }

    /// What a store that comes back empty can't know its nodes do (decision 0355).
    @Sendable static func lostEnds(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let alone: Name = "empty-1", twice: Name = "empty-2", back: Name = "empty-3", told: Name = "empty-4", hidden: Name = "empty-5"
        let users = [alone, twice, back, told, hidden]
        sweep(users, on: nodes, fixture, turns: 3)
        var versions: [Name: UInt64] = [:]
        for user in users { versions[user] = nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1") }
        versions[twice] = nodes.1.apply(.up(.online), twice, "bbbbbbbbbbbb-1", device: "desk")
        #expect(fixture.run { users.allSatisfy { nodes.1.recorder.states(of: $0).last == .online } })
        fixture.loseAllData()
        fixture.pass(.milliseconds(900))

        func end(_ user: Name, ago: UInt64, of node: PresenceNode, was: ConnectionState? = .online, told: PresenceChange? = nil) -> UInt64?
        {
            node.apply(
                .down(grace: .milliseconds(400), ago: .milliseconds(ago), told: told), user,
                Name(trusted: node.incarnation.bytes + [UInt8]("-1".utf8)), floor: told?.version ?? versions[user] ?? 0, isAsked: true,
                device: "phone", age: .seconds(2), was: was)
        }
        let began = nodes.1.inspect(alone)?.now ?? 0
        // In silence, above what is known: it may have been shown otherwise, by other connections.
        let again = end(alone, ago: 700, of: nodes.0) ?? 0
        #expect(again > versions[alone] ?? 0)
        let first = end(twice, ago: 100, of: nodes.1)
        #expect(end(twice, ago: 700, of: nodes.0) == first)
        _ = end(back, ago: 700, of: nodes.0)
        #expect(end(hidden, ago: 700, of: nodes.0, was: nil) == 0)
        // Whoever was told knows it.
        let known = PresenceChange(user: told, status: .offline, version: (versions[told] ?? 0) + 5_000_000, lastSeen: 1_700_000_000_000)
        #expect(end(told, ago: 700, of: nodes.0, told: known) == 0)
        #expect(nodes.1.read([told])?.changes.first?.version == 0)
        nodes.1.apply(.restore(.online), back, "bbbbbbbbbbbb-2", floor: versions[back] ?? 0)

        let record = nodes.1.inspect(alone)
        #expect(record?.change.status == .online && record?.change.version == again && record?.connections == [])
        #expect(record?.close?.cause == .left && record?.close?.connection == "aaaaaaaaaaaa-1" && record?.close?.device == "phone")
        #expect(
            sweep([alone, twice], on: nodes, fixture) {
                [alone, twice].allSatisfy { nodes.1.recorder.states(of: $0).last == .offline }
            })
        for user in [alone, twice] {
            #expect(nodes.1.recorder.states(of: user).filter { $0 == .offline }.count == 1, "\(user)")
            expectGrowing(nodes.1.recorder.changes(of: user))
        }
        if let record, let close = record.close, let last = nodes.1.recorder.changes(of: alone).last {
            #expect(last.lastSeen == close.time && close.time + 700 <= record.now)
            // Longer than its grace: another node may have to register its own first.
            #expect(last.version / 1_000 >= began + PresenceStoreContract.timers.hold.milliseconds)
        }
        let last = nodes.0.inspect(twice)?.transitions.last
        #expect(last?.cause == .left && last?.connection.bytes == nodes.1.incarnation.bytes + [UInt8]("-1".utf8))
        #expect(!nodes.1.recorder.states(of: back).contains(.offline))
        // Where the data aren't new, what is missing was ended by others.
        let gone: Name = "empty-6"
        #expect(Partition.of(gone) != Partition.of(alone) || end(gone, ago: 700, of: nodes.0) == 0)
        #expect(end(alone, ago: 700, of: nodes.0) == nodes.1.recorder.changes(of: alone).last?.version)
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
