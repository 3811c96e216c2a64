import Foundation
import HubBase
import HubCore
import HubWire
import Testing

/// Several nodes' machines on one store, clients that follow, and everything that can go wrong, against an obvious twin: who is connected.
private final class MembersWorld {
    static let timers: PresenceTimers = {
        var timers = PresenceTimers()
        timers.heartbeat = .milliseconds(800)
        timers.lease = .milliseconds(2_400)
        timers.gapMax = .milliseconds(1_400)
        timers.hold = .seconds(4)
        timers.grace = .milliseconds(400)
        return timers
    }()

    final class Node: MemberStoreDelegate {
        let incarnation: Name
        let machine: MembersMachine
        let store: MemoryMemberStore
        unowned let world: MembersWorld
        var connections: [UInt64: (user: Name, device: Name, isVisible: Bool, channels: Set<Name>)] = [:]
        var followers: [Name: Follower] = [:]
        var pausedUntil = Instant(nanoseconds: 0)
        var downUntil: Instant?
        /// Calls on their way to the store, and answers on their way back, each in order. News has a way of its own.
        private var calls = Queue<(at: Instant, madeAt: Instant, call: MembersAction)>()
        private var answers = Queue<(at: Instant, answer: () -> Void)>()
        /// Calls and answers arrive from then on, all of them.
        var stalledUntil = Instant(nanoseconds: 0)

        init(_ incarnation: Name, _ world: MembersWorld, seed: UInt64) {
            self.incarnation = incarnation
            self.world = world
            machine = MembersMachine(timers: MembersWorld.timers, node: incarnation, tagSpace: 77, chance: Chance(seed: seed))
            var options = HistoryOptions()
            options.members.threshold = world.threshold
            machine.setNamespaces(["": options])
            // Sweeps are as rare as they may be, which costs time enough.
            machine.nodesLive = 4
            store = MemoryMemberStore(world.members, node: incarnation)
            store.delegate = self
            store.start(at: world.now)
        }

        func membersChanged(_ result: Result<MembersTip, WireError>, tag: RequestTag) {
            later { [self] in machine.changed(result, tag: tag, at: world.now) }
        }
        func membersRefreshed(_ result: Result<MembersLease, WireError>, tag: RequestTag) {
            later { [self] in machine.refreshed(result, tag: tag, at: world.now) }
        }
        func membersReaped(_ result: Result<Int, WireError>, tag: RequestTag) {
            later { [self] in machine.reaped(result, tag: tag, at: world.now) }
        }
        func membersSwept(_ result: Result<MembersSwept, WireError>, partition: Int, tag: RequestTag) {
            later { [self] in machine.swept(result, tag: tag, at: world.now) }
        }
        func membersListed(_ result: Result<MembersList, WireError>, tag: RequestTag) {
            later { [self] in machine.listed(result, tag: tag, at: world.now) }
        }
        func heard(_ news: MembersNews, channel: Name) { machine.heard(news, channel: channel, at: world.now) }
        func memberStoreHealth(_ health: BackendHealth) { machine.storeHealth(health, at: world.now) }

        func step() {
            guard world.now >= pausedUntil else { return }
            if let until = downUntil, until <= world.now {
                downUntil = nil
                store.setHealth(.up)
            }
            machine.storeSilence(world.isSilent, at: world.now)
            machine.tick(at: world.now)
            takeActions()
            // What was on its way when the store stood still waits too.
            while world.now >= world.standsUntil, let next = calls.first, next.at <= world.now {
                _ = calls.popFirst()
                carryOut(next.call, madeAt: next.madeAt)
            }
            store.advance(at: world.now)
            while let next = answers.first, next.at <= world.now {
                _ = answers.popFirst()
                next.answer()
            }
            takeActions()
        }

        private func takeActions() {
            for action in machine.takeActions() {
                switch action {
                case .followed(let pages, let tag): followers[world.channels[Int(tag.low)]]?.began(pages[0], at: world.now)
                case .page(let result, let channel, _): followers[channel]?.asked(result)
                case .push(let change, _): followers[change.channel]?.told(change, at: world.now)
                case .sweep(let partition, let tag) where !world.partitions.contains(partition):
                    machine.swept(.success(MembersSwept()), tag: tag, at: world.now)
                default: calls.append((arrival(), world.now, action))
                }
            }
        }

