import HubBase
import HubCore
import HubWire
import Testing

// A connection that ended without a goodbye is waited for, whatever the others of its user do meanwhile.
extension PresenceStoreContract {
    private static let laptop: Name = "aaaaaaaaaaaa-1", laptopAgain: Name = "bbbbbbbbbbbb-9", tablet: Name = "bbbbbbbbbbbb-2"

    /// The laptop's page is loaded again beside a tablet that is online, and the tablet goes in between: c2, c3, c4.
    @Sendable static func othersGoInGrace(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let ends: [(user: Name, kind: PresenceOperation.Kind)] = [
            ("company-1", .down(grace: .zero)), ("company-2", .up(.away)), ("company-3", .up(.invisible)),
            ("company-4", .down(grace: .milliseconds(900))),
        ]
        for (user, _) in ends {
            nodes.0.apply(.up(.online), user, laptop, device: "laptop")
            nodes.1.apply(.up(.online), user, tablet, device: "tablet")
            nodes.0.apply(.down(grace: .milliseconds(900)), user, laptop, device: "laptop")
        }
        fixture.pass(.milliseconds(200))
        for (user, kind) in ends { nodes.1.apply(kind, user, tablet, isAsked: true, device: "tablet") }
        for (user, _) in ends { #expect(nodes.0.read([user])?.changes.first?.status == .online) }
        sweep(ends.map(\.user), on: nodes, fixture, turns: 2)
        for (user, _) in ends { nodes.1.apply(.up(.online), user, laptopAgain, device: "laptop") }
        sweep(ends.map(\.user), on: nodes, fixture, turns: 8)
        for (user, _) in ends { #expect(nodes.1.recorder.states(of: user) == [.online], "\(user)") }
    }

    /// Somebody comes as away while one that was online is waited for: c1, c6, c8, k5. `isBack`: in time; else it's away after the grace, once.
    @Sendable static func awayComesInGrace(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let phone: Name = "bbbbbbbbbbbb-3", phoneAgain: Name = "aaaaaaaaaaaa-4"
        let grace = Span.milliseconds(1_100)
        var lostAt: [Name: UInt64] = [:]
        func begin(_ user: Name, _ kind: Int) {
            nodes.0.apply(.up(.online), user, laptop, device: "laptop")
            if kind == 3 { nodes.1.apply(.up(.invisible), user, phone, device: "phone") }
            if kind == 1 || kind == 2 { nodes.1.apply(.up(.away), user, phone, device: "phone") }
            lostAt[user] = nodes.0.inspect(user)?.now
            nodes.0.apply(.down(grace: grace), user, laptop, device: "laptop")
            // Lost a little later, so that its own grace ends later.
            if kind == 2 { nodes.1.apply(.down(grace: grace), user, phone, device: "phone") }
            if kind == 1 { nodes.1.apply(.down(grace: .zero), user, phone, isAsked: true, device: "phone") }
        }
        func comeAway(_ user: Name, _ kind: Int) {
            if kind == 3 {
                nodes.1.apply(.up(.away), user, phone, isAsked: true, device: "phone")
            } else {
                nodes.0.apply(.up(.away), user, phoneAgain, device: "phone")
            }
        }
        let back: [Name] = ["company-5", "company-6", "company-7", "company-8"],
            gone: [Name] = ["company-a", "company-b", "company-c", "company-d"]
        for users in [back, gone] {
            for (kind, user) in users.enumerated() { begin(user, kind) }
        }
        fixture.pass(.milliseconds(150))
        for users in [back, gone] {
            for (kind, user) in users.enumerated() { comeAway(user, kind) }
        }
        for user in back + gone { #expect(nodes.0.read([user])?.changes.first?.status == .online, "\(user)") }
        for user in back { nodes.1.apply(.up(.online), user, laptopAgain, device: "laptop") }
        var turnsAfter = 0
        _ = sweep(back + gone, on: nodes, fixture) {
            for (kind, user) in gone.enumerated() { _ = nodes.1.refresh([Lease(user: user, connection: kind == 3 ? phone : phoneAgain)]) }
            for user in back { _ = nodes.1.refresh([Lease(user: user, connection: laptopAgain)]) }
            if gone.allSatisfy({ nodes.1.recorder.states(of: $0) == [.online, .away] }) { turnsAfter += 1 }
            return turnsAfter > 3
        }
        #expect(turnsAfter > 3)
        for user in back { #expect(nodes.1.recorder.states(of: user) == [.online], "\(user)") }
        for user in gone {
            #expect(nodes.1.recorder.states(of: user) == [.online, .away], "\(user)")
            // Not before its own grace was over.
            if let last = nodes.1.recorder.changes(of: user).last, let lost = lostAt[user] { #expect(last.version / 1_000 >= lost + 1_100) }
            #expect(nodes.0.inspect(user)?.transitions.last?.connection == laptop)
        }
    }

    /// A device that is away is waited for like one that is online.
    @Sendable static func awayIsAwaited(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let back: Name = "company-e", gone: Name = "company-f"
        for user in [back, gone] {
            nodes.0.apply(.up(.away), user, laptop, device: "laptop")
            nodes.1.apply(.up(.online), user, tablet, device: "tablet")
            nodes.0.apply(.down(grace: .milliseconds(900)), user, laptop, device: "laptop")
            nodes.1.apply(.down(grace: .zero), user, tablet, isAsked: true, device: "tablet")
            #expect(nodes.1.recorder.states(of: user) == [.away, .online])
        }
        fixture.pass(.milliseconds(200))
        nodes.1.apply(.up(.away), back, laptopAgain, device: "laptop")
        #expect(
            sweep([back, gone], on: nodes, fixture) { nodes.1.recorder.states(of: gone) == [.away, .online, .offline] })
        sweep([back, gone], on: nodes, fixture, turns: 3)
        #expect(nodes.1.recorder.states(of: gone) == [.away, .online, .offline])
        #expect(nodes.1.recorder.states(of: back) == [.away, .online, .away])
        // Back, it leaves at once: nothing is waited for any more.
        nodes.1.apply(.down(grace: .zero), back, laptopAgain, isAsked: true, device: "laptop")
        #expect(sweep([back], on: nodes, fixture) { nodes.1.recorder.states(of: back) == [.away, .online, .away, .offline] })
    }

    /// One coming ends one waiting, of its own device where devices have names.
    @Sendable static func oneForOne(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let both: Name = "company-g", other: Name = "company-h", long = Span.seconds(30)
        // Both lost, one back, which then goes; the other comes back in its time.
        nodes.0.apply(.up(.online), both, laptop, device: "laptop")
        nodes.1.apply(.up(.online), both, tablet, device: "tablet")
        nodes.0.apply(.down(grace: long), both, laptop, device: "laptop")
        nodes.1.apply(.down(grace: long), both, tablet, device: "tablet")
        nodes.0.apply(.up(.online), both, "aaaaaaaaaaaa-5", device: "tablet")
        nodes.0.apply(.down(grace: .zero), both, "aaaaaaaaaaaa-5", isAsked: true, device: "tablet")
        // A phone that was never lost comes and goes.
        nodes.0.apply(.up(.online), other, laptop, device: "laptop")
        nodes.0.apply(.down(grace: long), other, laptop, device: "laptop")
        nodes.1.apply(.up(.online), other, tablet, device: "tablet")
        nodes.1.apply(.down(grace: .zero), other, tablet, isAsked: true, device: "tablet")
        sweep([both, other], on: nodes, fixture, turns: 4)
        for user in [both, other] {
            #expect(nodes.1.recorder.states(of: user) == [.online], "\(user)")
            nodes.1.apply(.up(.online), user, laptopAgain, device: "laptop")
            #expect(nodes.1.inspect(user)?.graceLeft == nil)
            // Nothing is left to wait for: the goodbye is told, long before the graces would have been over.
            nodes.1.apply(.down(grace: .zero), user, laptopAgain, isAsked: true, device: "laptop")
            #expect(sweep([user], on: nodes, fixture) { nodes.1.recorder.states(of: user) == [.online, .offline] }, "\(user)")
        }
        // Devices without a name are called otherwise each time: any of them is the one that was lost.
        let nameless: Name = "company-i"
        for number in 1..<4 {
            let connection = Name(trusted: [UInt8]("aaaaaaaaaaaa-\(number)".utf8))
            nodes.0.apply(.up(.online), nameless, connection, device: DeviceName.standard(of: connection))
            nodes.0.apply(.down(grace: number < 3 ? long : .zero), nameless, connection, isAsked: number == 3)
        }
        #expect(sweep([nameless], on: nodes, fixture) { nodes.1.recorder.states(of: nameless) == [.online, .offline] })
    }

    /// More than are told apart: still online until the last of them is over, and gone once.
    @Sendable static func manyAwaited(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "company-j"
        func connection(_ number: Int) -> Name { Name(trusted: [UInt8]("aaaaaaaaaaaa-\(number)".utf8)) }
        func device(_ number: Int) -> Name { Name(trusted: [UInt8]("device \(number)".utf8)) }
        for number in 0..<9 { nodes.0.apply(.up(number % 3 == 0 ? .away : .online), user, connection(number), device: device(number)) }
        for number in 0..<9 {
            fixture.pass(.milliseconds(60))
            nodes.0.apply(.down(grace: .milliseconds(600)), user, connection(number), device: device(number))
        }
        // The last of them was online.
        nodes.1.apply(.up(.away), user, tablet, device: "tablet")
        #expect(nodes.0.read([user])?.changes.first?.status == .online)
        let lost = nodes.0.inspect(user)?.now ?? 0
        #expect(sweep([user], on: nodes, fixture) { nodes.1.recorder.states(of: user) == [.away, .online, .away] })
        sweep([user], on: nodes, fixture, turns: 2)
        #expect(nodes.1.recorder.states(of: user) == [.away, .online, .away])
        if let last = nodes.1.recorder.changes(of: user).last { #expect(last.version / 1_000 + 50 >= lost + 500) }
    }

    /// Whatever else is there: it looks the same who leaves and who turns invisible, while somebody is waited for and in a hold.
    @Sendable static func invisibleLooksLikeLeaving(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let leaves: Name = "company-k", hides: Name = "company-l"
        for user in [leaves, hides] {
            nodes.0.apply(.up(.online), user, laptop, device: "laptop")
            nodes.1.apply(.up(.away), user, tablet, device: "tablet")
            nodes.0.apply(.down(grace: .milliseconds(900)), user, laptop, device: "laptop")
        }
        let lost = nodes.0.inspect(leaves)?.now ?? .max
        fixture.pass(.milliseconds(400))
        nodes.1.apply(.down(grace: .zero), leaves, tablet, isAsked: true, device: "tablet")
        nodes.1.apply(.up(.invisible), hides, tablet, isAsked: true, device: "tablet")
        for user in [leaves, hides] {
            let record = nodes.0.inspect(user)
            #expect(record?.change.status == .online && record?.graceLeft != nil && record?.awaitedLeft == nil, "\(user)")
        }
        #expect(
            sweep([leaves, hides], on: nodes, fixture) {
                [leaves, hides].allSatisfy { nodes.1.recorder.states(of: $0) == [.online, .offline] }
            })
        for user in [leaves, hides] {
            // The tablet's going was the last that was seen of the user.
            if let last = nodes.1.recorder.changes(of: user).last { #expect(last.lastSeen >= lost + 350, "\(user)") }
        }
        #expect(nodes.0.inspect(leaves)?.transitions.last?.cause == .left)
        #expect(nodes.0.inspect(hides)?.transitions.last?.cause == .setInvisible)

        // While nodes may still have to register connections again, neither is told at once: another of the user's may be there.
        var same: [Name] = []
        var number = 0
        while same.count < 3 {
            let user = Name(trusted: [UInt8]("company-\(number)".utf8))
            if Partition.of(user) == 201 { same.append(user) }
            number += 1
        }
        // The partition's first sweep: its data may have been lost.
        sweep([same[0]], on: nodes, fixture, turns: 1)
        let isWarming = nodes.0.read([same[0]])?.isWarming ?? false
        for user in same { nodes.0.apply(.up(.online), user, laptop) }
        nodes.0.apply(.down(grace: .zero), same[0], laptop, isAsked: true)
        nodes.0.apply(.up(.invisible), same[1], laptop, isAsked: true)
        nodes.0.apply(.up(.invisible), same[2], laptop, isAsked: true)
        #expect(nodes.0.read([same[0]])?.changes.first?.status == nodes.0.read([same[1]])?.changes.first?.status)
        nodes.1.apply(.up(.online), same[2], tablet)
        #expect(
            sweep(same, on: nodes, fixture) { same.prefix(2).allSatisfy { nodes.1.recorder.states(of: $0) == [.online, .offline] } })
        if isWarming { #expect(nodes.1.recorder.states(of: same[2]) == [.online]) }
    }

    /// Data were lost: who is invisible is one of whom there's nothing, as of one who is gone.
    @Sendable static func lostAndInvisible(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "company-m", known: Name = "company-n"
        nodes.0.apply(.up(.online), user, laptop)
        nodes.0.apply(.up(.invisible), user, laptop, isAsked: true)
        #expect(sweep([user], on: nodes, fixture) { nodes.1.recorder.states(of: user) == [.online, .offline] })
        let before = nodes.1.recorder.changes(of: user)
        guard let floor = before.last?.version else {
            Issue.record("refused")
            return
        }
        let nobody = PresenceChange(user: user, status: .offline, version: 0, lastSeen: 0)
        for kind in [PresenceOperation.Kind.restore(.invisible), .up(.invisible)] {
            fixture.forgetRecord(of: user)
            nodes.0.apply(kind, user, laptop, floor: floor)
            #expect(nodes.1.read([user])?.changes == [nobody])
            #expect(nodes.1.inspect(user)?.change == nobody)
            sweep([user], on: nodes, fixture, turns: 2)
            #expect(nodes.1.recorder.changes(of: user) == before)
        }
        // Shown again, it goes on above all that was told.
        let version = nodes.0.apply(.up(.online), user, laptop, floor: floor, isAsked: true) ?? 0
        #expect(version > floor)
        #expect(fixture.run { nodes.1.recorder.states(of: user) == [.online, .offline, .online] })

        // A record that is behind isn't told anew by somebody whom nobody sees.
        nodes.0.apply(.up(.online), known, laptop)
        nodes.0.apply(.down(grace: .zero), known, laptop, isAsked: true)
        #expect(sweep([known], on: nodes, fixture) { nodes.1.recorder.states(of: known) == [.online, .offline] })
        let last = nodes.1.read([known])?.changes.first
        nodes.1.apply(.up(.invisible), known, tablet, floor: (last?.version ?? 0) + 1_000)
        #expect(nodes.1.read([known])?.changes.first == last)
        sweep([known], on: nodes, fixture, turns: 1)
        #expect(nodes.1.recorder.states(of: known) == [.online, .offline])
    }
}
