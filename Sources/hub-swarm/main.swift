import Glibc
import HubBase
import HubClientNet

func fail(_ text: String, code: Int32) -> Never {
    StandardError.write("hub-swarm: " + text + "\n")
    exit(code)
}

/// Where it goes when no flag names a hub.
func defaultHub() -> String { getenv("HUB_URL").map { String(cString: $0) } ?? "http://127.0.0.1:8080" }

func execute() throws(CommandLineError) -> Int32 {
    let words = CommandLine.arguments
    // The password of a Redis isn't shown by ps for longer than the start takes.
    ShownArguments.hide { argument, previous in
        guard argument.contains("@") else { return nil }
        return argument.hasPrefix("--redis=") ? "--redis=".utf8.count : previous == "--redis" ? 0 : nil
    }
    let rest = Array(words.dropFirst(2))
    switch words.dropFirst().first {
    case "run": return try RunCommand.execute(rest)
    case "check": return try CheckCommand.execute(rest)
    case "compare": return try ReportCommand.compare(rest)
    case "report": return try ReportCommand.report(rest)
    case "find": return try FindCommand.execute(rest)
    default: return try FlagsCommand.execute(Array(words.dropFirst()))
    }
}

do throws(CommandLineError) {
    exit(try execute())
} catch {
    fail("\(error)\nhub-swarm --help says more.", code: 2)
}
