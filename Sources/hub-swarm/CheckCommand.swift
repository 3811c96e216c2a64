import Glibc
import HubBase
import HubCheck

/// `hub-swarm check`: judges what any clients wrote down.
enum CheckCommand {
    static let parser = CommandLineParser(
        program: "hub-swarm check",
        summary: "Reads clients' journals and says whether anything was lost without a word, came twice or out of order.",
        flags: [
            CommandLineParser.Flag(
                "grace", value: "SECONDS",
                help: "Who goes away or unsubscribes must have what was acknowledged so long before: 0 to 3600 (default: 10)."),
            CommandLineParser.Flag("replaced", help: "The backend may replace payloads: what was sent isn't compared with what came."),
        ],
        operands: [CommandLineParser.Operand("JOURNAL", .oneOrMore, help: "A file of lines, of one client or of several.")],
        examples: [CommandLineParser.Example("hub-swarm check alice.jsonl bob.jsonl", "of two clients of one run")],
        notes: [
            "A journal has a line of JSON for each thing that happened: {\"t\":MICROSECONDS,\"client\":NAME,\"out\":ENVELOPE}, the same with \"in\", "
                + "and {\"t\":…,\"client\":…,\"end\":true} when a connection is over, with \"heard\":MICROSECONDS if it's known when anything came last: "
                + "what was acknowledged after that, less the grace, isn't owed.",
            "{\"t\":…,\"client\":NODE,\"killed\":true} says that a node is no more, by the name in its welcomes: what it acknowledged up to then may be "
                + "taken back without a word. An HTTP publication is written as on a WebSocket, without a welcome; its ack may name the \"node\".",
            "Exit codes: 0 nothing found; 1 something was, or the journals prove nothing; 2 wrong usage, or a file or a line that can't be read.",
        ])

    static func execute(_ words: [String]) throws(CommandLineError) -> Int32 {
        let arguments = try parser.parse(words)
        if arguments.wantsHelp {
            print(parser.helpText(), terminator: "")
            return 0
        }
        var files: [(name: String, bytes: [UInt8])] = []
        for path in arguments.operands {
            guard let bytes = contents(of: path) else {
                throw CommandLineError("\(path) can't be read: \(String(cString: strerror(errno)))")
            }
            files.append((path, bytes))
        }
        var grace = DeliveryChecker.grace
        if let text = arguments.value("grace") {
            guard let seconds = UInt64(text), seconds <= 3600 else {
                throw CommandLineError("--grace must be whole seconds from 0 to 3600, not \(CommandLineError.quoted(text))")
            }
            grace = .seconds(seconds)
        }
        var reader = JournalReader(grace: grace, replacesPayloads: arguments.has("replaced"))
        do throws(JournalReader.Problem) {
            let report = try reader.judge(files)
            print(report.text(clients: reader.clientNames))
            return report.isClean ? 0 : 1
        } catch {
            throw CommandLineError(error.description)
        }
    }

    private static func contents(of path: String) -> [UInt8]? {
        guard let file = fopen(path, "r") else { return nil }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = fread(&part, 1, part.count, file)
            if count == 0 { return ferror(file) == 0 ? bytes : nil }
            bytes += part[..<count]
        }
    }
}
