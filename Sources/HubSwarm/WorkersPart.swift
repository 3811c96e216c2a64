import HubBase

/// Which part of a run with flags a process does: its own bots in its own rooms, so that it can judge what they were owed by itself. All
/// parts have the same seed, number and beginning.
package struct WorkersPart: Sendable, Equatable {
    /// From 0.
    package var index = 0
    package var count = 1
    /// Tells this run from others; nil: any.
    package var run: UInt64?
    /// Of the joining, on the host's monotonic clock; nil: at once.
    package var start: Instant?

    package static let flags: [CommandLineParser.Flag] = [
        CommandLineParser.Flag("share", value: "I/N", help: "Do only the I-th of N parts."),
        CommandLineParser.Flag("run", value: "RUN", help: "With --share: a number that all parts have, and no other run."),
        CommandLineParser.Flag("start", value: "NANOSECONDS", help: "With --share: when all parts begin, on the monotonic clock."),
    ]

    package init() {}

    package init(_ arguments: CommandLineArguments) throws(CommandLineError) {
        if let text = arguments.value("share") {
            let ends = text.split(separator: "/", omittingEmptySubsequences: false).map { Int($0) }
            guard ends.count == 2, let number = ends[0], let all = ends[1], (1...1000).contains(all), (1...all).contains(number) else {
                throw CommandLineError("--share is I/N, with N up to 1000 and I from 1 to N, not \(CommandLineError.quoted(text))")
            }
            (index, count) = (number - 1, all)
        }
        if let text = arguments.value("run") {
            guard let number = UInt64(text), number < 1 << 52 else {
                throw CommandLineError("--run is a whole number, not \(CommandLineError.quoted(text))")
            }
            run = number
        }
        if let text = arguments.value("start") {
            guard let nanoseconds = UInt64(text), nanoseconds < 1 << 62 else {
                throw CommandLineError("--start is a time of the monotonic clock in nanoseconds, not \(CommandLineError.quoted(text))")
            }
            start = Instant(nanoseconds: nanoseconds)
        }
    }

    /// Which of `number` things; what's left over goes to the first parts.
    package func part(of number: Int) -> Range<Int> {
        let each = number / count
        let rest = number % count
        let first = index * each + min(index, rest)
        return first..<first + each + (index < rest ? 1 : 0)
    }
}
