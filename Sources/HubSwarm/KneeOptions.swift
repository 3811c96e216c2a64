import HubBase

/// What `hub-swarm find` was asked for, checked.
package struct KneeOptions: Sendable, Equatable {
    /// What is raised from step to step.
    package enum Raised: String, Sendable, CaseIterable { case users, rate }

    package var targets: [Expectation]
    package var raised = Raised.users
    package var limits: Knee.Limits
    /// Measured, of each step; of a scenario nil: what its file says (`steady`).
    package var seconds: UInt64?
    package static let secondsUsual: UInt64 = 10
    /// Of a rate that's raised: how many bots say it.
    package var bots = 100
    /// A scenario's name or file; nil: a run with flags.
    package var scenario: String?

    package static let flags: [CommandLineParser.Flag] = [
        CommandLineParser.Flag("target", value: "LIST", help: "What must hold, as for --expect: p99<200ms,loss=0."),
        CommandLineParser.Flag("raise", value: "WHAT", help: "users, or rate: messages a second of each bot (default users)."),
        CommandLineParser.Flag("from", value: "N", help: "The first load (default 100 users, or a rate of 0.1)."),
        CommandLineParser.Flag("to", value: "N", help: "The largest load that is tried (default 100000 users, or a rate of 1000)."),
        CommandLineParser.Flag(
            "step-seconds", value: "T", help: "Seconds that each step is measured (default 10; of a scenario its steady time)."),
        CommandLineParser.Flag("bots", value: "N", help: "With --raise rate: how many bots (default 100)."),
        CommandLineParser.Flag("repeats", value: "N", help: "How often the answer must hold (default 3)."),
        CommandLineParser.Flag("precision", value: "SHARE", help: "How near the answer is to where it breaks (default 10%)."),
    ]

    package init(_ arguments: CommandLineArguments) throws(CommandLineError) {
        guard let text = arguments.value("target") else {
            throw CommandLineError("--target is missing: what must hold, such as --target 'p99<200ms'")
        }
        targets = try Expectation.parse(text)
        scenario = arguments.operands.first
        if let text = arguments.value("raise") {
            guard let raised = Raised(rawValue: text) else {
                throw CommandLineError(
                    "--raise is users or rate, not \(CommandLineError.quoted(text))",
                    nearest: Nearest.to(text, in: Raised.allCases.map(\.rawValue)))
            }
            self.raised = raised
        }
        let isWhole = raised == .users
        limits = isWhole ? Knee.Limits(least: 100, most: 100_000) : Knee.Limits(least: 0.1, most: 1000)
        limits.isWhole = isWhole
        if raised == .rate, scenario != nil {
            throw CommandLineError("--raise rate is of runs with flags; of a scenario the users are raised")
        }
        if let number = try Self.number(arguments, "bots", 1, Double(SwarmOptions.botsMax), isWhole: true) {
            guard raised == .rate else {
                throw CommandLineError("--bots is for --raise rate; the users that are raised go from --from to --to")
            }
            bots = Int(number)
        }
        if raised == .rate, arguments.value("rate") != nil {
            throw CommandLineError("--rate is what --raise rate raises: from --from to --to")
        }
        let largest = isWhole ? 1_000_000.0 : 1000
        limits.least = try Self.number(arguments, "from", isWhole ? 1 : 0.001, largest, isWhole: isWhole) ?? limits.least
        limits.most = try Self.number(arguments, "to", isWhole ? 1 : 0.001, largest, isWhole: isWhole) ?? max(limits.most, limits.least)
        guard limits.least <= limits.most else { throw CommandLineError("--from is more than --to") }
        seconds = try Self.number(arguments, "step-seconds", 1, 3600, isWhole: true).map { UInt64($0) }
        limits.repeats = try Self.number(arguments, "repeats", 1, 20, isWhole: true).map { Int($0) } ?? limits.repeats
        if let text = arguments.value("precision") {
            guard text.hasSuffix("%"), let percent = Double(text.dropLast()), percent >= 1, percent <= 100 else {
                throw CommandLineError("--precision is from 1% to 100%, not \(CommandLineError.quoted(text))")
            }
            limits.precision = percent / 100
        }
    }

    private static func number(
        _ arguments: CommandLineArguments, _ flag: String, _ least: Double, _ most: Double, isWhole: Bool
    ) throws(CommandLineError) -> Double? {
        guard let text = arguments.value(flag) else { return nil }
        guard let value = Double(text), value >= least, value <= most, !isWhole || value == value.rounded() else {
            throw CommandLineError(
                "--\(flag) is a \(isWhole ? "whole number" : "number") from \(ReportNumbers.significant(least)) to \(ReportNumbers.significant(most)), not \(CommandLineError.quoted(text))"
            )
        }
        return value
    }
}
