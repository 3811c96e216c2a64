import HubBase
import HubCore
import HubWire
import Testing

// How connections end: leave, grace, leases, and the races between nodes.
extension PresenceStoreContract {
    @Sendable static func cleanLeave(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "leave-1"
        guard let online = nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1") else {
            Issue.record("refused")
            return
        }
        fixture.pass(.milliseconds(150))
        nodes.0.apply(.down(grace: .zero), user, "aaaaaaaaaaaa-1")
        // At once, or with the next sweep where a hold or a fresh start has to pass first.
        #expect(sweep([user], on: nodes, fixture) { nodes.1.recorder.states(of: user) == [.online, .offline] })
        sweep([user], on: nodes, fixture, turns: 4)
        let changes = nodes.1.recorder.changes(of: user)
        #expect(changes.map(\.status) == [.online, .offline])
        expectGrowing(changes)
        if let last = changes.last { #expect(last.lastSeen >= online / 1_000 + 100) }
        #expect(nodes.0.read([user])?.changes.first == changes.last)
    }

    @Sendable static func graceEnds(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "grace-1"
        nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1")
        nodes.0.apply(.down(grace: .milliseconds(400)), user, "aaaaaaaaaaaa-1")
        #expect(nodes.0.read([user])?.changes.first?.status == .online)
        if let left = nodes.0.inspect(user)?.graceLeft { #expect(left <= 400) }
        #expect(sweep([user], on: nodes, fixture) { nodes.1.recorder.states(of: user) == [.online, .offline] })
        sweep([user], on: nodes, fixture, turns: 4)
        let changes = nodes.1.recorder.changes(of: user)
        #expect(changes.map(\.status) == [.online, .offline])
        expectGrowing(changes)
        // Seen last when it closed, not when grace was over.
        if let last = changes.last { #expect(last.lastSeen + 350 <= last.version / 1_000) }
    }

    @Sendable static func graceCancelled(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "reload-1"
        let first = nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1")
        nodes.0.apply(.down(grace: .seconds(1)), user, "aaaaaaaaaaaa-1")
        #expect(nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-2") == first)
        sweep([user], on: nodes, fixture, turns: 12)
        #expect(nodes.1.recorder.states(of: user) == [.online])
        #expect(nodes.0.inspect(user)?.graceLeft == nil)
    }

    @Sendable static func reconnectFirst(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "roam-1"
        nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1")
        nodes.1.apply(.up(.online), user, "bbbbbbbbbbbb-1")
        nodes.0.apply(.down(grace: .zero), user, "aaaaaaaaaaaa-1")
        sweep([user], on: nodes, fixture, turns: 6)
        #expect(nodes.1.recorder.states(of: user) == [.online])
    }

    @Sendable static func closeFirst(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "roam-2"
        nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1")
        nodes.0.apply(.down(grace: .seconds(2)), user, "aaaaaaaaaaaa-1")
        sweep([user], on: nodes, fixture, turns: 2)
        nodes.1.apply(.up(.online), user, "bbbbbbbbbbbb-1")
        sweep([user], on: nodes, fixture, turns: 6)
        #expect(nodes.1.recorder.states(of: user) == [.online])
        #expect(nodes.1.read([user])?.changes.first?.status == .online)
    }

    @Sendable static func lateClose(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "roam-3"
        nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1")
        nodes.0.apply(.down(grace: .milliseconds(100)), user, "aaaaaaaaaaaa-1")
        #expect(sweep([user], on: nodes, fixture) { nodes.1.recorder.states(of: user) == [.online, .offline] })
        nodes.1.apply(.up(.online), user, "bbbbbbbbbbbb-1")
        nodes.0.apply(.down(grace: .zero), user, "aaaaaaaaaaaa-1")
        sweep([user], on: nodes, fixture, turns: 6)
        #expect(nodes.1.recorder.states(of: user) == [.online, .offline, .online])
        expectGrowing(nodes.1.recorder.changes(of: user))
    }

    @Sendable static func closeTwice(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "twice-1"
        nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1")
        nodes.0.apply(.down(grace: .milliseconds(200)), user, "aaaaaaaaaaaa-1")
        // Taken again, as after an answer that was lost: grace isn't begun anew, and isn't ended.
        nodes.0.apply(.down(grace: .zero), user, "aaaaaaaaaaaa-1")
        #expect(nodes.0.read([user])?.changes.first?.status == .online)
        #expect(sweep([user], on: nodes, fixture) { nodes.1.recorder.states(of: user).count == 2 })
        sweep([user], on: nodes, fixture, turns: 4)
        #expect(nodes.1.recorder.states(of: user) == [.online, .offline])
    }

    @Sendable static func expiredOnce(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let users = (0..<20).map { Name(trusted: [UInt8]("dead-\($0)".utf8)) }
        for user in users { nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1") }
        let told = { users.allSatisfy { nodes.1.recorder.states(of: $0).count >= 2 } }
        #expect(sweep(users, on: nodes, fixture, until: told))
        sweep(users, on: nodes, fixture, turns: 4)
        for user in users {
            let changes = nodes.1.recorder.changes(of: user)
            #expect(changes.map(\.status) == [.online, .offline])
            expectGrowing(changes)
            // Last proven alive when the lease was last renewed: here, when it began.
            if changes.count == 2 { #expect(changes[1].lastSeen <= changes[0].lastSeen + 200) }
        }
    }

    @Sendable static func renewed(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "renewed-1"
        nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1")
        // 3.3 s of sweeping, past the lease of 2.4 s.
        for turn in 0..<30 {
            sweep([user], on: nodes, fixture, turns: 1)
            // With the record and without: either keeps the lease.
            if turn % 5 == 0 {
                #expect(nodes.0.refresh([Lease(user: user, connection: "aaaaaaaaaaaa-1")], coversRecords: turn % 10 == 0) == [])
            }
        }
        #expect(nodes.1.recorder.states(of: user) == [.online])
        let gone = Lease(user: user, connection: "aaaaaaaaaaaa-2")
        #expect(nodes.0.refresh([gone], coversRecords: false) == [0] && nodes.0.refresh([gone]) == [0])
    }

    @Sendable static func expiredOfTwo(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "half-1"
        nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1")
        nodes.1.apply(.up(.away), user, "bbbbbbbbbbbb-1")
        let lease = Lease(user: user, connection: "bbbbbbbbbbbb-1")
        var turn = 0
        let isAway = sweep([user], on: nodes, fixture) {
            turn += 1
            if turn % 5 == 0 { _ = nodes.1.refresh([lease]) }
            return nodes.1.recorder.states(of: user) == [.online, .away]
        }
        #expect(isAway)
        #expect(nodes.1.inspect(user)?.connections.map(\.connection) == ["bbbbbbbbbbbb-1"])
    }

    @Sendable static func hold(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "blind-1"
        sweep([user], on: nodes, fixture, turns: 1)
        nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1")
        // Nobody sweeps for longer than gapMax (1.2 s) and until the lease (2.4 s) is over.
        fixture.pass(.milliseconds(1_300))
        fixture.pass(.milliseconds(1_300))
        sweep([user], on: nodes, fixture, turns: 3)
        #expect(nodes.1.recorder.states(of: user) == [.online])
        // The hold (1.4 s) passes, nobody refreshed: now it ends.
        #expect(sweep([user], on: nodes, fixture) { nodes.1.recorder.states(of: user) == [.online, .offline] })
    }

    @Sendable static func missing(_ fixture: any PresenceStoreFixture) {
        let one = PresenceNode.pair(fixture).0
        // Users of one partition: one that is known, one that isn't, one of which another connection is known.
        var users: [Name] = []
        var number = 0
        while users.count < 3 {
            let user = Name(trusted: [UInt8]("missing-\(number)".utf8))
            if Partition.of(user) == 9 { users.append(user) }
            number += 1
        }
        one.apply(.up(.online), users[0], "aaaaaaaaaaaa-1")
        one.apply(.up(.online), users[2], "aaaaaaaaaaaa-3")
        let leases = [
            Lease(user: users[0], connection: "aaaaaaaaaaaa-1"), Lease(user: users[1], connection: "aaaaaaaaaaaa-2"),
            Lease(user: users[2], connection: "aaaaaaaaaaaa-4"), Lease(user: users[2], connection: "aaaaaaaaaaaa-3"),
        ]
        #expect(one.refresh(leases) == [1, 2])
        fixture.forgetRecord(of: users[0])
        #expect(one.refresh(leases) == [0, 1, 2])
    }

    @Sendable static func restore(_ fixture: any PresenceStoreFixture) {
        let (one, two) = PresenceNode.pair(fixture)
        let user: Name = "restored-1"
        guard let before = one.apply(.up(.online), user, "aaaaaaaaaaaa-1") else {
            Issue.record("refused")
            return
        }
        #expect(fixture.run { two.recorder.states(of: user) == [.online] })
        fixture.forgetRecord(of: user)
        let after = one.apply(.restore(.online), user, "aaaaaaaaaaaa-1", floor: before)
        if let after { #expect(after > before) } else { Issue.record("refused") }
        fixture.pass(.milliseconds(150))
        #expect(two.recorder.states(of: user) == [.online])
        #expect(two.read([user])?.changes.first?.status == .online)
        #expect(two.read([user])?.changes.first?.version == after)
        #expect(one.refresh([Lease(user: user, connection: "aaaaaaaaaaaa-1")]) == [])
        // With a record it is an ordinary change.
        one.apply(.restore(.away), user, "aaaaaaaaaaaa-1")
        #expect(fixture.run { two.recorder.states(of: user) == [.online, .away] })
        expectGrowing(two.recorder.changes(of: user))
    }

    @Sendable static func inspect(_ fixture: any PresenceStoreFixture) {
        let (one, two) = PresenceNode.pair(fixture)
        let user: Name = "inspected-1"
        one.apply(.up(.online), user, "aaaaaaaaaaaa-1")
        two.apply(.up(.away), user, "bbbbbbbbbbbb-1")
        fixture.pass(.milliseconds(100))
        guard let record = one.inspect(user) else {
            Issue.record("refused")
            return
        }
        #expect(record.change.status == .online)
        #expect(record.graceLeft == nil)
        let connections = record.connections.sorted { $0.connection.bytes.lexicographicallyPrecedes($1.connection.bytes) }
        #expect(connections.map(\.connection) == ["aaaaaaaaaaaa-1", "bbbbbbbbbbbb-1"])
        #expect(connections.map(\.state) == [.online, .away])
        #expect(connections.map(\.node) == [one.incarnation, two.incarnation])
        #expect(connections.map(\.device) == ["phone", "phone"])
        #expect(connections.allSatisfy { $0.since <= record.now && $0.since + 2_000 > record.now })
        #expect(connections.allSatisfy { $0.leaseLeft > 0 && $0.leaseLeft <= 2_400 })
    }

    @Sendable static func inspectExpired(_ fixture: any PresenceStoreFixture) {
        let one = PresenceNode.pair(fixture).0
        let user: Name = "inspected-2"
        one.apply(.up(.online), user, "aaaaaaaaaaaa-1")
        fixture.pass(.milliseconds(1_300))
        fixture.pass(.milliseconds(1_300))
        guard let record = one.inspect(user) else {
            Issue.record("refused")
            return
        }
        #expect(record.change.status == .offline)
        #expect(record.connections.map(\.leaseLeft) == [0])
    }
}
