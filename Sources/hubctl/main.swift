import Glibc
import HubBase

// A reader that goes away (`hubctl … | head -1`) is told by write, not by a signal.
signal(SIGPIPE, SIG_IGN)

func run(_ output: inout Output) throws(Failure) {
    let arguments: CommandLineArguments
    do throws(CommandLineError) {
        let given = Array(CommandLine.arguments.dropFirst())
        // `hubctl --version` needs no command.
        if given == ["--version"] { return output.line("hubctl \(HubVersion.text)") }
        arguments = try HubctlCommandLine.parser.parse(given)
    } catch {
        throw .usage("\(error)\nhubctl --help says more.")
    }
    if arguments.wantsHelp {
        let help = HubctlCommandLine.parser.helpText(command: arguments.command)
        return output.line(String(help.dropLast()))
    }
    if arguments.has("version") { return output.line("hubctl \(HubVersion.text)") }
    switch arguments.command {
    case "presence": try PresenceCommand.run(arguments, &output)
    case "publish": try PublishCommand.run(arguments, &output)
    case "subscribe": try SubscribeCommand.run(arguments, &output)
    case "history": try HistoryCommand.run(arguments, &output)
    case "members": try MembersCommand.run(arguments, &output)
    case "nodes": try NodesCommand.run(arguments, &output)
    case "token": try TokenCommand.run(arguments, &output)
    case "disconnect": try DisconnectCommand.run(arguments, &output)
    case "revoke": try RevokeCommand.run(arguments, &output)
    case let other: preconditionFailure("the parser let \(other ?? "no command") through")
    }
}

var output = Output()
do throws(Failure) {
    try run(&output)
    if output.failure != 0 {
        output.error("can't write to standard output: \(String(cString: strerror(output.failure)))")
        exit(1)
    }
} catch {
    output.error(error.text)
    exit(error.kind.rawValue)
}
