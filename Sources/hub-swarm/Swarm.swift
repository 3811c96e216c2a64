import Glibc
import HubBase
import HubClient
import HubClientNet
import HubNet
import HubSwarm
import HubWire

/// The swarm on its loop: joins its bots, sends on schedule, checks what arrives, waits for the rest, reports.
///
/// A shell: what is due when, what was lost and what it means is decided by the values of HubSwarm. A bot is a slot in a table; its index
/// is that of its client in the fleet.
final class Swarm: FleetHandler {
    enum Phase: Equatable {
        case joining(until: Instant)
        case talking(since: Instant)
        case draining(until: Instant)
        case leaving(until: Instant)
    }

    /// How a run ended, for the exit code.
    enum Outcome {
        case reported
        /// Not one bot got in: why, in the words of most of them.
        case unreachable(String)
    }

    private static let progressTimer: UInt32 = 1
    private static let drainMax: Span = .seconds(5)
    private static let leaveMax: Span = .seconds(3)
    /// When nobody is in by then, nobody will be.
    private static let giveUpAfter: Span = .seconds(4)

    let options: SwarmOptions
    let tokens: TokenSource?
    let interrupts: Interrupts
    let fleet: ClientFleet
    /// Tells this run's rooms and messages from those of any other.
    let run: UInt64
    var phase: Phase = .joining(until: .distantFuture)
    var began = Instant(nanoseconds: 0)
    var bots: [Bot] = []
    var rooms: [Room] = []
    var schedule: ArrivalSchedule
    var nextArrival: ArrivalSchedule.Arrival?
    var report = SwarmReport()
    var recorder: MeasuresRecorder
    var progress: Progress
    /// Frames go to a coordinator, who shows them.
    let isWorker: Bool
    var connected = 0
    /// What `connected` was when all began to leave: nobody was gone before.
    var connectedAtLast: Int?
    /// Any bot, ever.
    var wasWelcomed = false
    var started = 0
    var joined = 0
    /// Bots that the hub will never let in.
    var hopeless = 0
    var left = 0
    /// Sent and not answered.
    var outstanding = 0
    var delivered: UInt64 = 0
    var mismatches = Receiver.Tally()
    /// nil: more deliveries are expected than it may remember.
    var check: SwarmCheck?
    var nextDrainCheck = Instant(nanoseconds: 0)
    var outcome = Outcome.reported
    /// The loop was told to stop: what ends now ends because of that.
    var isFinished = false
    var payload = ByteBuffer(capacity: 512)

    init(
        _ options: SwarmOptions, tokens: TokenSource?, routes: [ClientFleet.Route], interrupts: Interrupts, isWorker: Bool
    ) throws(NetError) {
        self.options = options
        self.tokens = tokens
        self.interrupts = interrupts
        self.isWorker = isWorker
        recorder = MeasuresRecorder(Self.blank(options), lanes: [Measures.Lane("chat")], ownCPU: ProcessorTime.own())
        progress = Progress(title: "\(options.bots) bots")
        var limits = NetLimits()
        limits.messageBytes = 2 * 1024 * 1024
        // The tick is the swarm's clock step: a message is sent at most so much after it was due.
        fleet = try ClientFleet(routes: routes, limits: limits, tick: .milliseconds(1), seed: Self.seed(options))
        schedule = ArrivalSchedule(
            bots: options.bots, rate: options.rate, end: .seconds(options.seconds), seed: Self.seed(options))
        nextArrival = schedule.next()
        var system = SystemRandomNumberGenerator()
        run = options.part.run.map { $0 &* 1000 &+ UInt64(options.part.index) } ?? system.next() >> 11
        report.bots = options.bots
        report.rooms = options.rooms
        report.seconds = options.seconds
        report.seed = options.seed
        rooms = (0..<options.rooms).map { Room(name: Name(trusted: Array("swarm:\(run).\($0)".utf8))) }
        let members = Double(options.bots) / Double(options.rooms)
        if Double(options.bots) * options.rate * Double(options.seconds) * members <= SwarmCheck.deliveriesMax {
            check = SwarmCheck(seats: options.bots)
        }
        var client = ClientMachine.Options()
        client.requestsMax = 256
        // A hub in development mode welcomes at once; any other waits for a token that won't come.
        if tokens == nil { client.welcomeDeadline = .seconds(5) }
        for index in 0..<options.bots {
            bots.append(Bot(room: index % options.rooms))
            let added = fleet.add(client, route: index)
            precondition(added == index, "bots and clients out of step")
            fleet.change(index) { $0.subscribe(rooms[index % rooms.count].name) }
        }
    }

