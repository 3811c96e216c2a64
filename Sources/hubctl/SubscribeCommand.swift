import HubBase

/// `hubctl subscribe CHANNEL… [--json]`
enum SubscribeCommand {
    static func run(_ arguments: CommandLineArguments, _ output: inout Output) throws(Failure) {
        let channels = try arguments.operands.map { (text) throws(Failure) in try Names.parse(text, "channel") }
        output = try Follower.run(Hub(arguments), wish: .channels(channels), isJSON: arguments.has("json"), output)
    }
}
