import Glibc
import HubBase
import HubClientNet

func fail(_ text: String, code: Int32) -> Never {
    StandardError.write("hub-swarm: " + text + "\n")
    exit(code)
}

func execute() throws(CommandLineError) -> Int32 {
    let rest = Array(CommandLine.arguments.dropFirst(2))
    switch CommandLine.arguments.dropFirst().first {
    case "run": return try RunCommand.execute(rest)
    case "check": return try CheckCommand.execute(rest)
    case "compare": return try ReportCommand.compare(rest)
    case "report": return try ReportCommand.report(rest)
    case "find": return try FindCommand.execute(rest)
    default: return try FlagsCommand.execute(Array(CommandLine.arguments.dropFirst()))
    }
}

do throws(CommandLineError) {
    exit(try execute())
} catch {
    fail("\(error)\nhub-swarm --help says more.", code: 2)
}
