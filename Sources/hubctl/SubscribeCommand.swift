import HubBase
import HubWire

/// `hubctl subscribe CHANNEL… [--from POSITION] [--json]`
enum SubscribeCommand {
    static func run(_ arguments: CommandLineArguments, _ output: inout Output) throws(Failure) {
        let channels = try arguments.operands.map { (text) throws(Failure) in try Names.parse(text, "channel") }
        let from = try arguments.value("from").map { (text) throws(Failure) in try Names.position(text, "--from") }
        guard from == nil || channels.count == 1 else { throw .usage("--from is a position of one channel: name one") }
        output = try Follower.run(Hub(arguments), wish: .channels(channels, from: from), isJSON: arguments.has("json"), output)
    }
}
