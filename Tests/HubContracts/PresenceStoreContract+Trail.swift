import HubBase
import HubCore
import HubWire
import Testing

// Why a user's state is what it is: the trail of transitions, and what inspect says of a grace.
extension PresenceStoreContract {
    @Sendable static func trail(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "trail-1", connection: Name = "aaaaaaaaaaaa-1"
        var versions: [UInt64?] = []
        versions.append(nodes.0.apply(.up(.online), user, connection))
        versions.append(nodes.0.apply(.up(.away), user, connection))
        versions.append(nodes.0.apply(.up(.online), user, connection))
        versions.append(nodes.0.apply(.up(.away), user, connection, isAsked: true))
        versions.append(nodes.0.apply(.up(.online), user, connection, isAsked: true))
        versions.append(nodes.0.apply(.up(.invisible), user, connection, isAsked: true))
        // A second device that changes nothing leaves no trace.
        nodes.1.apply(.up(.invisible), user, "bbbbbbbbbbbb-1")
        versions.append(nodes.0.apply(.up(.online), user, connection, isAsked: true))
        guard let transitions = nodes.1.inspect(user)?.transitions else {
            Issue.record("refused")
            return
        }
        #expect(transitions.map(\.cause) == [.connected, .idle, .active, .setAway, .setOnline, .setInvisible, .setOnline])
        #expect(transitions.map(\.status) == [.online, .away, .online, .away, .online, .offline, .online])
        #expect(transitions.map { Optional($0.version) } == versions)
        #expect(transitions.allSatisfy { $0.connection == connection && $0.device == "phone" && $0.node == nodes.0.incarnation })
        #expect(transitions.allSatisfy { $0.sweeper == .empty && $0.time == $0.version / 1_000 })
    }

    @Sendable static func trailOfEnds(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "trail-2"
        nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1")
        nodes.0.apply(.down(grace: .milliseconds(400)), user, "aaaaaaaaaaaa-1")
        let inGrace = nodes.1.inspect(user)
        #expect(inGrace?.close?.cause == .lost)
        #expect(inGrace?.close?.connection == "aaaaaaaaaaaa-1")
        #expect(inGrace?.close?.device == "phone")
        if let inGrace, let close = inGrace.close { #expect(close.time <= inGrace.now && close.time + 400 >= inGrace.now) }
        #expect(sweep([user], on: nodes, fixture) { nodes.1.recorder.states(of: user) == [.online, .offline] })
        nodes.1.apply(.up(.online), user, "bbbbbbbbbbbb-1")
        nodes.1.apply(.down(grace: .zero), user, "bbbbbbbbbbbb-1", isAsked: true)
        #expect(sweep([user], on: nodes, fixture) { nodes.1.recorder.states(of: user).count == 4 })
        nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-2")
        #expect(sweep([user], on: nodes, fixture) { nodes.1.recorder.states(of: user).count == 6 })
        let transitions = nodes.0.inspect(user)?.transitions ?? []
        #expect(transitions.map(\.cause) == [.connected, .lost, .connected, .left, .connected, .expired])
        #expect(transitions.map(\.connection).last == "aaaaaaaaaaaa-2")
        #expect(["north", "south"].contains(transitions.last?.sweeper))
        #expect(["north", "south"].contains(transitions[1].sweeper))
        #expect(nodes.0.inspect(user)?.close == nil)
        #expect(transitions.map(\.version) == nodes.1.recorder.changes(of: user).map(\.version))
    }

    @Sendable static func trailOfRestoring(_ fixture: any PresenceStoreFixture) {
        let nodes = PresenceNode.pair(fixture)
        let user: Name = "trail-3"
        nodes.0.apply(.up(.online), user, "aaaaaaaaaaaa-1")
        #expect(sweep([user], on: nodes, fixture) { nodes.1.recorder.states(of: user).count == 2 })
        nodes.0.apply(.restore(.online), user, "aaaaaaaaaaaa-1")
        #expect(nodes.0.inspect(user)?.transitions.map(\.cause) == [.connected, .expired, .heartbeat])
        fixture.forgetRecord(of: user)
        nodes.0.apply(.restore(.online), user, "aaaaaaaaaaaa-1")
        #expect(nodes.0.inspect(user)?.transitions.last?.cause == .restored)
    }

    @Sendable static func trailIsBounded(_ fixture: any PresenceStoreFixture) {
        let one = PresenceNode.pair(fixture).0
        let user: Name = "trail-4"
        var last: UInt64?
        for turn in 0..<141 { last = one.apply(.up(turn % 2 == 0 ? .online : .away), user, "aaaaaaaaaaaa-1") }
        let transitions = one.inspect(user)?.transitions ?? []
        #expect(transitions.count == PresenceTransition.kept)
        #expect(transitions.last?.version == last)
        for (before, after) in zip(transitions, transitions.dropFirst()) { #expect(before.version < after.version) }
        #expect(one.inspect(user, explains: false)?.transitions == [])
        #expect(one.inspect("trail-nobody")?.transitions == [])
    }

    @Sendable static func trailOfAnyNames(_ fixture: any PresenceStoreFixture) {
        let one = PresenceNode.pair(fixture).0
        let devices = ["a:b", "3:abc", "|;{}", "caf\u{E9} \u{1F4F1}", "0:", " ", String(repeating: "9", count: 64)]
        for (number, text) in devices.enumerated() {
            let user = Name(trusted: [UInt8]("trail|5:\(number);".utf8)), device = Name(trusted: [UInt8](text.utf8))
            one.apply(.up(.online), user, "aaaaaaaaaaaa-1", device: device)
            one.apply(.down(grace: .seconds(1)), user, "aaaaaaaaaaaa-1")
            let record = one.inspect(user)
            #expect(record?.transitions.map(\.device) == [device])
            #expect(record?.close?.device == device)
        }
    }
}
