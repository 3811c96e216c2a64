import Glibc
import HubBase
import HubCheck
import HubClient
import HubClientNet
import HubNet
import HubSwarm
import HubWire

/// A share of a scenario on its loop: does what its bots' machines say when they say it, measures what comes back, judges it.
///
/// A shell: what a bot does is `BotMachine`'s, what a second came to `MeasuresRecorder`'s, what was right the checkers'. A bot is a slot in a
/// table; its index is that of its client in the fleet. Behind the bots come the hostile ones.
final class Crowd: FleetHandler {
    enum Phase: Equatable {
        case running
        /// Nobody says anything any more; what was said is waited for.
        case coolingDown(until: Instant)
        case leaving(until: Instant)
    }

    /// How the swarm speaks, and to whom.
    struct Settings {
        var routes: [ClientFleet.Route]
        /// nil: a hub in development mode, which takes names from the URL.
        var tokens: TokenSource?
        var interrupts: Interrupts
        var format = WireFormat.json
        var offersDeflate = false
        /// Of its messages, asked for; a hub that takes no such ones is no hub for it.
        var payloadBytes = 0
        /// Local addresses to connect from, in turn; none: the kernel chooses.
        var sources: [SocketAddress] = []
    }

    /// The places of `MeasuresRecorder`'s lanes.
    enum Lane: Int, CaseIterable { case talk, typing, read, presence, ack, connect, recover }

    static let secondTimer: UInt32 = 1
    static let hostileTimer: UInt32 = 2
    static let muteTimer: UInt32 = 3
    private static let leaveMax: Span = .seconds(3)
    private static let quietEvery: Span = .milliseconds(250)
    /// More deliveries than this aren't remembered one by one: some 300 bytes each.
    private static let checkedMax = 3_000_000.0

    let share: Share
    let scenario: Scenario
    let settings: Settings
    let fleet: ClientFleet
    let names: CrowdNames
    var phase = Phase.running
    var bots: [CrowdBot] = []
    /// The share's, by their number within it.
    var rooms: [CrowdRoom] = []
    /// Of each local user: its first bot; one more at the end.
    var firstBots: [Int] = []
    /// Of each local user `joined` places: the room's number within the share.
    var roomsOfUsers: [UInt32] = []
    /// Of each bot `joined` places: up to where it has told what it read.
    var marks: [UInt64] = []
    /// When the bot was to tell that.
    var marksDue: [UInt64] = []
    let hostile: [HostileKind]
    let mutes: MuteSockets
    /// Why the hub ended hostile connections.
    var hostileEnds: [String: UInt64] = [:]
    var agenda = Agenda()
    var recorder: MeasuresRecorder
    var tally = CrowdTally()
    /// What seats were led past.
    var holes = Holes()
    var check: SwarmCheck?
    var presence: PresenceChecker?
    var ephemeral: EphemeralChecker
    /// Whose connections ended, or who were told that signs were left out, since the last look.
    var ended: Set<Int> = []
    private var nextSigns = Instant(nanoseconds: 0)
    var connected = 0
    /// What `connected` was when all began to leave: nobody was gone before.
    private var connectedAtLast: Int?
    /// Published and not answered.
    var outstanding = 0
    /// What ends now ends because the plan says so.
    var isOwnDoing = false
    var isFinished = false
    var payload = ByteBuffer(capacity: 512)
    private var nextQuietCheck = Instant(nanoseconds: 0)
    private let talkingEnds: Instant
    /// Called once a second with what came in it.
    private var everySecond: (Measures.Point) -> Void = { _ in }

    init(_ share: Share, _ settings: Settings) throws(NetError) {
        self.share = share
        self.settings = settings
        scenario = share.scenario
        hostile = HostileKind.list(share.hostile)
        mutes = MuteSockets(share.hostile, settings.routes)
        ephemeral = EphemeralChecker(stopsWithin: share.scenario.talk.stopsWithin)
        names = CrowdNames(run: share.run)
        talkingEnds = share.start + share.scenario.talkingEnds
        var limits = NetLimits()
        limits.messageBytes = 2 * 1024 * 1024
        // The tick is the swarm's clock step: a message is sent at most so much after it was due.
        fleet = try ClientFleet(
            routes: settings.routes, format: settings.format, limits: limits, tick: .milliseconds(1), seed: share.seed(of: -1))
        recorder = MeasuresRecorder(Self.blank(share), lanes: Self.lanes(share.scenario), ownCPU: ProcessorTime.own())
        recorder.measure(from: share.start + scenario.measuredFrom, to: talkingEnds)
        populate()
    }

