import Glibc
import HubBase
import HubClientNet
import HubNet
import HubSwarm

/// `hub-swarm find`: runs a swarm again and again, with more and with less, and says how much held. Each step is a run of its own by
/// workers of its own, so that nothing of one is left over in the next.
enum FindCommand {
    /// What a step passes on to its run.
    private static let passed = SwarmOptions.parser.flags.filter {
        !["bots", "seconds", "json", "version", "expect", "report", "save", "workers", "hub-pid", "redis", "seed"].contains($0.name)
    }
    private static let kept = SwarmOptions.parser.flags.filter {
        ["workers", "hub-pid", "redis", "seed", "report", "save", "json"].contains($0.name)
    }

    static let parser = CommandLineParser(
        program: "hub-swarm find",
        summary: "Raises the load until a target breaks, confirms it, and says how much held and why not more.",
        flags: KneeOptions.flags + kept + passed + scenarioFlags,
        operands: [
            CommandLineParser.Operand("SCENARIO", .optional, help: "Its users are raised; without one, the bots of a run with flags.")
        ],
        examples: [
            CommandLineParser.Example("hub-swarm find --target 'p99<200ms,loss=0'", "how many bots one node here holds"),
            CommandLineParser.Example("hub-swarm find --target 'p99<50ms' --raise rate --rooms 10", "how many messages a second"),
        ],
        notes: [
            "--report and --save are of the best run that held.",
            "Exit codes: 0 found; 1 even the least broke, it was interrupted, or the generator was the bottleneck; 2 wrong usage; 3 the hub can't be reached.",
        ])

    static func execute(_ words: [String]) throws(CommandLineError) -> Int32 {
        let arguments = try parser.parse(words)
        if arguments.wantsHelp {
            print(parser.helpText(), terminator: "")
            return 0
        }
        let options = try KneeOptions(arguments)
        var reporting = try ReportOptions(arguments)
        reporting.workers = max(reporting.workers, 1)
        try MeasuresFile.check(reporting)
        if let problem = ProcessorSampler.problem(reporting) { fail(problem, code: 3) }
        let interrupts: Interrupts
        do throws(NetError) { interrupts = try Interrupts() } catch { throw CommandLineError(error.description) }
        // A mistake, or a hub that isn't there, isn't a load that broke.
        let words = arguments.words(of: passed + scenarioFlags)
        let hub: Crowd.Settings
        if let scenario = options.scenario {
            hub = try RunCommand.check(
                [scenario] + words + ["--set=users=\(Int(options.limits.least))", "--workers=\(reporting.workers)"], interrupts)
        } else {
            if let flag = scenarioFlags.first(where: { arguments.has($0.name) }) {
                throw CommandLineError("--\(flag.name) is for a scenario: hub-swarm find chat --\(flag.name) …")
            }
            // The most bots: rooms may be more than the least has.
            let bots = options.raised == .users ? Int(options.limits.most) : options.bots
            hub = try FlagsCommand.check(words + ["--bots=\(bots)"], interrupts)
        }
        var search = Search(options: options, reporting: reporting, passed: words, hub: hub)
        return try search.execute()
    }

    /// Known to a scenario's run alone.
    private static let scenarioFlags =
        [CommandLineParser.Flag("set", value: "KEY=VALUE", isRepeatable: true, help: "With a scenario: change a value of it.")]
        + SwarmTarget.speechFlags

    private struct Search {
        let options: KneeOptions
        let reporting: ReportOptions
        let passed: [String]
        /// How it's asked whether it's still there.
        let hub: Crowd.Settings
        var best: (load: Double, measures: Measures)?
        var broken: Measures?
        var generatorWasShort: String?

        mutating func execute() throws(CommandLineError) -> Int32 {
            var knee = Knee(options.limits)
            while true {
                switch knee.next() {
                case .measure(let load):
                    let measures = try run(load)
                    guard hub.interrupts.received == 0 else {
                        StandardError.write("hub-swarm: interrupted; so far \(best.map { text($0.load) + " held" } ?? "nothing held")\n")
                        return 1
                    }
                    if measures.counter(Measures.Counter.joined) == 0, best == nil {
                        // Its own word is on standard error already.
                        let code: Int32 = measures.missing.first?.contains("with code 2") == true ? 2 : 3
                        fail("no bot could connect: \(measures.missing.first ?? measures.ends.keys.min() ?? "no answer")", code: code)
                    }
                    let held = note(measures, load)
                    if !held { try endIfGone() }
                    knee.record(held: held)
                case .finished(let answer): return try finish(answer)
                }
            }
        }

        /// A hub that has died is no load that broke, and what it held before was asked too seldom to be an answer.
        private func endIfGone() throws(CommandLineError) {
            var system = SystemRandomNumberGenerator()
            let problem: String?
            do throws(NetError) { problem = try Preflight.problem(hub, run: system.next() >> 12) } catch { problem = error.description }
            guard let problem, hub.interrupts.received == 0 else { return }
            fail(
                "the hub isn't there for us any more: \(problem); so far \(best.map { text($0.load) + " held" } ?? "nothing held")", code: 3
            )
        }

