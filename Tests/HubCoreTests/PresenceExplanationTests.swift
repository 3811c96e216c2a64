import HubBase
import HubCore
import HubWire
import Testing

@Suite("why a user's state is what it is, in one sentence")
struct PresenceExplanationTests {
    private static let now: UInt64 = 1_796_011_200_000

    private static func connection(
        _ state: ConnectionState, device: Name = "phone", node: Name = "hub2", left: UInt64 = 71_000, id: Name = "bbbb-1"
    ) -> PresenceRecord.Connection {
        PresenceRecord.Connection(connection: id, node: node, device: device, state: state, since: now - 60_000, leaseLeft: left)
    }

    private static func transition(
        _ status: PresenceStatus, _ cause: PresenceCause, sweeper: Name = "", id: Name = "bbbb-1", ago: UInt64 = 4_000
    ) -> PresenceTransition {
        PresenceTransition(
            status: status, cause: cause, version: 9, time: now - ago, sweeper: sweeper, connection: id, node: "hub1", device: "phone")
    }

    private static func because(
        _ status: PresenceStatus, _ connections: [PresenceRecord.Connection] = [], answers: [ConnectionAnswer] = [],
        transitions: [PresenceTransition] = [], grace: UInt64? = nil, close: PresenceTransition? = nil, version: UInt64 = 9,
        living: [Name] = []
    ) -> String {
        var record = PresenceRecord(
            change: PresenceChange(user: "alice", status: status, version: version, lastSeen: now - 14_000), connections: connections,
            graceLeft: grace, now: now)
        record.transitions = transitions
        record.close = close
        return PresenceExplanation(record: record, answers: answers, living: living, timers: PresenceTimers()).because
    }

    private static let heard = ConnectionAnswer.facts(ConnectionFacts(address: [], heardAgo: 3_000))

