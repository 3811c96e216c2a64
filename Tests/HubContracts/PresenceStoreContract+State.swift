import HubBase
import HubCore
import HubWire
import Testing

// The state of a user from its connections, and the versions of its changes.
extension PresenceStoreContract {
    @Sendable static func online(_ fixture: any PresenceStoreFixture) {
        let (one, two) = PresenceNode.pair(fixture)
        let version = one.apply(.up(.online), "online-1", "aaaaaaaaaaaa-1")
        #expect(fixture.run { two.recorder.states(of: "online-1") == [.online] && one.recorder.changes(of: "online-1").count == 1 })
        let change = two.recorder.changes(of: "online-1").first
        #expect(change?.version == version)
        // Versions are microseconds, times milliseconds of the same clock.
        if let change { #expect(change.version / 1_000 == change.lastSeen) }
        #expect(two.read(["online-1"])?.changes == change.map { [$0] })
    }

    @Sendable static func noEvent(_ fixture: any PresenceStoreFixture) {
        let (one, two) = PresenceNode.pair(fixture)
        let first = one.apply(.up(.online), "same-1", "aaaaaaaaaaaa-1")
        #expect(first != nil)
        #expect(one.apply(.up(.online), "same-1", "aaaaaaaaaaaa-1") == first)
        #expect(two.apply(.up(.online), "same-1", "bbbbbbbbbbbb-1") == first)
        #expect(two.apply(.up(.away), "same-1", "bbbbbbbbbbbb-1") == first)
        fixture.pass(.milliseconds(100))
        #expect(one.recorder.states(of: "same-1") == [.online])
    }

    @Sendable static func away(_ fixture: any PresenceStoreFixture) {
        let (one, two) = PresenceNode.pair(fixture)
        let states: [ConnectionState] = [.online, .away, .online, .away, .online]
        let versions = states.map { one.apply(.up($0), "away-1", "aaaaaaaaaaaa-1") }
        #expect(fixture.run { two.recorder.changes(of: "away-1").count == 5 })
        let changes = two.recorder.changes(of: "away-1")
        #expect(changes.map(\.status) == [.online, .away, .online, .away, .online])
        #expect(changes.map(\.version) == versions)
        expectGrowing(changes)
    }

    @Sendable static func updates(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "updates-1"
        for turn in 0..<100 { nodes.0.apply(.up(turn % 2 == 0 ? .online : .away), user, "aaaaaaaaaaaa-1") }
        #expect(fixture.run { nodes.1.recorder.changes(of: user).count == 100 })
        let changes = nodes.1.recorder.changes(of: user)
        #expect(changes.allSatisfy { $0.status != .offline })
        expectGrowing(changes)
    }

    @Sendable static func severalDevices(_ fixture: any PresenceStoreFixture) {
        let (one, two) = PresenceNode.pair(fixture)
        let user: Name = "devices-1"
        one.apply(.up(.away), user, "aaaaaaaaaaaa-1")
        two.apply(.up(.online), user, "bbbbbbbbbbbb-1")
        two.apply(.up(.away), user, "bbbbbbbbbbbb-1")
        one.apply(.up(.online), user, "aaaaaaaaaaaa-1")
        // The online one leaves: the away one remains, at once.
        one.apply(.down(grace: .zero), user, "aaaaaaaaaaaa-1", isAsked: true)
        #expect(fixture.run { one.recorder.changes(of: user).count == 5 })
        #expect(one.recorder.states(of: user) == [.away, .online, .away, .online, .away])
        expectGrowing(one.recorder.changes(of: user))
    }

    @Sendable static func oneOfTwo(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "tabs-1"
        nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1")
        nodes.1.apply(.up(.online), user, "bbbbbbbbbbbb-2")
        nodes.0.apply(.down(grace: .zero), user, "aaaaaaaaaaaa-1")
        sweep([user], on: nodes, fixture, turns: 6)
        #expect(nodes.0.recorder.states(of: user) == [.online])
        #expect(nodes.0.read([user])?.changes.first?.status == .online)
    }

    @Sendable static func invisible(_ fixture: any PresenceStoreFixture) {
        let (one, two) = PresenceNode.pair(fixture)
        let user: Name = "invisible-1"
        one.apply(.up(.online), user, "aaaaaaaaaaaa-1")
        one.apply(.up(.invisible), user, "aaaaaaaaaaaa-1")
        #expect(fixture.run { two.recorder.states(of: user) == [.online, .offline] })
        #expect(one.refresh([Lease(user: user, connection: "aaaaaaaaaaaa-1")]) == [])
        #expect(one.inspect(user)?.connections.map(\.state) == [.invisible])
        // From the start, a user who is invisible never shows.
        one.apply(.up(.invisible), "invisible-2", "aaaaaaaaaaaa-2")
        one.apply(.up(.online), user, "aaaaaaaaaaaa-1")
        #expect(fixture.run { two.recorder.states(of: user) == [.online, .offline, .online] })
        #expect(two.recorder.states(of: "invisible-2") == [])
        #expect(two.read(["invisible-2"])?.changes.first?.status == .offline)
        #expect(two.read(["invisible-2"])?.changes.first?.lastSeen == 0)
    }

    @Sendable static func others(_ fixture: any PresenceStoreFixture) {
        let (one, two) = PresenceNode.pair(fixture)
        // Composed and decomposed é; bars, semicolons and braces: what a store might use as separators.
        let names = ["caf\u{E9}", "cafe\u{301}", "a|b", "a", "b", "a;b", "{a}", "a|aaaaaaaaaaaa-1", "a:b"]
        let users = names.map { Name(trusted: [UInt8](("others-" + $0).utf8)) }
        for user in users { #expect(one.apply(.up(.online), user, "aaaaaaaaaaaa-1") != nil) }
        #expect(one.apply(.up(.away), users[2], "aaaaaaaaaaaa-1") != nil)
        #expect(one.apply(.down(grace: .zero), users[3], "aaaaaaaaaaaa-1") != nil)
        let expected: [PresenceStatus] = [.online, .online, .away, .offline, .online, .online, .online, .online, .online]
        sweep(users, on: (one, two), fixture, turns: 4)
        #expect(two.read(users)?.changes.map(\.status) == expected)
        #expect(two.read(users)?.changes.map(\.user) == users)
    }

    @Sendable static func versionFloor(_ fixture: any PresenceStoreFixture) {
        let one = PresenceNode.pair(fixture).0
        guard let first = one.apply(.up(.online), "floor-1", "aaaaaaaaaaaa-1") else {
            Issue.record("refused")
            return
        }
        let floor = first + 3_600_000_000
        #expect(one.apply(.up(.away), "floor-1", "aaaaaaaaaaaa-1", floor: floor) == floor + 1)
        // From there on it grows by one, until the clock is past it.
        #expect(one.apply(.up(.online), "floor-1", "aaaaaaaaaaaa-1") == floor + 2)
    }

    @Sendable static func coarse(_ fixture: any PresenceStoreFixture) {
        fixture.timers.lastSeenStep = .seconds(3_600)
        defer { fixture.timers.lastSeenStep = .zero }
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "coarse-1"
        sweep([user], on: nodes, fixture, turns: 2)
        fixture.pass(.milliseconds(200))
        guard let came = nodes.0.inspect(user)?.now else {
            Issue.record("refused")
            return
        }
        let states: [ConnectionState] = [.online, .away, .online]
        var versions = states.map { nodes.0.apply(.up($0), user, "aaaaaaaaaaaa-1") ?? 0 }
        // Lost alone, it goes on above what was, and above the one more that watchers may have been told meanwhile.
        for number in 2..<5 {
            fixture.forgetRecord(of: user)
            let connection = Name(trusted: [UInt8]("aaaaaaaaaaaa-\(number)".utf8))
            let next =
                (number == 3 ? nodes.1.apply(.restore(.online), user, connection) : nodes.1.apply(.up(.online), user, connection)) ?? 0
            #expect(next > versions[versions.count - 1] + 1)
            versions.append(next)
        }
        for (before, after) in zip(versions, versions.dropFirst()) { #expect(before < after) }
        // All of them are of before it came.
        #expect(versions.allSatisfy { $0 > 0 && $0 + 100_000 < came * 1_000 })
        let told = nodes.1.recorder.changes(of: user).map(\.version)
        #expect(told == told.sorted())
    }

    @Sendable static func behind(_ fixture: any PresenceStoreFixture) {
        let (one, two) = PresenceNode.pair(fixture)
        let user: Name = "behind-1", ghost: Name = "behind-2"
        guard let first = one.apply(.up(.online), user, "aaaaaaaaaaaa-1"), let seen = one.apply(.up(.invisible), ghost, "aaaaaaaaaaaa-2")
        else {
            Issue.record("refused")
            return
        }
        // As after a failover that lost what came later: a watcher knows it, and would pass over anything older.
        let floor = first + 3_600_000_000
        #expect(one.apply(.restore(.online), user, "aaaaaaaaaaaa-1", floor: floor) == floor + 1)
        #expect(fixture.run { two.recorder.changes(of: user).map(\.version) == [first, floor + 1] })
        #expect(two.recorder.states(of: user) == [.online, .online])
        #expect(one.apply(.restore(.online), user, "aaaaaaaaaaaa-1", floor: floor) == floor + 1)
        // What isn't to be seen has no new moment.
        #expect(one.apply(.up(.invisible), ghost, "aaaaaaaaaaaa-2", floor: seen + 5) != nil)
        #expect(two.read([ghost])?.changes.first?.lastSeen == 0)
        #expect(one.inspect(user)?.transitions.map(\.cause) == [.connected, .restored])
    }

    @Sendable static func batch(_ fixture: any PresenceStoreFixture) {
        let (one, two) = PresenceNode.pair(fixture)
        // Fifty operations on users of one partition.
        var users: [Name] = []
        var number = 0
        while users.count < 25 {
            let user = Name(trusted: [UInt8]("batch-\(number)".utf8))
            if Partition.of(user) == 7 { users.append(user) }
            number += 1
        }
        let connection: Name = "aaaaaaaaaaaa-1"
        let operations =
            users.map { one.operation(.up(.online), $0, connection) } + users.map { one.operation(.up(.away), $0, connection) }
        let tag = one.call { one.store.apply(operations, partition: 7, tag: $0, at: fixture.now) }
        #expect(fixture.run { one.recorder.applied[tag] != nil })
        guard case .success(let versions)? = one.recorder.applied[tag] else {
            Issue.record("refused")
            return
        }
        #expect(versions.count == 50)
        #expect(fixture.run { users.allSatisfy { two.recorder.states(of: $0) == [.online, .away] } })
        for (place, user) in users.enumerated() where versions.count == 50 {
            #expect(two.recorder.changes(of: user).map(\.version) == [versions[place], versions[25 + place]])
        }
    }

    @Sendable static func neverInside(_ fixture: any PresenceStoreFixture) {
        let one = PresenceNode.pair(fixture).0
        one.apply(.up(.online), "inside-1", "aaaaaaaaaaaa-1")
        one.apply(.up(.away), "inside-1", "aaaaaaaaaaaa-1")
        _ = one.refresh([Lease(user: "inside-1", connection: "aaaaaaaaaaaa-1")])
        let tag = one.sweep(Partition.of("inside-1"))
        #expect(fixture.run { one.recorder.swept[tag] != nil })
        #expect(one.read(["inside-1"]) != nil)
        #expect(one.inspect("inside-1") != nil)
        #expect(one.announce(connections: 1) != nil)
        #expect(one.recorder.toldInsideCall == 0)
    }

    @Sendable static func unknown(_ fixture: any PresenceStoreFixture) {
        let one = PresenceNode.pair(fixture).0
        let expected = PresenceChange(user: "nobody-1", status: .offline, version: 0, lastSeen: 0)
        #expect(one.read(["nobody-1"])?.changes == [expected])
        #expect(one.inspect("nobody-1")?.change == expected)
        #expect(one.inspect("nobody-1")?.connections == [])
        // A close of what was never there makes nothing.
        #expect(one.apply(.down(grace: .zero), "nobody-1", "aaaaaaaaaaaa-1") == 0)
        #expect(one.read(["nobody-1"])?.changes == [expected])
        #expect(one.recorder.changes(of: "nobody-1") == [])
    }

    @Sendable static func readOrder(_ fixture: any PresenceStoreFixture) {
        let one = PresenceNode.pair(fixture).0
        let users = (0..<300).map { Name(trusted: [UInt8]("order-\($0)".utf8)) }
        for user in users.prefix(3) { one.apply(.up(.away), user, "aaaaaaaaaaaa-1") }
        let asked = Array(users.reversed()) + [users[0]]
        let changes = one.read(asked)?.changes ?? []
        #expect(changes.map(\.user) == asked)
        #expect(changes.suffix(4).map(\.status) == [.away, .away, .away, .away])
        #expect(changes.prefix(297).allSatisfy { $0.status == .offline && $0.version == 0 })
    }

    @Sendable static func nodes(_ fixture: any PresenceStoreFixture) {
        let (one, two) = PresenceNode.pair(fixture)
        if two !== one { #expect(two.announce(connections: 5, notAsked: [.connect, .publish]) != nil) }
        let entries = one.announce(connections: 3) ?? []
        let own = entries.first { $0.incarnation == one.incarnation }
        #expect(own?.name == "north")
        #expect(own?.facts == NodeFacts(connections: 3))
        if let own { #expect(own.left > 20_000 && own.left <= 30_000) }
        if two !== one {
            let other = entries.first { $0.incarnation == two.incarnation }
            #expect(other?.name == "south")
            #expect(other?.facts == NodeFacts(connections: 5, notAsked: [.connect, .publish]))
        }
    }
}
