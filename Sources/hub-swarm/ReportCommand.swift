import Glibc
import HubBase
import HubClientNet
import HubSwarm

/// The end of every run: files, summary, exit code. And `hub-swarm compare`, `hub-swarm report`, which make pages of saved measures.
enum ReportCommand {
    /// 0 or 1. `summary`: what is printed instead of the measures' own summary, where there's an older one with more in it.
    static func finish(
        _ measures: Measures, _ options: ReportOptions, summary: ((Judging) -> String)? = nil
    ) throws(CommandLineError) -> Int32 {
        let judging = Judging(measures, expectations: options.expectations)
        // Words first: a full disk must not swallow them.
        if let summary {
            print(summary(judging))
            if !options.isJSON, !judging.judgements.isEmpty || !judging.warnings.isEmpty { print(judging.text) }
            if options.isJSON, !judging.judgements.isEmpty || !judging.warnings.isEmpty { StandardError.write(judging.text + "\n") }
        } else {
            print(options.isJSON ? ReportSummary.json(measures, judging) : ReportSummary.text(measures, judging))
        }
        if let path = options.measures { try MeasuresFile.write(measures, to: path) }
        if let path = options.page { try MeasuresFile.write(Array(Report(measures, judging).html.utf8), to: path) }
        return judging.isKept ? 0 : 1
    }

    /// Name and value of what a run happened on.
    static func environment(urls: [String]) -> [[String]] {
        var rows = [["hub-swarm", HubVersion.text], ["hub", urls.joined(separator: ", ")]]
        var name = utsname()
        if uname(&name) == 0 {
            func text<Characters>(_ characters: Characters) -> String {
                withUnsafeBytes(of: characters) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            }
            rows.append(["system", "\(text(name.sysname)) \(text(name.release)), \(text(name.machine))"])
        }
        rows.append(["processors", String(sysconf(Int32(_SC_NPROCESSORS_ONLN)))])
        return rows.map { $0.map { String($0.prefix(400)) } }
    }

    // MARK: compare

    static let compareParser = CommandLineParser(
        program: "hub-swarm compare",
        summary: "Puts two saved runs side by side, and says which differences are more than chance.",
        flags: [CommandLineParser.Flag("report", value: "FILE", help: "Write a page of HTML too.")],
        operands: [
            CommandLineParser.Operand("FIRST", help: "A file of --save."), CommandLineParser.Operand("SECOND", help: "Another one."),
        ],
        examples: [
            CommandLineParser.Example("hub-swarm compare before.json after.json", "of the same scenario, before and after a change")
        ],
        notes: ["Exit codes: 0 nothing got worse; 1 something did; 2 wrong usage, or a file that can't be read."])

    static func compare(_ words: [String]) throws(CommandLineError) -> Int32 {
        let arguments = try compareParser.parse(words)
        if arguments.wantsHelp {
            print(compareParser.helpText(), terminator: "")
            return 0
        }
        let comparison = ReportComparison(try MeasuresFile.read(arguments.operands[0]), try MeasuresFile.read(arguments.operands[1]))
        print(comparison.text)
        if let path = arguments.value("report") { try MeasuresFile.write(Array(comparison.html.utf8), to: path) }
        return comparison.rows.contains { $0.meaning == .worse } ? 1 : 0
    }

    // MARK: report

    static let reportParser = CommandLineParser(
        program: "hub-swarm report",
        summary: "Makes the page, the summary and the judgement of a saved run again.",
        flags: [
            CommandLineParser.Flag("report", value: "FILE", help: "Write a page of HTML with plots."),
            CommandLineParser.Flag("expect", value: "LIST", isRepeatable: true, help: "What must hold: loss=0,p99<50ms."),
            CommandLineParser.Flag("json", help: "Print the summary as JSON."),
        ],
        operands: [CommandLineParser.Operand("FILE", help: "A file of --save.")],
        examples: [CommandLineParser.Example("hub-swarm report run.json --report run.html", "the page of a run of yesterday")],
        notes: ["Exit codes: 0 all is kept; 1 something isn't; 2 wrong usage, or a file that can't be read."])

    static func report(_ words: [String]) throws(CommandLineError) -> Int32 {
        let arguments = try reportParser.parse(words)
        if arguments.wantsHelp {
            print(reportParser.helpText(), terminator: "")
            return 0
        }
        let options = try ReportOptions(arguments)
        try MeasuresFile.check(options)
        return try finish(try MeasuresFile.read(arguments.operands[0]), options)
    }
}
