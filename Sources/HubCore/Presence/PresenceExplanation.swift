import HubBase
import HubWire

/// Everything that can be said of a user's state, and why it is what it is: for operators, who see what others may not (invisible
/// connections, addresses).
package struct PresenceExplanation: Sendable {
    package var record: PresenceRecord
    /// One for each connection of the record.
    package var answers: [ConnectionAnswer]
    /// The incarnations of the nodes that announce themselves.
    package var living: [Name]
    package var timers: PresenceTimers

    package init(record: PresenceRecord, answers: [ConnectionAnswer], living: [Name], timers: PresenceTimers) {
        self.record = record
        self.answers = answers
        self.living = living
        self.timers = timers
    }

    /// One sentence for people.
    package var because: String {
        let status = record.change.status
        let living = record.connections.indices.filter { record.connections[$0].leaseLeft > 0 }
        let live = living.filter { record.connections[$0].state != .invisible }
        let hidden = living.count - live.count
        if status == .offline { return offline(hidden: hidden) }
        let besides =
            hidden == 0 ? "" : "; \(hidden) more \(hidden == 1 ? "is invisible and counts" : "are invisible and count") for nobody"
        guard let place = decisive(of: live) else {
            if let left = record.awaitedLeft { return awaited(left) + besides }
            return inGrace("\(status.name)") + besides
        }
        var text = "\(status.name) because"
        if live.count > 1 {
            text += status == .away ? " all of its \(live.count) connections are away: " : ", of its \(live.count) connections, "
        }
        if live.count <= 1 { text += " " }
        text += Self.spell(record.connections[place]) + stateText(place)
        return text + " " + proof(of: place) + besides
    }

    /// The connection that makes the state: of those whose state it is, the one whose lease holds longest.
    private func decisive(of live: [Int]) -> Int? {
        let wanted: ConnectionState = record.change.status == .online ? .online : .away
        return live.filter { record.connections[$0].state == wanted }.max {
            record.connections[$0].leaseLeft < record.connections[$1].leaseLeft
        }
    }

    private func stateText(_ place: Int) -> String {
        if record.connections[place].state == .online { return " is connected" }
        let last = record.transitions.last
        guard last?.status == .away, last?.connection == record.connections[place].connection else { return " is away" }
        switch last?.cause {
        case .setAway: return " asked to be away"
        case .idle: return " did nothing for \(timers.awayAfter)"
        default: return " is away"
        }
    }

    private func proof(of place: Int) -> String {
        let left = Self.spell(milliseconds: record.connections[place].leaseLeft)
        switch answers.indices.contains(place) ? answers[place] : .notAsked {
        case .facts(let facts):
            return "and was heard \(Self.spell(milliseconds: facts.heardAgo)) ago; its lease ends in \(left) unless it's renewed"
        case .notAsked: return "and its lease holds for \(left)"
        case .gone: return "by its lease, which holds for \(left); but its node has no such connection, so it won't be renewed"
        case .nodeGone: return "by its lease, which holds for \(left); but its node has ended, so it won't be renewed"
        case .noAnswer: return "by its lease, which holds for \(left); its node didn't say in time when it was heard last"
        }
    }

    private func inGrace(_ status: String) -> String {
        guard let graceLeft = record.graceLeft else { return "\(status) by its record alone: no connection is known" }
        let left = "goes offline in \(Self.spell(milliseconds: graceLeft)) unless it comes back"
        guard let close = record.close else { return "\(status) still: its last connection has ended, and it \(left)" }
        return "\(status) still: its last connection (\(Self.spell(close))) \(Self.ended(close.cause)) \(ago(close.time)), and it \(left)"
    }

    private func awaited(_ left: UInt64) -> String {
        let close = record.close.map { " (\(Self.spell($0))) \(Self.ended($0.cause)) \(ago($0.time))" } ?? " ended"
        return
            "online still: a connection that was online\(close), and the user is away, as the rest is, in \(Self.spell(milliseconds: left)) unless it comes back"
    }

    private func offline(hidden: Int) -> String {
        if let ended = record.connections.last(where: { $0.state != .invisible }) {
            return "offline because its last lease (\(Self.spell(ended))) ran out; the next sweep tells the watchers"
        }
        if record.graceLeft == 0 {
            var why = "the time to come back is over"
            if let close = record.close, close.cause == .left || close.cause == .setInvisible {
                why = "its last connection (\(Self.spell(close))) \(Self.ended(close.cause))"
            }
            return "offline because \(why); the next sweep tells the watchers"
        }
        if hidden > 0 { return "offline to others because all of its connections (\(hidden)) are invisible" }
        guard record.change.version > 0 else {
            return
                "offline: no user of this id was seen, or longer ago than last seen is remembered (\(Self.spell(milliseconds: timers.tombstoneTTL.milliseconds)))"
        }
        guard let last = record.transitions.last, last.status == .offline else {
            return "offline since \(moment(record.change.lastSeen)): the transition that led to it isn't kept any more"
        }
        return "offline since \(moment(last.time)): " + reason(last)
    }

    private func reason(_ last: PresenceTransition) -> String {
        let sweeper = last.sweeper.isEmpty ? "" : "; swept by \(last.sweeper)"
        let what = last.device.isEmpty && last.node.isEmpty ? "its last connection" : "its last connection (\(Self.spell(last)))"
        let node = last.node.isEmpty ? "its node" : "\(last.node)"
        switch last.cause {
        case .left:
            // Told late, or while another could still come back.
            return what + " said goodbye" + (last.sweeper.isEmpty ? "" : " at \(moment(record.change.lastSeen))") + sweeper
        case .setInvisible: return Self.spell(last) + " asked to be invisible" + sweeper
        case .lost:
            let waited = ", last heard at \(moment(record.change.lastSeen)), and no other came in the time of grace"
            return what + " ended without a goodbye" + (last.sweeper.isEmpty ? "" : waited) + sweeper
        case .nodeDead: return what + " was lost: node \(node) died, so that nobody renewed its lease" + sweeper
        case .expired:
            let lives = PresenceExplanation.incarnation(of: last.connection).map { living.contains($0) } ?? false
            let why =
                lives
                ? "node \(node) didn't renew it, as when it died just now, was paused or cut off"
                : "node \(node) doesn't announce itself any more"
            return "the lease of " + what + " ran out: " + why + sweeper
        case .connected, .setOnline, .setAway, .idle, .active, .heartbeat, .restored:
            return "no connection of it counts any more (\(last.cause.name))" + sweeper
        }
    }

    // MARK: Words

    private static func incarnation(of connection: Name) -> Name? {
        guard let dash = connection.bytes.firstIndex(of: UInt8(ascii: "-")) else { return nil }
        return Name(validating: Array(connection.bytes[..<dash]))
    }

    /// What stands in front of how long ago that was.
    private static func ended(_ cause: PresenceCause) -> String {
        switch cause {
        case .left: "said goodbye"
        case .setInvisible: "asked to be invisible"
        default: "ended without a goodbye, last heard"
        }
    }

    private static func spell(_ connection: PresenceRecord.Connection) -> String { "\(connection.device) on \(connection.node)" }
    private static func spell(_ transition: PresenceTransition) -> String { "\(transition.device) on \(transition.node)" }

    private func ago(_ time: UInt64) -> String { Self.spell(milliseconds: record.now > time ? record.now - time : 0) + " ago" }

    /// "12:03:04 UTC (4 min ago)"
    private func moment(_ time: UInt64) -> String {
        func two(_ value: UInt64) -> String { value < 10 ? "0\(value)" : "\(value)" }
        let seconds = time / 1_000 % 86_400
        return "\(two(seconds / 3_600)):\(two(seconds / 60 % 60)):\(two(seconds % 60)) UTC (\(ago(time)))"
    }

    private static func spell(milliseconds: UInt64) -> String {
        let seconds = milliseconds / 1_000
        if seconds < 1 { return "\(milliseconds) ms" }
        if seconds < 120 { return "\(seconds) s" }
        if seconds < 7_200 { return "\(seconds / 60) min" }
        return seconds < 48 * 3_600 ? "\(seconds / 3_600) h" : "\(seconds / 86_400) d"
    }
}