    private static func blank(_ share: Share) -> Measures {
        var measures = Measures()
        measures.scenario = share.scenario.name
        measures.seed = share.seed
        measures.workers = 1
        measures.bots = UInt64(share.scenario.bots(of: share.users))
        measures.began = share.start
        measures.date = UInt64(clamping: time(nil))
        return measures
    }

    private static func lanes(_ scenario: Scenario) -> [Measures.Lane] {
        Lane.allCases.map { lane in
            switch lane {
            case .talk: Measures.Lane(scenario.talk.kind.rawValue)
            default: Measures.Lane("\(lane)")
            }
        }
    }

    /// Runs to the end on the calling thread.
    func execute(everySecond: @escaping (Measures.Point) -> Void = { _ in }) -> Measures {
        self.everySecond = everySecond
        fleet.handler = self
        settings.interrupts.wake(fleet.loop.signal)
        scheduleSecond()
        startHostile()
        fleet.run()
        return recorder.finish(at: Clock.now(), connected: connectedAtLast ?? connected, ownCPU: ProcessorTime.own())
    }

    // MARK: People

    private func populate() {
        let roomNumbers = share.rooms
        rooms = roomNumbers.map { CrowdRoom(name: names.room($0)) }
        let popularity = Popularity(count: roomNumbers.count, exponent: scenario.rooms.popularity)
        let joined = scenario.rooms.joined
        let total = Double(max(scenario.bots(of: 0..<scenario.users), 1))
        // Where among all bots the share's first one stands: its part of the ramp is the whole ramp.
        for user in share.users {
            var chance = Chance(seed: share.seed(of: 1 << 40 + user))
            let drawn = popularity.draw(joined, &chance)
            roomsOfUsers += drawn
            firstBots.append(bots.count)
            for device in 0..<scenario.devices(of: user) {
                let machine = BotMachine(
                    scenario, start: share.start, place: Double(bots.count) / total * Double(share.count),
                    isSpeaker: share.isSpeaker(user: user), seed: share.seed(of: bots.count))
                agenda.add(UInt32(bots.count), at: machine.deadline)
                addBot(CrowdBot(machine: machine, user: user - share.users.lowerBound, device: device), rooms: drawn)
            }
        }
        firstBots.append(bots.count)
        marks = [UInt64](repeating: 0, count: bots.count * joined)
        // Only those who read need them.
        if scenario.readEvery != nil { marksDue = marks }
        addRosters()
        for _ in hostile { _ = fleet.add(clientOptions, route: fleet.count) }
        if expectedDeliveries <= Self.checkedMax { check = SwarmCheck(seats: bots.count * joined) }
    }

    private var clientOptions: ClientMachine.Options {
        var options = ClientMachine.Options()
        options.requestsMax = 256
        return options
    }

    private func addBot(_ bot: CrowdBot, rooms drawn: [UInt32]) {
        bots.append(bot)
        let client = fleet.add(clientOptions, route: bots.count - 1)
        precondition(client == bots.count - 1, "bots and clients out of step")
        fleet.change(client) { machine in
            for room in drawn { machine.subscribe(rooms[Int(room)].name) }
        }
        for room in drawn { rooms[Int(room)].bots += 1 }
        if scenario.talk.every != nil, share.isSpeaker(user: share.users.lowerBound + bot.user) {
            for room in drawn { rooms[Int(room)].speakers += 1 }
        }
    }

    private func addRosters() {
        let size = min(scenario.roster.users, share.users.count - 1)
        guard size > 0 else { return }
        var checker = PresenceChecker(
            users: share.users.count, onlineWithin: scenario.roster.onlineWithin, offlineWithin: scenario.roster.offlineWithin)
        let userNames = share.users.map { names.user($0) }
        for index in bots.indices {
            var chance = Chance(seed: share.seed(of: 1 << 41 + index))
            var others: Set<Int> = []
            while others.count < size {
                let other = Int.random(in: 0..<share.users.count, using: &chance)
                if other != bots[index].user { others.insert(other) }
            }
            let roster = others.sorted()
            checker.watch(roster, by: index)
            fleet.change(index) { $0.watch(roster.map { userNames[$0] }) }
        }
        presence = checker
    }

    /// Of the whole run.
    private var expectedDeliveries: Double {
        guard let every = scenario.talk.every, every > .zero else { return 0 }
        let seconds = Double(scenario.talkingEnds.nanoseconds) / 1e9
        let each = seconds / (Double(every.nanoseconds) / 1e9) / Double(max(scenario.rooms.joined, 1))
        return rooms.reduce(0) { $0 + Double($1.bots) * Double($1.speakers) * each }
    }