        private func later(_ answer: @escaping () -> Void) { answers.append((arrival(), answer)) }

        /// After a store that stood still nodes get on one after the other, a moment apart.
        private func arrival() -> Instant { max(max(world.now, world.standsUntil) + world.trip(), stalledUntil) }

        private func carryOut(_ call: MembersAction, madeAt: Instant) {
            let now = world.now
            switch call {
            case .change(_, _, _, false, let tag) where now.since(madeAt) > .seconds(1):
                membersChanged(.failure(WireError(.unavailable, "the call came late")), tag: tag)
            case .change(let users, let channel, let known, let mayBeLate, let tag):
                store.change(users, in: channel, known: known, mayBeLate: mayBeLate, tag: tag, at: now)
            case .refresh(let channel, let role, let known, let tag):
                store.refresh(channel, as: role, known: known, tag: tag, at: now)
            case .reap(let node, let channel, let tag): store.reap(node, in: channel, tag: tag, at: now)
            case .sweep(let partition, let tag): store.sweep(partition: partition, tag: tag, at: now)
            case .list(let channel, let cursor, let limit, let whole, let tag):
                store.list(channel, cursor: cursor, limit: limit, whole: whole, tag: tag, at: now)
            case .followed, .page, .push: break
            }
        }

        func follow(_ place: Int) {
            let channel = world.channels[place]
            guard followers[channel] == nil else { return }
            followers[channel] = Follower(channel)
            machine.follow([channel], loop: 0, tag: RequestTag(high: 0, low: UInt64(place)), at: world.now)
        }

        func unfollow(_ place: Int) {
            if followers.removeValue(forKey: world.channels[place]) != nil { machine.unfollow(world.channels[place], loop: 0) }
        }
    }

    /// A client that does what the protocol says, and nothing more.
    final class Follower {
        let channel: Name
        var members: [Name: UInt32] = [:]
        var sequence: UInt64?
        var mode = MembersMode.each
        var occupancy: UInt64 = 0
        var frames: [Instant] = []
        var left: Set<Name> = []
        var gaps = 0
        var faults: [String] = []

        init(_ channel: Name) { self.channel = channel }

        func began(_ page: MembersPage?, at now: Instant) {
            guard let page else { return }
            take(page)
        }

        private func take(_ page: MembersPage) {
            members = Dictionary(uniqueKeysWithValues: page.members.map { ($0.user, $0.devices) })
            (mode, sequence, occupancy) = (page.mode, page.sequence, page.occupancy)
        }

        func asked(_ result: Result<MembersPage, WireError>) { if case .success(let page) = result { take(page) } }

        func told(_ change: MembersChange, at now: Instant) {
            frames.append(now)
            let (joined, updated, gone) = (Set(change.joined.map(\.user)), Set(change.updated.map(\.user)), Set(change.left))
            if !joined.isDisjoint(with: updated) || !joined.isDisjoint(with: gone) || !updated.isDisjoint(with: gone) {
                faults.append("one user in two lists: \(change)")
            }
            (mode, occupancy) = (change.mode, change.occupancy)
            left.formUnion(gone)
            if let all = change.members {
                members = Dictionary(uniqueKeysWithValues: all.map { ($0.user, $0.devices) })
                sequence = change.sequence
            } else if change.mode == .counts {
                members = [:]
                sequence = change.sequence
            } else if let sequence, change.previous == sequence {
                if !joined.isDisjoint(with: members.keys) || !gone.isSubset(of: members.keys) || !updated.isSubset(of: members.keys) {
                    faults.append("\(change) doesn't follow \(members)")
                }
                for entry in change.joined + change.updated { members[entry.user] = entry.devices }
                for user in change.left { members[user] = nil }
                self.sequence = change.sequence
                if change.occupancy != UInt64(members.count) { faults.append("occupancy \(change.occupancy) of \(members)") }
            } else {
                gaps += 1
                faults.append("\(change.previous ?? 0) doesn't follow \(sequence ?? 0)")
            }
        }
    }