    @Test("online: the connection that makes it so, when it was heard, and what is left of its lease")
    func online() {
        #expect(
            Self.because(.online, [Self.connection(.online)], answers: [Self.heard])
                == "online because phone on hub2 is connected and was heard 3 s ago; its lease ends in 71 s unless it's renewed")
        #expect(
            Self.because(.online, [Self.connection(.away), Self.connection(.online, device: "tablet")], answers: [Self.heard, .nodeGone])
                == "online because, of its 2 connections, tablet on hub2 is connected by its lease, which holds for 71 s; "
                + "but its node has ended, so it won't be renewed")
        #expect(Self.because(.online, [Self.connection(.online)], answers: [.gone]).contains("its node has no such connection"))
        #expect(Self.because(.online, [Self.connection(.online)], answers: [.noAnswer]).contains("didn't say in time"))
    }

    @Test("away: by wish, or by idleness")
    func away() {
        let one = [Self.connection(.away)]
        #expect(
            Self.because(.away, one, answers: [Self.heard], transitions: [Self.transition(.away, .setAway)]).contains("asked to be away"))
        #expect(
            Self.because(.away, one, answers: [Self.heard], transitions: [Self.transition(.away, .idle)]).contains("did nothing for 300s"))
        #expect(Self.because(.away, one + one, answers: [Self.heard, Self.heard]).contains("all of its 2 connections are away"))
    }

    @Test("awaited: what ended beside a device that is away, and until when that isn't told")
    func awaited() {
        var record = PresenceRecord(
            change: PresenceChange(user: "alice", status: .online, version: 9, lastSeen: Self.now), connections: [Self.connection(.away)],
            graceLeft: nil, now: Self.now)
        record.awaitedLeft = 7_000
        record.close = Self.transition(.away, .lost, ago: 3_000)
        #expect(
            PresenceExplanation(record: record, answers: [], living: [], timers: PresenceTimers()).because
                == "online still: a connection that was online (phone on hub1) ended without a goodbye, last heard 3 s ago, "
                + "and the user is away, as the rest is, in 7 s unless it comes back")
        record.close = Self.transition(.away, .left, ago: 3_000)
        let late = PresenceExplanation(record: record, answers: [], living: [], timers: PresenceTimers()).because
        #expect(late.hasPrefix("online still: a connection that was online (phone on hub1) said goodbye 3 s ago, and the user is away"))
    }

    @Test("invisible connections are named apart: they count for nobody, issue 5 point 6")
    func invisibleBesides() {
        let text = Self.because(
            .away, [Self.connection(.away), Self.connection(.invisible, device: "laptop")], answers: [Self.heard, Self.heard])
        #expect(text.hasPrefix("away because phone on hub2 is away and was heard 3 s ago"))
        #expect(text.hasSuffix("; 1 more is invisible and counts for nobody"))
        let two = [Self.connection(.away), Self.connection(.away)]
        #expect(
            Self.because(.away, two + [Self.connection(.invisible), Self.connection(.invisible)])
                .contains("all of its 2 connections are away"))
        let grace = Self.because(.online, [Self.connection(.invisible)], grace: 7_000, close: Self.transition(.offline, .lost))
        #expect(grace.contains("goes offline in 7 s") && grace.hasSuffix("1 more is invisible and counts for nobody"))
        // Whose lease that counts ran out, the invisible one doesn't hide.
        let ended = [Self.connection(.online, left: 0), Self.connection(.invisible)]
        #expect(Self.because(.offline, ended).contains("ran out; the next sweep tells"))
        // Nor is an invisible one that ran out anything that watchers are told of.
        #expect(Self.because(.offline, [Self.connection(.invisible, left: 0)], version: 0).contains("no user of this id was seen"))
        #expect(Self.because(.offline, [Self.connection(.invisible)], version: 0).contains("all of its connections (1) are invisible"))
    }

    @Test("in grace: what ended, and how long there is to come back")
    func grace() {
        #expect(
            Self.because(.online, grace: 7_000, close: Self.transition(.offline, .lost, ago: 3_000))
                == "online still: its last connection (phone on hub1) ended without a goodbye, last heard 3 s ago, "
                + "and it goes offline in 7 s unless it comes back")
        #expect(
            Self.because(.online, grace: 7_000, close: Self.transition(.offline, .left, ago: 30_000))
                == "online still: its last connection (phone on hub1) said goodbye 30 s ago, "
                + "and it goes offline in 7 s unless it comes back")
        // What waits for the next sweep only.
        #expect(
            Self.because(.offline, [Self.connection(.invisible)], grace: 0, close: Self.transition(.offline, .setInvisible))
                == "offline because its last connection (phone on hub1) asked to be invisible; the next sweep tells the watchers")
        #expect(Self.because(.offline, grace: 0, close: Self.transition(.offline, .lost)).contains("the time to come back is over"))
    }

    @Test("offline: a goodbye, a loss, a dead node, a lease that ran out")
    func offline() {
        func offline(_ cause: PresenceCause, sweeper: Name = "hub2", living: [Name] = []) -> String {
            Self.because(.offline, transitions: [Self.transition(.offline, cause, sweeper: sweeper)], living: living)
        }
        #expect(offline(.left, sweeper: "").hasSuffix("UTC (4 s ago): its last connection (phone on hub1) said goodbye"))
        // While Redis was away, or while another could still come back.
        #expect(offline(.left).contains("its last connection (phone on hub1) said goodbye at "))
        #expect(offline(.left).hasSuffix(" ago); swept by hub2"))
        #expect(offline(.lost).contains("ended without a goodbye, last heard at"))
        #expect(offline(.lost).hasSuffix("no other came in the time of grace; swept by hub2"))
        #expect(offline(.nodeDead).hasSuffix("node hub1 died, so that nobody renewed its lease; swept by hub2"))
        #expect(offline(.expired).hasSuffix("node hub1 doesn't announce itself any more; swept by hub2"))
        #expect(
            offline(.expired, living: ["bbbb"]).hasSuffix(
                "node hub1 didn't renew it, as when it died just now, was paused or cut off; swept by hub2"))
        #expect(Self.because(.offline, [Self.connection(.invisible)]).contains("are invisible"))
        #expect(Self.because(.offline, [Self.connection(.online, left: 0)]).contains("ran out; the next sweep tells"))
        #expect(Self.because(.offline, version: 0).contains("no user of this id was seen"))
        #expect(Self.because(.offline).contains("isn't kept any more"))
    }

    @Test("every cause has a sentence, whatever the state", arguments: PresenceCause.allCases)
    func causes(_ cause: PresenceCause) {
        for status in [PresenceStatus.online, .away, .offline] {
            for answer in [Self.heard, .gone, .nodeGone, .noAnswer, .notAsked] {
                for connections in [[], [Self.connection(.online)], [Self.connection(.away, left: 0)]] {
                    let text = Self.because(
                        status, connections, answers: connections.map { _ in answer }, transitions: [Self.transition(status, cause)])
                    #expect(text.hasPrefix("\(status.name)"))
                }
            }
        }
    }
}
