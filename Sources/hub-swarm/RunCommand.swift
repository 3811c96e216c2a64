import Glibc
import HubBase
import HubClientNet
import HubNet
import HubSwarm
import HubWire

/// `hub-swarm run`: plays a scenario in this process.
enum RunCommand {
    static let parser = CommandLineParser(
        program: "hub-swarm run",
        summary: "Plays a scenario: bots that come, talk, read, go away and come back like people, and says what they went through.",
        flags: SwarmTarget.flags + [
            CommandLineParser.Flag(
                "set", value: "KEY=VALUE", isRepeatable: true, help: "Change a value of the scenario: users=5000, talk.every=10s."),
            CommandLineParser.Flag("seed", value: "SEED", help: "Of all random choices (default: a random one, which is printed)."),
            CommandLineParser.Flag("json", help: "Print the summary as JSON."),
            CommandLineParser.Flag(
                "share", value: "I/N", help: "Play only the I-th of N parts of the scenario, from 1; the others are other processes'."),
            CommandLineParser.Flag("run", value: "RUN", help: "With --share: a number that all parts have, and no other run."),
            CommandLineParser.Flag(
                "start", value: "NANOSECONDS", help: "With --share: when all parts begin, on the host's monotonic clock (default: now)."),
        ],
        operands: [
            CommandLineParser.Operand("SCENARIO", help: "chat, presence, broadcast, herd, hostile, or a file of your own (docs/swarm.md).")
        ],
        examples: [
            CommandLineParser.Example("hub-swarm run chat", "against one node here"),
            CommandLineParser.Example("hub-swarm run herd --set users=5000 --url http://10.0.0.1:8080", "with other numbers, elsewhere"),
        ],
        notes: [
            "Exit codes: 0 all that was promised came; 1 something didn't, or nothing was proved; 2 wrong usage, a mistake in the scenario, or too few descriptors or ports for it; 3 the hub can't be reached or refuses."
        ])

    static func execute(_ words: [String]) throws(CommandLineError) -> Int32 {
        let arguments = try parser.parse(words)
        if arguments.wantsHelp {
            print(parser.helpText(), terminator: "")
            return 0
        }
        let scenario = try ScenarioFile.read(arguments.operands[0], overrides: arguments.values("set"))
        let target = try SwarmTarget(
            arguments, defaultURL: getenv("HUB_URL").map { String(cString: $0) } ?? "http://127.0.0.1:8080")
        var system = SystemRandomNumberGenerator()
        var seed = system.next() >> 32
        if let text = arguments.value("seed") {
            guard let given = UInt64(text) else { throw CommandLineError("--seed is a whole number, not \(CommandLineError.quoted(text))") }
            seed = given
        }
        let part = try Part(arguments, defaultRun: system.next() >> 12)
        do throws(NetError) {
            // Before any other thread, so that they all leave signals to it.
            let interrupts = try Interrupts()
            var settings = try settings(target, interrupts)
            let bots = part.share(of: scenario, seed: seed, now: Clock.now()).bots
            spread(&settings, connections: bots * part.count)
            if let shortage = capacity(settings).shortage(bots: bots, processes: part.count) { fail(shortage, code: 2) }
            if part.index == 0, let problem = try Preflight.problem(settings, run: part.run) {
                fail("the hub isn't there for us: \(problem)", code: 3)
            }
            guard interrupts.received == 0 else { fail("interrupted before the start", code: 1) }
            StandardError.write(
                "hub-swarm: \(scenario.name): \(bots) connections for \(Int(Double(scenario.talkingEnds.nanoseconds) / 1e9)) s, seed \(seed)\n"
            )
            let share = part.share(of: scenario, seed: seed, now: Clock.now())
            var progress = Progress()
            let crowd = try Crowd(share, settings)
            let measures = crowd.execute { point, recorder in progress.show(point, share, recorder) }
            progress.end()
            print(arguments.has("json") ? RunSummary.json(measures) : RunSummary.text(measures))
            return RunSummary.isClean(measures) ? 0 : 1
        } catch {
            fail(error.description, code: 3)
        }
    }

    /// Which part of the run this process is.
    struct Part {
        var index = 0
        var count = 1
        var run: UInt64
        var start: Instant?