    private(set) var now = Instant(nanoseconds: 5_000_000_000)
    /// The store takes and answers nothing before.
    private(set) var standsUntil = Instant(nanoseconds: 0)
    private var standsSince = Instant(nanoseconds: 0)
    /// As a link sees it: something is always asked.
    var isSilent: Bool { now < standsUntil && now.since(standsSince) >= MembersMachine.silence }
    private(set) lazy var members = MemoryMembers(timers: MembersWorld.timers, wallClockAtStart: 1_800_000_000_000, startedAt: now)
    private lazy var hooks = MemoryHookQueue(wallClockAtStart: 1_800_000_000_000, startedAt: now)
    var nodes: [Node] = []
    var chance: Chance
    let threshold: Int
    let channels: [Name] = ["room:1", "room:2"]
    private(set) lazy var partitions = Set(channels.map { Partition.of($0) })
    let users: [Name] = (0..<9).map { Name(validating: "user\($0)")! }
    private var lastConnection: UInt64 = 0
    private var incarnations: UInt8 = 0
    /// Always there, on node 0, which nothing happens to.
    let stable: Name = "stable"

    /// `mayAllDie`: nobody is always there, and all nodes may be killed at once.
    let mayAllDie: Bool

    init(seed: UInt64, mayAllDie: Bool = false) {
        chance = Chance(seed: seed)
        self.mayAllDie = mayAllDie
        threshold = [200, 8, 4][Int(seed % 3)]
        for _ in 0..<3 { nodes.append(makeNode()) }
        hooks.setHookRules(HookRules(kinds: HookKinds(HookKind.allCases), perPartition: 10_000, keep: .seconds(3600)))
        members.hooks = hooks
        guard !mayAllDie else { return }
        for place in channels.indices { nodes[0].follow(place) }
        connect(stable, device: "d", to: 0, channels: Set(channels))
    }

    private func makeNode() -> Node {
        incarnations += 1
        return Node(Name(trusted: [UInt8]("node".utf8) + [incarnations + 96]), self, seed: chance.next())
    }

    func connect(_ user: Name, device: Name, to node: Int, channels: Set<Name>, isVisible: Bool = true) {
        lastConnection += 1
        nodes[node].connections[lastConnection] = (user, device, isVisible, channels)
        for channel in channels.sorted(by: { $0.bytes.lexicographicallyPrecedes($1.bytes) }) {
            nodes[node].machine.joined(channel, connection: lastConnection, user: user, device: device, isVisible: isVisible, at: now)
        }
    }

    /// One way between a node and the store.
    func trip() -> Span { chance.next() % 2 == 0 ? .zero : chance.span(in: .zero..<Span.milliseconds(60)) }

    func pass(_ span: Span) {
        let end = now + span
        while now < end {
            now = now + .milliseconds(20)
            for node in nodes { node.step() }
        }
    }

