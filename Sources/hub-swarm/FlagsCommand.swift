import Glibc
import HubBase
import HubClientNet
import HubNet
import HubSwarm

/// `hub-swarm` with flags alone: bots that chat in rooms, in this process or in several.
enum FlagsCommand {
    static func execute(_ words: [String]) throws(CommandLineError) -> Int32 {
        var parser = SwarmOptions.parser
        parser.flags += ReportOptions.workerFlags + WorkersPart.flags
        let arguments = try parser.parse(words)
        if arguments.wantsHelp {
            print(SwarmOptions.parser.helpText(), terminator: "")
            return 0
        }
        if arguments.has("version") {
            print("hub-swarm \(HubVersion.text)")
            return 0
        }
        var system = SystemRandomNumberGenerator()
        var options = try SwarmOptions(
            arguments, defaultURL: defaultHub(),
            defaultSeed: system.next() >> 32)
        let reporting = try ReportOptions(arguments)
        try MeasuresFile.check(reporting)
        if let problem = ProcessorSampler.problem(reporting) { fail(problem, code: 3) }
        if reporting.workers > 0 { return try coordinate(arguments, options, reporting) }
        try options.take(WorkersPart(arguments))
        let trust = try ServerTrust(file: options.target.authorities, isInsecure: options.target.isInsecure)
        let tokens: TokenSource? = if let key = options.target.key { try TokenSource(key, kid: options.target.kid) } else { nil }
        return try perform(options, reporting, tokens, trust)
    }

    private static func perform(
        _ options: SwarmOptions, _ reporting: ReportOptions, _ tokens: TokenSource?, _ trust: ServerTrust
    ) throws(CommandLineError) -> Int32 {
        var measures: Measures
        let report: SwarmReport
        do throws(NetError) {
            // Before any other thread, so that they all leave signals to it.
            let interrupts = try Interrupts()
            let routes = try ClientFleet.routes(to: options.target.urls, trust: trust)
            let shortage = options.shortage(
                descriptors: ProcessLimits.raiseDescriptors(), ports: ProcessLimits.ephemeralPorts(),
                destinations: Set(routes.map(\.address)).count)
            if let shortage { fail(shortage, code: 2) }
            // Once for all processes.
            if !reporting.isWorker, options.part.index == 0 { _ = try check(options, interrupts) }
            let sampler = try ProcessorSampler.start(reporting)
            let swarm = try Swarm(options, tokens: tokens, routes: routes, interrupts: interrupts, isWorker: reporting.isWorker)
            let outcome: Swarm.Outcome
            (report, measures, outcome) = swarm.execute()
            sampler?.finish(into: &measures)
            if case .unreachable(let why) = outcome {
                fail("no bot could connect to \(options.target.urls.map(\.description).joined(separator: ", ")): \(why)", code: 3)
            }
        } catch {
            fail(error.description, code: 3)
        }
        if reporting.isWorker {
            try WorkerVoice.send(measures)
            return 0
        }
        return try ReportCommand.finish(measures, reporting) { judging in
            options.isJSON ? report.json(isKept: judging.isKept) : report.text(judging)
        }
    }

    private static func coordinate(
        _ arguments: CommandLineArguments, _ options: SwarmOptions, _ reporting: ReportOptions
    ) throws(CommandLineError) -> Int32 {
        // Said once, here, and not by each.
        var part = WorkersPart()
        part.count = reporting.workers
        var first = options
        try first.take(part)
        let trust = try ServerTrust(file: options.target.authorities, isInsecure: options.target.isInsecure)
        let interrupts: Interrupts
        do throws(NetError) {
            interrupts = try Interrupts()
            if let shortage = try shortage(options, first, trust) { fail(shortage, code: 2) }
            _ = try check(options, interrupts)
        } catch {
            fail(error.description, code: 3)
        }
        let own: Set = ["workers", "report", "save", "expect", "json", "seed", "hub-pid", "redis"]
        let workers = Workers(
            arguments: arguments.words(of: SwarmOptions.parser.flags.filter { !own.contains($0.name) }), count: reporting.workers,
            bots: UInt64(options.bots), title: "\(options.bots) bots",
            start: Clock.now() + .milliseconds(300 + 30 * UInt64(reporting.workers)),
            seed: options.seed)
        var measures: Measures
        do throws(NetError) {
            let sampler = try ProcessorSampler.start(reporting)
            measures = try run(workers, interrupts)
            sampler?.finish(into: &measures)
        } catch {
            fail(error.description, code: 3)
        }
        let code = try ReportCommand.finish(measures, reporting)
        // As one process says it: not one bot got in.
        return measures.missing.count == reporting.workers && !measures.isInterrupted ? 3 : code
    }

    /// Whether the hub is there for us, asked before anything is started. Ends the process with the reason when it isn't; else how it's
    /// spoken to.
    private static func check(_ options: SwarmOptions, _ interrupts: Interrupts) throws(NetError) -> Crowd.Settings {
        var settings = try RunCommand.settings(options.target, interrupts)
        settings.payloadBytes = options.size
        var system = SystemRandomNumberGenerator()
        try Preflight.orEnd(settings, run: options.part.run ?? system.next() >> 12)
        return settings
    }

    /// The same for a run of `words`.
    static func check(_ words: [String], _ interrupts: Interrupts) throws(CommandLineError) -> Crowd.Settings {
        var parser = SwarmOptions.parser
        parser.flags += ReportOptions.workerFlags + WorkersPart.flags
        let options = try SwarmOptions(
            try parser.parse(words), defaultURL: defaultHub(), defaultSeed: 1)
        do throws(NetError) { return try check(options, interrupts) } catch { fail(error.description, code: 3) }
    }

    /// Descriptors are each worker's, ports are the machine's.
    private static func shortage(_ all: SwarmOptions, _ first: SwarmOptions, _ trust: ServerTrust) throws(NetError) -> String? {
        let destinations = Set(try ClientFleet.routes(to: all.target.urls, trust: trust).map(\.address)).count
        let ports = ProcessLimits.ephemeralPorts()
        return first.shortage(descriptors: ProcessLimits.raiseDescriptors(), ports: ports, destinations: destinations)
            ?? all.shortage(descriptors: .max, ports: ports, destinations: destinations)
    }

    private static func run(_ workers: Workers, _ interrupts: Interrupts) throws(NetError) -> Measures {
        do throws(CommandLineError) { return try workers.execute(interrupts) } catch { fail(error.description, code: 2) }
    }
}
