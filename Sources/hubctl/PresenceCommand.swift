import HubBase
import HubClient
import HubConsole
import HubWire

/// `hubctl presence USER… [--json] [--watch | --explain]`
enum PresenceCommand {
    static func run(_ arguments: CommandLineArguments, _ output: inout Output) throws(Failure) {
        let users = try arguments.operands.map { (text) throws(Failure) in try Names.parse(text, "user") }
        let hub = try Hub(arguments)
        let explains = arguments.has("explain")
        if arguments.has("watch") {
            guard !explains else { throw .usage("--watch and --explain don't go together: --explain tells of one moment") }
            output = try Follower.run(hub, wish: .presence(users), isJSON: arguments.has("json"), output)
            return
        }
        for user in users {
            let body = try hub.get("/v1/presence/" + HubURL.encode(user.bytes) + (explains ? "?explain=1" : ""))
            if arguments.has("json") {
                output.line(body)
            } else if explains, let lines = ExplanationText.lines(body, on: output.terminal) {
                for line in lines { output.line(line) }
            } else if let lines = PresenceText.lines(body, now: Output.wallMilliseconds(), on: output.terminal) {
                for line in lines { output.line(line) }
            } else {
                throw .refused("\(hub.url) answered something that is no presence; is it a hub?")
            }
        }
    }
}

/// Channel names and user ids from the command line.
enum Names {
    static func parse(_ text: String, _ what: String, limit: Int = Name.lengthMax) throws(Failure) -> Name {
        guard let name = Name(validating: text, limit: limit) else {
            throw .refused("badName: a \(what) has 1 to \(limit) bytes without control characters, not \(CommandLineError.quoted(text))")
        }
        return name
    }

    static func position(_ text: String, _ what: String) throws(Failure) -> Position {
        guard let position = Array(text.utf8).withUnsafeBytes({ Position(text: $0) }) else {
            throw .usage(
                "\(what) is a position as the hub gives them out, such as x7c2mq4a.17.q3hd5k2b, not \(CommandLineError.quoted(text))")
        }
        return position
    }
}
