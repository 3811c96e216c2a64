import Glibc
import HubBase
import HubClientNet
import HubNet
import HubSwarm
import HubWire

/// `hub-swarm run`: plays a scenario, in this process or in several.
enum RunCommand {
    private static let runFlags = [
        CommandLineParser.Flag(
            "set", value: "KEY=VALUE", isRepeatable: true, help: "Change a value of the scenario: users=5000, talk.every=10s."),
        CommandLineParser.Flag("seed", value: "SEED", help: "Of all random choices (default: a random one, which is printed)."),
        CommandLineParser.Flag("json", help: "Print the summary as JSON."),
    ]

    static let parser = CommandLineParser(
        program: "hub-swarm run",
        summary: "Plays a scenario: bots that come, talk, read, go away and come back like people, and says what they went through.",
        flags: SwarmTarget.flags + runFlags + ReportOptions.flags,
        operands: [
            CommandLineParser.Operand("SCENARIO", help: "chat, presence, broadcast, herd, hostile, or a file of your own (docs/swarm.md).")
        ],
        examples: [
            CommandLineParser.Example("hub-swarm run chat", "against one node here"),
            CommandLineParser.Example("hub-swarm run herd --set users=5000 --url http://10.0.0.1:8080", "with other numbers, elsewhere"),
        ],
        notes: [
            "Exit codes: 0 all that was promised came, or all expectations are kept; 1 something didn't, or nothing was proved; 2 wrong usage, a mistake in the scenario, or too few descriptors or ports for it; 3 the hub can't be reached or refuses."
        ])

    /// What a run was asked for, checked.
    private struct Request {
        var arguments: CommandLineArguments
        var scenario: Scenario
        var target: SwarmTarget
        var reporting: ReportOptions
        var part: WorkersPart
        var seed: UInt64
        var run: UInt64

        func share(_ index: Int, of count: Int, start: Instant) -> Share {
            Share(scenario, seed: seed, run: run, index: index, of: count, start: start)
        }
    }

    static func execute(_ words: [String]) throws(CommandLineError) -> Int32 {
        var parser = parser
        parser.flags += ReportOptions.workerFlags + WorkersPart.flags
        let arguments = try parser.parse(words)
        if arguments.wantsHelp {
            print(Self.parser.helpText(), terminator: "")
            return 0
        }
        let request = try read(arguments)
        do throws(NetError) {
            // Before any other thread, so that they all leave signals to it.
            let interrupts = try Interrupts()
            let settings = try prepare(request, interrupts)
            let sampler = try ProcessorSampler.start(request.reporting)
            var measures = try request.reporting.workers > 0 ? coordinate(request, interrupts) : play(request, settings)
            sampler?.finish(into: &measures)
            return finish(measures, request.reporting)
        } catch {
            fail(error.description, code: 3)
        }
    }

    /// What would keep a run from being made, found before anything is started: `words` are its, with as many workers as will be. Ends the
    /// process with the reason.
    static func check(_ words: [String], _ interrupts: Interrupts) throws(CommandLineError) -> Crowd.Settings {
        let request = try read(try parser.parse(words))
        do throws(NetError) { return try prepare(request, interrupts) } catch { fail(error.description, code: 3) }
    }

    private static func prepare(_ request: Request, _ interrupts: Interrupts) throws(NetError) -> Crowd.Settings {
        var settings = try settings(request.target, interrupts)
        if request.scenario.talk.every != nil { settings.payloadBytes = request.scenario.talk.size }
        let processes = max(request.reporting.workers, request.part.count)
        let bots = request.share(request.part.index, of: processes, start: Clock.now()).bots
        spread(&settings, connections: bots * processes)
        if let shortage = capacity(settings).shortage(bots: bots, processes: processes) { fail(shortage, code: 2) }
        if let problem = ProcessorSampler.problem(request.reporting) { fail(problem, code: 3) }
        // Once for all processes.
        if !request.reporting.isWorker, request.part.index == 0 { try Preflight.orEnd(settings, run: request.run) }
        guard interrupts.received == 0 else { fail("interrupted before the start", code: 1) }
        return settings
    }