    /// Parts of one run mustn't draw the same.
    private static func seed(_ options: SwarmOptions) -> UInt64 { options.seed &+ UInt64(options.part.index) &* 0x9E37_79B9_7F4A_7C15 }

    /// Runs to the end on the calling thread.
    func execute() -> (SwarmReport, Measures, Outcome) {
        fleet.handler = self
        interrupts.wake(fleet.loop.signal)
        let now = Clock.now()
        // All parts begin at one moment; for one that comes late it's past.
        if let start = options.part.start, start > now { usleep(UInt32(clamping: min(start.since(now), .seconds(60)).nanoseconds / 1000)) }
        began = max(options.part.start ?? Clock.now(), now)
        recorder.update { $0.began = began }
        let joiningNanoseconds = Double(options.bots) / options.connectRate * 1e9
        phase = .joining(until: began + Span(nanoseconds: UInt64(joiningNanoseconds)) + .seconds(15))
        scheduleProgress()
        fleet.run()
        progress.end()
        settle()
        return (report, measures(at: Clock.now()), outcome)
    }

    private func settle() {
        report.joined = joined
        for bot in bots {
            report.tally += bot.receiver.settled(acknowledged: rooms[bot.room].journal.acknowledged)
            count("unsent", UInt64(bot.backlog.count))
        }
        report.tally += mismatches
        report.check = check?.finish()
    }

    func count(_ code: String, _ number: UInt64 = 1) {
        guard number > 0 else { return }
        report.refused[code, default: 0] += number
        recorder.failed(code, number)
    }

    // MARK: Phases

    /// In every turn, at least once a millisecond.
    func turnEnding() {
        let now = Clock.now()
        check?.pass(to: now)
        switch phase {
        case .joining(let until):
            join(now)
            if !wasWelcomed, hopeless == bots.count || (!report.ends.isEmpty && now.since(began) > Self.giveUpAfter) {
                let reasons = report.ends.max { ($0.value, $1.key) < ($1.value, $0.key) }
                outcome = .unreachable(reasons?.key ?? "no answer")
                finish()
            } else if joined + hopeless == bots.count {
                // Parts of one run talk at one moment, if the hub lets them in as fast as was asked for.
                if options.part.count == 1 || now >= began + partsJoined { talk(now) }
            } else if now >= until {
                progress.say("\(bots.count - joined) of \(bots.count) bots couldn't join; going on without them")
                talk(now)
            }
        case .talking(let since):
            send(since, now)
            if now.since(since) >= .seconds(options.seconds) { drain(now) }
        case .draining(let until):
            guard now >= nextDrainCheck else { return }
            nextDrainCheck = now + .milliseconds(50)
            if now >= until || isDrained { leave(now) }
        case .leaving(let until):
            if now >= until || left == bots.count { finish() }
        }
    }

    private func finish() {
        isFinished = true
        fleet.loop.stop()
    }

    private func join(_ now: Instant) {
        let due = Int(Double(now.since(began).nanoseconds) / 1e9 * options.connectRate) + 1
        while started < min(due, bots.count) {
            fleet.start(started)
            started += 1
        }
    }

    private func talk(_ now: Instant) {
        // Nobody may be in; the report says so.
        guard joined > 0 else { return leave(now) }
        phase = .talking(since: now)
        recorder.measure(from: now, to: now + .seconds(options.seconds))
    }

    /// From the beginning until all of every part should be in.
    private var partsJoined: Span { Span(nanoseconds: UInt64(Double(options.bots) / options.connectRate * 1e9)) + .seconds(2) }

    private func drain(_ now: Instant) {
        recorder.stopMeasuring(at: now)
        phase = .draining(until: now + Self.drainMax)
    }