    /// Something happens. `faults`: also what nobody wishes for.
    func act(faults: Bool) {
        let node = Int(chance.next() % 3)
        let user = users[Int(chance.next() % UInt64(users.count))]
        let ids = nodes[node].connections.keys.filter { nodes[node].connections[$0]?.user != stable }.sorted()
        let id = ids.isEmpty ? nil : ids[Int(chance.next() % UInt64(ids.count))]
        switch chance.next() % (faults ? 20 : 10) {
        case 0, 1, 2:
            let device: Name = chance.next() % 2 == 0 ? "phone" : "tablet"
            connect(user, device: device, to: node, channels: chance.next() % 3 == 0 ? Set(channels) : [channels[Int(chance.next() % 2)]])
        case 3, 4:
            guard let id else { return }
            nodes[node].connections[id] = nil
            nodes[node].machine.closed(connection: id, isClean: chance.next() % 2 == 0, at: now)
        case 5:
            guard let id, let among = nodes[node].connections[id]?.channels, let channel = channels.first(where: among.contains) else {
                return
            }
            nodes[node].connections[id]?.channels.remove(channel)
            nodes[node].machine.left(channel, connection: id, at: now)
        case 6:
            guard let id else { return }
            let shows = chance.next() % 2 == 0
            nodes[node].connections[id]?.isVisible = shows
            nodes[node].machine.showed(shows, connection: id, at: now)
        case 7: nodes[node].follow(Int(chance.next() % 2))
        case 8: if node != 0 { nodes[node].unfollow(Int(chance.next() % 2)) }
        case 9:
            // Nobody is taken for dead for it, but much happens while a call is under way.
            nodes[node].stalledUntil = now + chance.span(in: .milliseconds(100)..<Span.milliseconds(node == 0 ? 300 : 1_200))
        case 10: nodes[node].store.dropFeed(1 + Int(chance.next() % 3))
        case 11:
            // The lease of these timers doesn't outlive a refused refresh and the pause behind it.
            guard node != 0 else { return }
            nodes[node].store.failNext(1 + Int(chance.next() % 2), with: WireError(.unavailable, "made to fail"))
        case 12: if node != 0 { nodes[node].pausedUntil = now + chance.span(in: .milliseconds(200)..<Span.seconds(5)) }
        case 13:
            guard node != 0, nodes[node].downUntil == nil else { return }
            nodes[node].downUntil = now + chance.span(in: .milliseconds(200)..<Span.seconds(4))
            nodes[node].store.setHealth(.down("cut off"))
        case 14 where mayAllDie: for place in nodes.indices { nodes[place] = makeNode() }
        case 14: if chance.next() % 3 == 0 { nodes[0].store.loseAllData() }
        case 15:
            // Killed: what it had is gone with it, and another one takes its place.
            guard node != 0 else { return }
            if chance.next() % 2 == 0 { stopInOrder(node) }
            nodes[node] = makeNode()
        case 16:
            guard node != 0 else { return }
            nodes[node].store.loseAnswers(1 + Int(chance.next() % 2))
        case 17 where !mayAllDie: goBack()
        case 18:
            // The store stands still, for longer than the longest gap and than what is left of some leases: nobody is dead for it. Far less than a
            // hold, nor twice in one: after a loss of data that's all the time there is for saying again who is there.
            guard now > standsUntil + .seconds(5) else { return }
            standsSince = now
            standsUntil = now + chance.span(in: .milliseconds(1_500)..<Span.seconds(2))
        default: pass(chance.span(in: .milliseconds(20)..<Span.milliseconds(900)))
        }
    }

    /// All it has is closed, as by a node that's drained, and it waits for the store's word, but not for long.
    private func stopInOrder(_ node: Int) {
        for id in nodes[node].connections.keys.sorted() { nodes[node].machine.closed(connection: id, isClean: false, at: now) }
        nodes[node].connections = [:]
        nodes[node].machine.leave(at: now)
        let deadline = now + .seconds(1)
        while now < deadline && !nodes[node].machine.hasLeft { pass(.milliseconds(20)) }
    }

    /// The store loses what happened just before: a restart with older data, which every node sees or, as after a restore by hand, none. Less is
    /// lost than a lease holds beyond a heartbeat.
    private func goBack() {
        nodes[0].store.rememberData()
        for _ in 0..<Int(chance.next() % 4) {
            act(faults: false)
            pass(chance.span(in: .milliseconds(20)..<Span.milliseconds(150)))
        }
        nodes[0].store.goBack()
        guard chance.next() % 3 != 0 else { return }
        for node in nodes where node.downUntil == nil {
            node.downUntil = now + chance.span(in: .milliseconds(20)..<Span.milliseconds(200))
            node.store.setHealth(.down("restarts"))
        }
    }

    /// What backends were told of a channel.
    func toldBackends(_ channel: Name) -> [HookKind] {
        final class Reader: HookQueueDelegate {
            var events: [HookEvent] = []
            func claimed(_ result: Result<HookPage, WireError>, partition: Int, tag: RequestTag) {
                events = (try? result.get())?.events ?? []
            }
        }
        let reader = Reader()
        hooks.hookDelegate = reader
        hooks.claim(HookClaim(holding: .take, lease: .seconds(1), limit: 1_000), partition: Partition.of(channel), tag: .none, at: now)
        hooks.advance(at: now)
        return reader.events.filter { $0.name == channel }.map(\.kind)
    }

