import Glibc
import HubBase
import HubClientNet
import HubNet
import HubSwarm

func fail(_ text: String, code: Int32) -> Never {
    StandardError.write("hub-swarm: " + text + "\n")
    exit(code)
}

func execute() throws(CommandLineError) -> Int32 {
    if CommandLine.arguments.dropFirst().first == "check" { return try CheckCommand.execute(Array(CommandLine.arguments.dropFirst(2))) }
    if CommandLine.arguments.dropFirst().first == "run" { return try RunCommand.execute(Array(CommandLine.arguments.dropFirst(2))) }
    let arguments = try SwarmOptions.parser.parse(Array(CommandLine.arguments.dropFirst()))
    if arguments.wantsHelp {
        print(SwarmOptions.parser.helpText(), terminator: "")
        return 0
    }
    if arguments.has("version") {
        print("hub-swarm \(HubVersion.text)")
        return 0
    }
    var system = SystemRandomNumberGenerator()
    let options = try SwarmOptions(
        arguments, defaultURL: getenv("HUB_URL").map { String(cString: $0) } ?? "http://127.0.0.1:8080", defaultSeed: system.next() >> 32)
    var tokens: TokenSource?
    let trust = try ServerTrust(file: options.authorities, isInsecure: options.isInsecure)
    if trust == .anyone, options.urls.contains(where: \.isSecure) { StandardError.write("hub-swarm: \(ServerTrust.warning)\n") }
    if let key = options.key { tokens = try TokenSource(key, kid: options.kid) }

    do throws(NetError) {
        // Before any other thread, so that they all leave signals to it.
        let interrupts = try Interrupts()
        let routes = try ClientFleet.routes(to: options.urls, trust: trust)
        let shortage = options.shortage(
            descriptors: ProcessLimits.raiseDescriptors(), ports: ProcessLimits.ephemeralPorts(),
            destinations: Set(routes.map(\.address)).count)
        if let shortage { fail(shortage, code: 2) }
        let swarm = try Swarm(options, tokens: tokens, routes: routes, interrupts: interrupts)
        let (report, outcome) = swarm.execute()
        if case .unreachable(let why) = outcome {
            fail("no bot could connect to \(options.urls.map(\.description).joined(separator: ", ")): \(why)", code: 3)
        }
        print(options.isJSON ? report.json : report.text)
        return report.isClean ? 0 : 1
    } catch {
        fail(error.description, code: 3)
    }
}

do throws(CommandLineError) {
    exit(try execute())
} catch {
    fail("\(error)\nhub-swarm --help says more.", code: 2)
}
