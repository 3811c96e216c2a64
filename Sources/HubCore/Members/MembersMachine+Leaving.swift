import HubBase
import HubWire

// A node that's stopped in order: who doesn't come back within the grace has left, as of users.
extension MembersMachine {
    /// A node that stops: its connections are closed, and those who were lost in it are awaited.
    struct Departure {
        /// Until then the last ones are awaited.
        var until: Instant
        /// Channels whose lease is to be cut yet.
        var channels: [Name]
        /// Those that were asked and refused: again, once all others were asked.
        var refused: [Name] = []
        /// Calls that cut one and aren't answered.
        var underWay = 0
        /// After a refusal.
        var pausedUntil = Instant(nanoseconds: 0)

        /// Once all were asked, those who were refused.
        mutating func askAgain() { if channels.isEmpty { swap(&channels, &refused) } }
    }

    /// Channels told of in one tick: many thousands at once would hold up others' calls.
    static let departuresPerTick = 500
    /// So many calls wait for answers at most: a link that stood still takes them all with room to spare for others'.
    package static let departuresUnderWay = 2_000
    /// What was refused is tried again after it: there's little time left.
    package static let departurePause = Span.milliseconds(100)
    /// What a cut lease has left at least: a call that's under way isn't late for it.
    static let departureMin = Span.seconds(1)

    /// All connections are closed, and the node is about to stop: what it said of its members ends with their grace instead of its lease.
    /// Nothing comes back from it.
    package func leave(at now: Instant) {
        guard departure == nil else { return }
        departure = Departure(until: now + timers.grace, channels: channels.values.filter(\.hasMembers).map(\.name))
    }

    package var isLeaving: Bool { departure != nil }

    /// True once the store has all of it.
    package var hasLeft: Bool {
        guard let departure else { return false }
        return departure.channels.isEmpty && departure.refused.isEmpty && requests.isEmpty && channels.values.allSatisfy(\.dirty.isEmpty)
    }

    /// Within a tick. Also where a part of the store is away: the others have their channels.
    func depart(at now: Instant) {
        // (Never with a copy of the lists, which may be long.)
        guard let underWay = departure?.underWay, let pausedUntil = departure?.pausedUntil else { return }
        if pausedUntil <= now { departure?.askAgain() }
        for _ in 0..<min(max(0, MembersMachine.departuresUnderWay - underWay), MembersMachine.departuresPerTick) {
            guard let name = departure?.channels.popLast() else { return }
            guard let channel = channels[name] else { continue }
            let calls = actions.count
            send(channel, at: now)
            if actions.count == calls { refresh(channel, at: now) }
        }
    }

    /// A lease wasn't cut, or it isn't known: until it is, the node hasn't left.
    func notCut(_ channel: MemberChannel, _ error: WireError, at now: Instant) {
        departure?.underWay -= 1
        guard error.mayRetry, !channel.isGone else { return }
        departure?.pausedUntil = now + MembersMachine.departurePause
        departure?.refused.append(channel.name)
    }

    /// As what the node is in the channel.
    func role(in channel: MemberChannel, at now: Instant) -> MemberRole {
        guard channel.hasMembers else { return .observer }
        guard let departure else { return .host }
        return .leaving(within: max(departure.until > now ? departure.until.since(now) : .zero, MembersMachine.departureMin))
    }
}