    var isDrained: Bool {
        outstanding == 0
            && bots.allSatisfy {
                $0.backlog.isEmpty && ($0.standing != .joined || $0.receiver.isSubscribed)
                    && $0.receiver.hasAll(upTo: rooms[$0.room].journal.acknowledged)
            }
    }

    private func leave(_ now: Instant) {
        phase = .leaving(until: now + Self.leaveMax)
        connectedAtLast = connected
        // What has no answer yet is counted here; that it gets none any more is no word of the hub.
        count("unanswered", UInt64(max(outstanding, 0)))
        report.cutOff = UInt64(bots.count { $0.standing == .joined && !$0.receiver.isSubscribed })
        for client in bots.indices {
            fleet.stop(client)
            // Those without a connection have nothing to end.
            if case .closed = fleet.state(client) { left += 1 }
        }
    }

    // MARK: Connections

    static let device = "swarm"

    func user(_ client: Int) -> String { options.part.count > 1 ? "bot-\(options.part.index).\(client)" : "bot-\(client)" }

    func opening(for client: Int, to url: HubURL) -> ClientOpening {
        let user = user(client)
        var target = url.prefix + "/v1/ws?device=" + Self.device
        var headers: [(name: String, value: String)] = []
        if let tokens {
            headers.append((name: "Authorization", value: "Bearer " + tokens.token(for: user)))
        } else {
            target += "&user=" + user
        }
        return ClientOpening(host: url.authority, target: target, subprotocols: ["hub.v1.json"], headers: headers)
    }

    func loseHope(_ client: Int) {
        guard bots[client].standing == .outside else { return }
        bots[client].standing = .hopeless
        hopeless += 1
    }

    /// The next opening mints one.
    func renewToken(for client: Int) -> Bool { tokens != nil }

    func ended(_ end: TransportEnd, _ after: ClientMachine.AfterEnd, wasOpen: Bool, client: Int) {
        guard !isFinished else { return }
        if wasOpen { connected -= 1 }
        bots[client].receiver.ended()
        // Whoever leaves in the end has been judged by then.
        if case .leaving = phase {} else { check?.ended(client, end, isOwnDoing: false, seats: client..<client + 1) }
        if case .leaving = phase {
            if case .finished = after { left += 1 }
            return
        }
        var text = EndText.text(end)
        if case .unwelcomed = end, tokens == nil {
            text += "; outside development mode a hub wants tokens (--token-key-env, --token-key-file)"
        }
        if !wasOpen { report.notLetIn += 1 }
        report.ends[text, default: 0] += 1
        recorder.ended(text)
        switch after {
        case .wait: break
        case .finished: loseHope(client)
        case .fetchToken: if tokens == nil { loseHope(client) }
        }
    }

    // MARK: Time and signals

    /// At whole seconds since the beginning, so that the points of several processes stay side by side.
    private func scheduleProgress() {
        let elapsed = Clock.now().since(began).nanoseconds
        // A timer that came a little early has its second behind it all the same.
        let next = ((elapsed + 500_000_000) / 1_000_000_000 + 1) * 1_000_000_000
        _ = fleet.loop.schedule(after: Span(nanoseconds: next - elapsed), kind: Self.progressTimer, value: 0)
    }

    func timerFired(kind: UInt32, value: UInt64) {
        let now = Clock.now()
        let point = recorder.close(at: now, connected: connectedAtLast ?? connected, ownCPU: ProcessorTime.own())
        if isWorker {
            WorkerVoice.send(point)
        } else {
            progress.show(
                ReportProgress.Moment(
                    seconds: now.since(began).nanoseconds / 1_000_000_000, phase: phaseText, point: point, bots: UInt64(bots.count)))
        }
        scheduleProgress()
    }

    var phaseText: String {
        switch phase {
        case .joining: "joining"
        case .talking: "talking"
        case .draining: "draining"
        case .leaving: "leaving"
        }
    }

    /// Ctrl-C: no more messages, but what was said is still waited for and reported; a second one: at once.
    func woken() {
        guard interrupts.received > 0 else { return }
        report.isInterrupted = true
        if interrupts.received > 1 { return finish() }
        switch phase {
        case .joining: leave(Clock.now())
        case .talking: drain(Clock.now())
        case .draining, .leaving: break
        }
    }
}