    /// Who is in a channel, in truth.
    func truth(_ channel: Name) -> [Name: UInt32] {
        var devices: [Name: UInt32] = [:]
        for node in nodes {
            var here: [Name: Set<Name>] = [:]
            for connection in node.connections.values where connection.isVisible && connection.channels.contains(channel) {
                here[connection.user, default: []].insert(connection.device)
            }
            for (user, names) in here { devices[user, default: 0] += UInt32(names.count) }
        }
        return devices
    }
}

@Suite("Members, simulated") struct MembersSimulationTests {
    private static let environment = ProcessInfo.processInfo.environment
    private static let blocks: UInt64 = 10

    /// A block of a test's seeds: some with every test run, thousands with `scripts/simulate members`. Of fewer seeds than blocks each is in one.
    private static func seeds(_ block: UInt64, from first: UInt64, count: UInt64) -> Range<UInt64> {
        let count = UInt64(environment["HUB_MEMBERS_SEEDS"] ?? "") ?? count
        let first = UInt64(environment["HUB_MEMBERS_SEED"] ?? "") ?? first
        return (first + count * block / blocks)..<(first + count * (block + 1) / blocks)
    }

    private func run(seed: UInt64, faults: Bool) {
        let world = MembersWorld(seed: seed)
        world.pass(.milliseconds(600))
        for _ in 0..<60 {
            world.act(faults: faults)
            if world.chance.next() % 3 != 0 { world.pass(world.chance.span(in: .milliseconds(20)..<Span.milliseconds(400))) }
        }
        // Quiet: refusals that wait for somebody are used up, leases end, what was lost is found, a hold passes.
        for node in world.nodes { for place in world.channels.indices { node.follow(place) } }
        world.pass(.seconds(60))
        for channel in world.channels {
            let truth = world.truth(channel)
            for node in world.nodes {
                guard let follower = node.followers[channel] else {
                    Issue.record("seed \(seed): \(node.incarnation) follows nothing")
                    continue
                }
                #expect(follower.faults.isEmpty, "seed \(seed): \(follower.faults)")
                #expect(follower.occupancy == UInt64(truth.count), "seed \(seed) \(node.incarnation) \(channel)")
                if follower.mode != .counts {
                    #expect(follower.members == truth, "seed \(seed) \(node.incarnation) \(channel)")
                    #expect(follower.mode == MembersMode.each || truth.count * 5 > world.threshold / 4 * 4, "seed \(seed)")
                }
                for (first, fifth) in zip(follower.frames, follower.frames.dropFirst(4)) {
                    #expect(fifth.since(first) >= .seconds(1), "seed \(seed): five frames within \(fifth.since(first))")
                }
                #expect(!follower.left.contains(world.stable), "seed \(seed): who was always there left")
            }
        }
    }

    @Test(
        "everybody ends up with the truth, no frame contradicts the one before, and nobody gets more than four a second",
        arguments: 0..<blocks)
    func healthy(block: UInt64) { for seed in Self.seeds(block, from: 0, count: 240) { run(seed: seed, faults: false) } }

    @Test(
        "so too with lost messages, refusals, pauses, cuts, crashes and a store that loses its data; who was always there never leaves",
        arguments: 0..<blocks)
    func faulty(block: UInt64) { for seed in Self.seeds(block, from: 10_000, count: 600) { run(seed: seed, faults: true) } }

    @Test("whatever dies, all at once too, backends are told of each channel in turns, and in the end what is so", arguments: 0..<blocks)
    func toldInTurns(block: UInt64) {
        for seed in Self.seeds(block, from: 30_000, count: 300) {
            let world = MembersWorld(seed: seed, mayAllDie: true)
            for _ in 0..<60 {
                world.act(faults: true)
                if world.chance.next() % 3 != 0 { world.pass(world.chance.span(in: .milliseconds(20)..<Span.milliseconds(400))) }
            }
            // Nobody follows but those who happen to: the dead are found by sweeps.
            world.pass(.seconds(60))
            for channel in world.channels {
                let told = world.toldBackends(channel)
                for (place, kind) in told.enumerated() {
                    #expect(kind == (place % 2 == 0 ? .channelOccupied : .channelVacated), "seed \(seed) \(channel): \(told)")
                }
                #expect((told.last == .channelOccupied) == !world.truth(channel).isEmpty, "seed \(seed) \(channel): \(told)")
            }
        }
    }
}
