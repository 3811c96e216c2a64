import HubBase
import HubConsole

/// `hubctl nodes [--json]`
enum NodesCommand {
    static func run(_ arguments: CommandLineArguments, _ output: inout Output) throws(Failure) {
        let hub = try Hub(arguments)
        let body = try hub.get("/v1/nodes")
        if arguments.has("json") {
            output.line(body)
        } else if let lines = NodesText.lines(body, on: output.terminal) {
            for line in lines { output.line(line) }
        } else {
            throw .refused("\(hub.url) answered something that is no list of nodes; is it a hub?")
        }
    }
}
