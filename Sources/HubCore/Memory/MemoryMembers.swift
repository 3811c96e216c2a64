import HubBase
import HubWire

/// What the members' scripts keep and decide (redis-design §3), in process: one node's in production, several nodes' in tests.
package final class MemoryMembers {
    /// What a node said of its own users in one channel.
    struct Node {
        /// Distant past: others have begun to take it out.
        var deadline = Instant(nanoseconds: 0)
        /// The number of its last call.
        var call: UInt64 = 0
        var users: [Name: UInt32] = [:]
    }

    final class Channel {
        var nodes: [Name: Node] = [:]
        /// What all nodes say together, while they are several: what a single one says is all there is.
        private var sums: [Name: UInt32]?
        var sequence: UInt64
        let begun: UInt64
        var ends: Instant
        /// Nobody is taken for dead before.
        var holdUntil = Instant(nanoseconds: 0)

        init(sequence: UInt64, ends: Instant) {
            self.sequence = sequence
            begun = sequence
            self.ends = ends
        }

        init(_ other: Channel) {
            (nodes, sums, sequence, begun) = (other.nodes, other.sums, other.sequence, other.begun)
            (ends, holdUntil) = (other.ends, other.holdUntil)
        }

        /// The store went back.
        func isBehind(_ known: MembersKnown, of node: Name) -> Bool {
            sequence < known.sequence || nodes[node].map { $0.call < known.call } ?? false
        }

        /// Devices of each user, by what all nodes say.
        var totals: [Name: UInt32] { sums ?? nodes.first?.value.users ?? [:] }
        var isEmpty: Bool { nodes.isEmpty }
        /// Of users.
        var count: Int { sums?.count ?? nodes.first?.value.users.count ?? 0 }

        /// What one node says changes by `body`, in place: `set` is to be called for each user in it. The deadline of a node that says nothing
        /// any more goes with it.
        func change(_ node: Name, _ body: (inout Node) -> Void) {
            if sums == nil, let other = nodes.first, other.key != node { sums = other.value.users }
            var said = nodes.removeValue(forKey: node) ?? Node()
            body(&said)
            if !said.users.isEmpty { nodes[node] = said }
            if nodes.count < 2 { sums = nil }
        }

        /// Within `change`. The user's devices before, and now.
        func set(_ user: Name, to devices: UInt32, of said: inout Node) -> (before: UInt32, now: UInt32) {
            let before = said.users[user] ?? 0
            guard before != devices else { return (0, 0) }
            said.users[user] = devices > 0 ? devices : nil
            guard let total = sums.map({ $0[user] ?? 0 }) else { return (before, devices) }
            let next = total - min(before, total) + devices
            sums?[user] = next > 0 ? next : nil
            return (total, next)
        }
    }

    let timers: PresenceTimers
    private let wallClockAtStart: UInt64
    private let startedAt: Instant
    private let membershipsMax: Int
    private var memberships = 0
    private(set) var channels: [Name: Channel] = [:]
    private var occupied = OccupiedChannels()
    private var remembered: (channels: [Name: Channel], occupied: OccupiedChannels, memberships: Int)?
    private var walk: [Name] = []
    private var patrol: Patrol
    /// Whoever hears what happens in channels.
    private var stores: [() -> MemoryMemberStore?] = []

    /// Told when a channel's first member comes and its last one goes, in the same step as that.
    package var hooks: MemoryHookQueue?

    /// - Parameters:
    ///   - wallClockAtStart: milliseconds since 1970 at `startedAt`.
    ///   - membershipsMax: users in channels; beyond it a newcomer is refused with `storeFull`.
    package init(timers: PresenceTimers, wallClockAtStart: UInt64, startedAt: Instant, membershipsMax: Int = 2_000_000) {
        self.timers = timers
        self.wallClockAtStart = wallClockAtStart
        self.startedAt = startedAt
        self.membershipsMax = membershipsMax
        patrol = Patrol(period: .seconds(60), stepsMax: 256, at: startedAt)
    }

    func add(_ store: MemoryMemberStore) { stores.append { [weak store] in store } }

    // MARK: The scripts

    func change(_ users: [MemberCount], in name: Name, by node: Name, known: MembersKnown, call: UInt64, at now: Instant)
        -> Result<MembersTip, WireError>
    {
        let joins = users.contains { $0.devices > 0 }
        guard !joins || memberships + users.count <= membershipsMax else {
            return .failure(WireError(.storeFull, "the embedded store holds as many members as it may", retryAfter: 2_000))
        }
        guard var channel = channel(name, at: now) ?? (joins ? begin(name, by: node, above: known.sequence, at: now) : nil) else {
            return .success(MembersTip(sequence: 0, begun: 0, occupancy: 0, isNew: true))
        }
        let said = channel.nodes[node]
        var isUnsure = said?.call != known.call
        if let said, said.call > call {
            // A later call was here before this one.
            return .success(
                MembersTip(sequence: channel.sequence, begun: channel.begun, occupancy: UInt64(channel.count), isNew: true))
        }
        if channel.isBehind(known, of: node) || (said != nil && known.call == 0) {
            channel = begin(name, by: node, above: known.sequence, at: now)
            isUnsure = true
        }
        let wasEmpty = channel.isEmpty
        var changes = Changes()
        channel.change(node) { said in
            if joins { said.deadline = now + timers.lease }
            said.call = call
            for count in users { set(count.user, to: count.devices, of: &said, in: channel, &changes) }
        }
        channel.ends = now + MemberLimits.ttl
        tell(changes, of: name, channel, wasEmpty: wasEmpty, at: now)
        return .success(MembersTip(sequence: channel.sequence, begun: channel.begun, occupancy: UInt64(channel.count), isNew: isUnsure))
    }

    func refresh(_ name: Name, by node: Name, as role: MemberRole, known: MembersKnown, at now: Instant) -> MembersLease {
        guard let channel = channel(name, at: now) else {
            return MembersLease(isKnown: role == .observer, sequence: 0, begun: 0, occupancy: 0, othersEnd: nil, dead: [])
        }
        if channel.isBehind(known, of: node) {
            let anew = begin(name, by: node, above: known.sequence, at: now)
            return MembersLease(isKnown: false, sequence: anew.sequence, begun: anew.begun, occupancy: 0, othersEnd: nil, dead: [])
        }
        channel.ends = now + MemberLimits.ttl
        if role != .observer {
            guard let said = channel.nodes[node], said.deadline > Instant(nanoseconds: 0) else {
                return lease(of: channel, name, isKnown: false, besides: node, at: now)
            }
            // Who comes late itself can't tell who else only was cut off.
            if said.deadline <= now { channel.holdUntil = now + timers.hold }
            let own = timers.lease(as: role)
            channel.nodes[node]?.deadline = now + own
            // Whoever's ends first is looked after, also when nobody else has a reason to: so too the dead, if this node doesn't come to it.
            let first = channel.nodes.values.map { $0.deadline > now ? $0.deadline : now + timers.gapMax }.min()
            _ = occupied.insert(name, until: first ?? now + own)
        }
        return lease(of: channel, name, isKnown: true, besides: node, at: now)
    }

    /// Until when nobody may be taken for dead in the channel; nil: the dead are dead.
    private func blindUntil(_ channel: Channel, _ name: Name, at now: Instant) -> Instant? {
        let swept = occupied.blindUntil(of: Partition.of(name), timers: timers, at: now)
        let held = now < channel.holdUntil ? channel.holdUntil : nil
        return swept.map { max($0, held ?? $0) } ?? held
    }

    private func lease(of channel: Channel, _ name: Name, isKnown: Bool, besides node: Name, at now: Instant) -> MembersLease {
        let others = channel.nodes.filter { $0.key != node }
        var dead = others.filter { $0.value.deadline <= now }.map(\.key).sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
        var next = others.values.map(\.deadline).filter { $0 > now }.min()
        if !dead.isEmpty, let end = blindUntil(channel, name, at: now) {
            dead = []
            next = min(next ?? end, end)
        }
        return MembersLease(
            isKnown: isKnown, sequence: channel.sequence, begun: channel.begun, occupancy: UInt64(channel.count),
            othersEnd: next.map { $0.since(now) },
            dead: Array(dead.prefix(10)))
    }

    func reap(_ node: Name, in name: Name, at now: Instant) -> Int {
        guard let channel = channel(name, at: now), let said = channel.nodes[node], said.deadline <= now,
            blindUntil(channel, name, at: now) == nil
        else { return 0 }
        let wasEmpty = channel.isEmpty
        var changes = Changes()
        channel.change(node) { gone in
            for user in said.users.keys { set(user, to: 0, of: &gone, in: channel, &changes) }
        }
        tell(changes, of: name, channel, wasEmpty: wasEmpty, at: now)
        return changes.left.count
    }

    /// Channels that nobody was heard of in: the dead are taken out, and where nobody is left that's told.
    func sweep(_ partition: Int, at now: Instant) -> MembersSwept {
        var swept = MembersSwept()
        for name in occupied.takeDue(of: partition, timers: timers, limit: 200, at: now) {
            guard let channel = channel(name, at: now), !channel.isEmpty else {
                // What the nodes said has ended, and nobody has said it again.
                vacated(name, version: (channels[name]?.sequence ?? milliseconds(at: now) + timers.sequenceStep) + 1, at: now)
                swept.channels += 1
                continue
            }
            let dead = now < channel.holdUntil ? [] : channel.nodes.filter { $0.value.deadline <= now }.map(\.key)
            guard !dead.isEmpty else {
                let next = channel.nodes.values.map(\.deadline).filter { $0 > now }.min()
                occupied.move(name, to: next ?? max(channel.holdUntil, now))
                continue
            }
            swept.channels += 1
            for node in dead { swept.users += reap(node, in: name, at: now) }
            // The next one that may be dead is looked for in time.
            let next = channel.nodes.values.map(\.deadline).filter { $0 > now }.min()
            if let next { occupied.move(name, to: min(next, now + timers.gapMax)) }
        }
        return swept
    }

    func list(_ name: Name, cursor: String, limit: Int, whole: Int, at now: Instant) -> MembersList {
        guard let channel = channel(name, at: now) else {
            return MembersList(members: [], sequence: 0, begun: 0, occupancy: 0, cursor: nil)
        }
        var page = MembersList(
            members: [], sequence: channel.sequence, begun: channel.begun, occupancy: UInt64(channel.count), cursor: nil)
        if cursor == "0" && channel.count <= whole {
            page.members = channel.totals.map { MemberEntry(user: $0.key, devices: $0.value) }
            return page
        }
        // In the order of their hashes, so that a page begins at the same place whoever came or went before it.
        let from = UInt64(cursor) ?? 0
        let behind = channel.totals.map { (hash: FNV1a.hash($0.key.bytes), entry: MemberEntry(user: $0.key, devices: $0.value)) }
            .filter { $0.hash >= from }.sorted { $0.hash < $1.hash }
        var taken = min(limit, behind.count)
        while taken > 0, taken < behind.count, behind[taken].hash == behind[taken - 1].hash { taken += 1 }
        page.members = behind.prefix(taken).map(\.entry)
        if taken < behind.count { page.cursor = "\(max(behind[taken].hash, 1))" }
        return page
    }

    // MARK: Faults

    /// Everything is gone, as after a restart of Redis without data.
    func loseAllData() {
        channels = [:]
        occupied = OccupiedChannels()
        memberships = 0
    }

    func remember() { remembered = (channels.mapValues { Channel($0) }, occupied, memberships) }

    func goBack() {
        guard let remembered else { return }
        (channels, occupied, memberships) = (remembered.channels.mapValues { Channel($0) }, remembered.occupied, remembered.memberships)
    }

    // MARK: Rules

    private struct Changes {
        var joined: [MemberCount] = []
        var left: [MemberCount] = []
        var updated: [MemberCount] = []
    }

    private func set(_ user: Name, to devices: UInt32, of said: inout Node, in channel: Channel, _ changes: inout Changes) {
        let (total, next) = channel.set(user, to: devices, of: &said)
        if total == 0 && next > 0 {
            memberships += 1
            changes.joined.append(MemberCount(user: user, devices: next))
        } else if total > 0 && next == 0 {
            memberships -= 1
            changes.left.append(MemberCount(user: user, devices: 0))
        } else if total != next {
            changes.updated.append(MemberCount(user: user, devices: next))
        }
    }

    private func tell(_ changes: Changes, of name: Name, _ channel: Channel, wasEmpty: Bool, at now: Instant) {
        if wasEmpty != channel.isEmpty {
            if !wasEmpty {
                vacated(name, version: channel.sequence + 1, at: now)
            } else if occupied.insert(name, until: now + timers.lease) {
                // Otherwise backends know of it: the channel only began anew.
                hooks?.append(
                    .channelOccupied, name, version: channel.sequence + 1, time: milliseconds(at: now),
                    occupancy: UInt64(channel.count), partition: Partition.of(name), at: now)
            }
        }
        for (kind, users) in [(MembersNews.Kind.joined, changes.joined), (.left, changes.left), (.updated, changes.updated)] {
            var rest = users[...]
            while !rest.isEmpty {
                channel.sequence += 1
                let news = MembersNews(
                    kind: kind, sequence: channel.sequence, occupancy: UInt64(channel.count),
                    users: Array(rest.prefix(MemberLimits.reaped)))
                hand(news, to: name)
                rest = rest.dropFirst(MemberLimits.reaped)
            }
        }
    }

    private func vacated(_ name: Name, version: UInt64, at now: Instant) {
        occupied.remove(name)
        hooks?.append(.channelVacated, name, version: version, time: milliseconds(at: now), partition: Partition.of(name), at: now)
    }

    private func milliseconds(at now: Instant) -> UInt64 { wallClockAtStart + now.since(startedAt).milliseconds }

    private func hand(_ news: MembersNews, to channel: Name) {
        for store in stores { store()?.hear(news, channel) }
    }

    private func channel(_ name: Name, at now: Instant) -> Channel? {
        guard let channel = channels[name] else { return nil }
        if channel.ends > now { return channel }
        forget(name)
        return nil
    }

    private func begin(_ name: Name, by node: Name, above known: UInt64, at now: Instant) -> Channel {
        // What clients are told says no more of the time than last seen does.
        let moment = milliseconds(at: now)
        let start = moment - moment % timers.sequenceStep + UInt64.random(in: 0..<timers.sequenceStep)
        let sequence = max(start, known + 1, (channels[name]?.sequence ?? 0) + 1)
        forget(name)
        // If nobody says so again, a sweep finds it.
        occupied.move(name, to: now + timers.lease)
        let channel = Channel(sequence: sequence, ends: now + MemberLimits.ttl)
        channels[name] = channel
        hand(MembersNews(kind: .rejoin(by: node), sequence: channel.sequence, occupancy: 0), to: name)
        return channel
    }

    private func forget(_ name: Name) {
        memberships -= channels.removeValue(forKey: name)?.count ?? 0
    }

    /// Lets channels go whose time is over, a few in each call.
    func advance(at now: Instant) {
        for _ in 0..<patrol.steps(over: max(channels.count, 1), at: now) {
            if walk.isEmpty { walk = Array(channels.keys) }
            guard let name = walk.popLast() else { return }
            _ = channel(name, at: now)
        }
    }
}