    private static func read(_ arguments: CommandLineArguments) throws(CommandLineError) -> Request {
        let scenario = try ScenarioFile.read(arguments.operands[0], overrides: arguments.values("set"))
        let target = try SwarmTarget(arguments, defaultURL: defaultHub())
        let reporting = try ReportOptions(arguments)
        try MeasuresFile.check(reporting)
        let part = try WorkersPart(arguments)
        if part.count > 1, !arguments.has("run") || !arguments.has("seed") {
            throw CommandLineError("--share needs --run and --seed: all parts of a run must have the same")
        }
        var system = SystemRandomNumberGenerator()
        var seed = system.next() >> 32
        if let text = arguments.value("seed") {
            guard let given = UInt64(text) else { throw CommandLineError("--seed is a whole number, not \(CommandLineError.quoted(text))") }
            seed = given
        }
        return Request(
            arguments: arguments, scenario: scenario, target: target, reporting: reporting, part: part, seed: seed,
            run: part.run ?? system.next() >> 12)
    }

    private static func play(_ request: Request, _ settings: Crowd.Settings) throws(NetError) -> Measures {
        // A beginning in the past would make a crowd of what was to come slowly.
        let soon = Clock.now() + .milliseconds(300)
        let share = request.share(request.part.index, of: request.part.count, start: max(request.part.start ?? soon, soon))
        let scenario = request.scenario
        var progress = Progress(title: scenario.name)
        if !request.reporting.isWorker {
            progress.say(
                "\(scenario.name): \(share.bots) connections for \(scenario.talkingEnds.milliseconds / 1000) s, seed \(request.seed)")
        }
        let crowd = try Crowd(share, settings)
        var measures = crowd.execute { point in
            guard !request.reporting.isWorker else { return WorkerVoice.send(point) }
            let elapsed = Clock.now().since(share.start)
            progress.show(
                ReportProgress.Moment(
                    seconds: elapsed.milliseconds / 1000, phase: scenario.phase(at: elapsed), point: point, bots: UInt64(share.bots)))
        }
        progress.end()
        measures.options = options(request)
        measures.environment = ReportCommand.environment(urls: request.target.urls.map(\.description))
        return measures
    }

    private static func coordinate(_ request: Request, _ interrupts: Interrupts) throws(NetError) -> Measures {
        let passed = SwarmTarget.flags + runFlags.filter { $0.name == "set" }
        let workers = Workers(
            arguments: ["run", request.arguments.operands[0]] + request.arguments.words(of: passed), count: request.reporting.workers,
            bots: UInt64(request.scenario.bots(of: 0..<request.scenario.users)), title: request.scenario.name,
            start: Clock.now() + .milliseconds(500 + 30 * UInt64(request.reporting.workers)), seed: request.seed)
        do throws(CommandLineError) { return try workers.execute(interrupts) } catch { fail(error.description, code: 2) }
    }

    private static func finish(_ measures: Measures, _ reporting: ReportOptions) -> Int32 {
        do throws(CommandLineError) {
            if reporting.isWorker {
                try WorkerVoice.send(measures)
                return 0
            }
            return try ReportCommand.finish(measures, reporting)
        } catch {
            fail(error.description, code: 2)
        }
    }

    /// For reports: what makes this run another than the file says.
    private static func options(_ request: Request) -> [[String]] {
        var rows = [["users", String(request.scenario.users)], ["format", request.target.format.rawValue]]
        rows.append(["deflate", String(request.target.offersDeflate)])
        for set in request.arguments.values("set") {
            let equals = set.firstIndex(of: "=") ?? set.endIndex
            rows.append(["--set \(set[..<equals])", String(set[equals...].dropFirst())])
        }
        return rows
    }

    // MARK: Where it goes

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

    private static func capacity(_ settings: Crowd.Settings) -> Capacity {
        Capacity(
            descriptors: ProcessLimits.raiseDescriptors(), ports: ProcessLimits.ephemeralPorts(), sources: settings.sources.count,
            destinations: Set(settings.routes.map(\.address)).count)
    }
}