        private func run(_ load: Double) throws(CommandLineError) -> Measures {
            var words = passed
            if let scenario = options.scenario {
                // Ours behind what was given: the last one counts.
                words = ["run", scenario] + words + ["--set=users=\(Int(load))"]
                if let seconds = options.seconds { words.append("--set=steady=\(seconds)s") }
            } else {
                words.append("--seconds=\(options.seconds ?? KneeOptions.secondsUsual)")
                words += options.raised == .users ? ["--bots=\(Int(load))"] : ["--bots=\(options.bots)", "--rate=\(load)"]
                if options.raised == .users, !words.contains(where: { $0.hasPrefix("--connect-rate=") }) {
                    // Joining takes no longer for many than for few, up to what a hub takes.
                    words.append("--connect-rate=\(max(500, min(Int(load / 5), 2000)))")
                }
            }
            // A scenario's users may have several devices: its workers tell how many bots that makes.
            let bots = options.scenario != nil ? 0 : options.raised == .users ? UInt64(load) : UInt64(options.bots)
            let workers = Workers(
                arguments: words, count: reporting.workers, bots: bots, title: "find: " + text(load),
                start: Clock.now() + .milliseconds(300 + 30 * UInt64(reporting.workers)), seed: UInt64(load.rounded()) &+ 1)
            do throws(NetError) {
                let sampler = try ProcessorSampler.start(reporting)
                var measures = try workersResult(workers)
                sampler?.finish(into: &measures)
                return measures
            } catch {
                throw CommandLineError(error.description)
            }
        }

        private func workersResult(_ workers: Workers) throws(NetError) -> Measures {
            do throws(CommandLineError) { return try workers.execute(hub.interrupts) } catch { fail(error.description, code: 2) }
        }

        /// Whether it held, told.
        private mutating func note(_ measures: Measures, _ load: Double) -> Bool {
            let judging = Judging(measures, expectations: options.targets)
            let judgements = judging.judgements
            let faults = judging.faults + Knee.refusals(in: measures, unless: options.targets)
            let held = faults.isEmpty && judgements.allSatisfy(\.isKept)
            let words = judgements.map { "\($0.expectation): \($0.measured)" } + faults
            StandardError.write("hub-swarm: \(text(load)) \(held ? "held" : "broke") (\(words.joined(separator: "; ")))\n")
            if held {
                if load >= best?.load ?? 0 { best = (load, measures) }
            } else {
                broken = measures
                // A worker that died, or had no descriptors left, says nothing of the hub.
                generatorWasShort = measures.missing.first ?? Bottleneck(measures).generator ?? generatorWasShort
            }
            return held
        }

        private func text(_ load: Double) -> String {
            options.raised == .users
                ? "\(ReportNumbers.count(UInt64(load))) users" : "a rate of \(ReportNumbers.significant(load)) for each bot"
        }

        /// Errors and ends of connections, the most frequent first: a hub that refuses says more than its processor time.
        private static func refusals(_ broken: Measures) -> String? {
            var said = broken.errors
            Measures.add(broken.ends, to: &said)
            let sorted = said.filter { $0.value > 0 }.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.prefix(3)
            guard !sorted.isEmpty else { return nil }
            return sorted.map { "\(ReportNumbers.plain($0.key)) (\(ReportNumbers.count($0.value)) times)" }.joined(separator: ", ")
        }

        private func finish(_ answer: Knee.Answer) throws(CommandLineError) -> Int32 {
            let held: Double?
            switch answer {
            case .held(let load, broke: nil):
                print("\(text(load)) held, the most that was to be tried (--to)")
                held = load
            case .held(let load, broke: .some(let above)):
                print("\(text(load)) held \(options.limits.repeats) times, \(text(above)) broke")
                held = load
            case .unsettled(let load):
                print("not settled after \(options.limits.stepsMax) steps" + (load.map { ": \(text($0)) held" } ?? ""))
                held = load
            case .nothing:
                print("nothing held: \(text(options.limits.least)) broke already; try less (--from)")
                held = nil
            }
            if let broken {
                print("what was short when it broke: \(Bottleneck(broken).reason)")
                if let refusals = Self.refusals(broken) { print("what the hub said when it broke: \(refusals)") }
                if broken.latency().count == 0 {
                    print("nothing was delivered in that step: --step-seconds, --rate or --from may be too little to judge by")
                }
            }
            if let generatorWasShort { print("warning: \(generatorWasShort); the hub may hold more") }
            guard held != nil, let best else { return 1 }
            var reporting = reporting
            reporting.expectations = options.targets
            _ = try ReportCommand.finish(best.measures, reporting)
            return generatorWasShort == nil ? 0 : 1
        }
    }
}