    // MARK: Phases

    /// In every turn, at least once a millisecond.
    func turnEnding() {
        let now = Clock.now()
        check?.pass(to: now)
        switch phase {
        case .running:
            act(now)
            if now >= talkingEnds { coolDown(now) }
        case .coolingDown(let until):
            guard now >= nextQuietCheck else { return }
            nextQuietCheck = now + Self.quietEvery
            if now >= until || isQuiet { leave(now) }
        case .leaving(let until):
            if now >= until || connected == 0 { finish() }
        }
    }

    private func coolDown(_ now: Instant) { phase = .coolingDown(until: now + scenario.coolDown) }

    /// Nobody waits for anything.
    private var isQuiet: Bool {
        outstanding == 0 && bots.allSatisfy { $0.backlog.isEmpty } && cutOff(Clock.now()) == 0 && missingAtTheEnd(isFirstEnough: true) == 0
    }

    private func leave(_ now: Instant) {
        settle(now)
        phase = .leaving(until: now + Self.leaveMax)
        connectedAtLast = connected
        // What has no answer yet is counted by now; that it gets none any more is no word of the hub.
        isOwnDoing = true
        mutes.close()
        for client in 0..<fleet.count { fleet.stop(client) }
    }

    private func finish() {
        isFinished = true
        fleet.loop.stop()
    }

    /// Ctrl-C: no more messages, but what was said is still waited for and reported; a second one: at once.
    func woken() {
        guard settings.interrupts.received > 0, !isFinished else { return }
        let now = Clock.now()
        recorder.update { $0.isInterrupted = true }
        recorder.stopMeasuring(at: now)
        if settings.interrupts.received > 1 {
            if case .leaving = phase {} else { settle(now) }
            return finish()
        }
        if phase == .running { coolDown(now) }
    }

    // MARK: Time

    /// At whole seconds since the beginning, so that the points of several processes stay side by side.
    private func scheduleSecond() {
        let now = Clock.now()
        let wait =
            now < share.start
            ? share.start.since(now) + .seconds(1) : Span(nanoseconds: 1_000_000_000 - now.since(share.start).nanoseconds % 1_000_000_000)
        _ = fleet.loop.schedule(after: wait, kind: Self.secondTimer, value: 0)
    }

    func timerFired(kind: UInt32, value: UInt64) {
        if kind == Self.hostileTimer { return misbehave(Int(value)) }
        if kind == Self.muteTimer { return tendMutes() }
        let now = Clock.now()
        presence?.judge(now)
        judgeSigns(now)
        if now >= share.start {
            everySecond(recorder.close(at: now, connected: connectedAtLast ?? connected, ownCPU: ProcessorTime.own()))
        }
        scheduleSecond()
    }

    /// Not every second: it looks at all that is seen at the moment.
    private func judgeSigns(_ now: Instant) {
        guard now >= nextSigns else { return }
        nextSigns = now + .seconds(10)
        ephemeral.ended(ended)
        ended.removeAll(keepingCapacity: true)
        ephemeral.judge(now)
    }

    // MARK: Connections

    func opening(for client: Int, to url: HubURL) -> ClientOpening {
        let (user, device) = identity(client)
        if client < bots.count {
            if hasFailed(client), !bots[client].isAwayByPlan { tally.notLetIn += 1 }
            bots[client].isAwayByPlan = false
            bots[client].attempted = Clock.now()
            presence?.coming(bots[client].user)
            bots[client].isStatusUnsure = true
            noteStatus(bots[client].user)
        }
        var opening = CrowdOpening.make(url, user: user, device: device, settings)
        if client >= bots.count, hostile[client - bots.count] == .slow {
            opening.receiveBuffer = HostileKind.slowBuffer
            opening.segmentBytes = HostileKind.slowSegment
        }
        if !settings.sources.isEmpty {
            let source = Capacity.source(of: client, sources: settings.sources.count, destinations: settings.routes.count)
            opening.source = settings.sources[source]
        }
        return opening
    }

    /// Its last attempt to connect got no welcome.
    func hasFailed(_ client: Int) -> Bool {
        bots[client].attempted.nanoseconds > 0 && bots[client].shownSince < bots[client].attempted
    }

    private func identity(_ client: Int) -> (user: Name, device: String) {
        guard client < bots.count else { return (names.hostile(client - bots.count, of: share.index), "h") }
        return (names.user(share.users.lowerBound + bots[client].user), "d\(bots[client].device)")
    }

    /// The next opening mints one.
    func renewToken(for client: Int) -> Bool { settings.tokens != nil }
}