        init(_ arguments: CommandLineArguments, defaultRun: UInt64) throws(CommandLineError) {
            run = defaultRun
            if let text = arguments.value("share") {
                let ends = text.split(separator: "/", omittingEmptySubsequences: false).map { Int($0) }
                guard ends.count == 2, let number = ends[0], let all = ends[1], (1...1000).contains(all), (1...all).contains(number) else {
                    throw CommandLineError("--share is I/N, with N up to 1000 and I from 1 to N, not \(CommandLineError.quoted(text))")
                }
                (index, count) = (number - 1, all)
            }
            run = try Self.number(arguments, "run", most: 1 << 52) ?? run
            start = try Self.number(arguments, "start", most: 1 << 62).map(Instant.init(nanoseconds:))
            if count > 1, !arguments.has("run") || !arguments.has("seed") {
                throw CommandLineError("--share needs --run and --seed: all parts of a run must have the same")
            }
        }

        private static func number(_ arguments: CommandLineArguments, _ flag: String, most: UInt64) throws(CommandLineError) -> UInt64? {
            guard let text = arguments.value(flag) else { return nil }
            guard let value = UInt64(text), value < most else {
                throw CommandLineError("--\(flag) is a whole number below \(most), not \(CommandLineError.quoted(text))")
            }
            return value
        }

        /// A beginning in the past would make a crowd of what was to come slowly.
        func share(of scenario: Scenario, seed: UInt64, now: Instant) -> Share {
            let soon = now + .milliseconds(300)
            return Share(scenario, seed: seed, run: run, index: index, of: count, start: max(start ?? soon, soon))
        }
    }

    /// Reads keys and certificates, resolves names.
    static func settings(_ target: SwarmTarget, _ interrupts: Interrupts) throws(NetError) -> Crowd.Settings {
        let tokens: TokenSource?
        let trust: ServerTrust
        do throws(CommandLineError) {
            tokens = if let key = target.key { try TokenSource(key, kid: target.kid) } else { nil }
            trust = try ServerTrust(file: target.authorities, isInsecure: target.isInsecure)
        } catch {
            fail("\(error)\nhub-swarm run --help says more.", code: 2)
        }
        if trust == .anyone, target.urls.contains(where: \.isSecure) { StandardError.write("hub-swarm: \(ServerTrust.warning)\n") }
        var settings = Crowd.Settings(
            routes: try ClientFleet.routes(to: target.urls, trust: trust), tokens: tokens, interrupts: interrupts)
        settings.format =
            switch target.format {
            case .json: .json
            case .msgpack: .messagePack
            case .short: .short
            }
        settings.offersDeflate = target.offersDeflate
        for source in target.sources {
            guard let address = SocketAddress(source.contains(":") ? "[\(source)]:0" : "\(source):0") else {
                fail("--source-addresses: \(source) isn't an address", code: 2)
            }
            settings.sources.append(address)
        }
        return settings
    }

    /// On this machine alone there are addresses enough: a large run takes several of them without being told.
    private static func spread(_ settings: inout Crowd.Settings, connections: Int) {
        let destinations = Set(settings.routes.map(\.address))
        guard settings.sources.isEmpty, destinations.allSatisfy({ $0.isLoopback && $0.description.hasPrefix("127.") }) else { return }
        let count = Capacity.sources(for: connections, ports: ProcessLimits.ephemeralPorts(), destinations: destinations.count)
        if count > 1 { settings.sources = (0..<count).compactMap { SocketAddress("127.0.0.\($0 + 2):0") } }
    }

    static func capacity(_ settings: Crowd.Settings) -> Capacity {
        Capacity(
            descriptors: ProcessLimits.raiseDescriptors(), ports: ProcessLimits.ephemeralPorts(), sources: settings.sources.count,
            destinations: Set(settings.routes.map(\.address)).count)
    }
}

extension Progress {
    mutating func show(_ point: Measures.Point, _ share: Share, _ recorder: MeasuresRecorder) {
        let scenario = share.scenario
        let elapsed = Clock.now().since(share.start)
        let phase =
            elapsed < scenario.rampUp
            ? "ramp-up" : elapsed < scenario.measuredFrom ? "warm-up" : elapsed < scenario.talkingEnds ? "steady" : "cool-down"
        var text = "\(elapsed.milliseconds / 1000) s  \(phase)  connected \(SwarmReport.grouped(point.connected))"
        text += "  sent \(SwarmReport.grouped(point.sent))/s  delivered \(SwarmReport.grouped(point.delivered))/s"
        text += "  errors \(SwarmReport.grouped(point.errors))/s"
        if point.latency.count > 0 {
            text += "  p50 \(SwarmReport.milliseconds(point.latency.percentile(50))) ms"
            text += "  p99 \(SwarmReport.milliseconds(point.latency.percentile(99))) ms"
        }
        showLine(text)
    }
}
