import HubBase

/// What is to become of a run's measures, and what is watched beside it: the same flags for every way of running a swarm.
package struct ReportOptions: Sendable, Equatable {
    package var expectations: [Expectation] = []
    /// Where the page of HTML goes.
    package var page: String?
    /// Where the measures go, for `compare` and for programs.
    package var measures: String?
    package var isJSON = false
    /// Processes; 0: this one does it all.
    package var workers = 0
    /// Whose processor time is asked of the kernel.
    package var hubProcesses: [Int32] = []
    /// "host:port" and the secret of a Redis whose processor time is asked.
    package var redis: RedisPlace?
    /// This process is a worker: frames instead of words.
    package var isWorker = false

    package struct RedisPlace: Sendable, Equatable {
        package var host: String
        package var port: String
        package var user: String?
        package var secret: String?
    }

    package static let workersMax = 200

    package static let flags: [CommandLineParser.Flag] = [
        CommandLineParser.Flag(
            "expect", value: "LIST", isRepeatable: true,
            help: "What must hold, with commas: loss=0,p99<50ms,errors<=0.1%; decides the exit code."),
        CommandLineParser.Flag("report", value: "FILE", help: "Write a page of HTML with plots."),
        CommandLineParser.Flag("save", value: "FILE", help: "Write all measures as JSON, for hub-swarm compare."),
        CommandLineParser.Flag("workers", value: "N", help: "Share the work among N processes of this machine."),
        CommandLineParser.Flag(
            "hub-pid", value: "PID", isRepeatable: true, help: "A hub's process on this machine: its processor time goes into the report."),
        CommandLineParser.Flag("redis", value: "URL", help: "The hubs' Redis: its processor time goes into the report."),
    ]

    /// Between a coordinator and its workers; not in any help.
    package static let workerFlags: [CommandLineParser.Flag] = [
        CommandLineParser.Flag("frames", help: "Write frames for a coordinator on standard output instead of a summary.")
    ]

    package init() {}

    package init(_ arguments: CommandLineArguments) throws(CommandLineError) {
        for text in arguments.values("expect") { expectations += try Expectation.parse(text) }
        page = try Self.path(arguments, "report")
        measures = try Self.path(arguments, "save")
        isJSON = arguments.has("json")
        isWorker = arguments.has("frames")
        if let text = arguments.value("workers") {
            guard let number = Int(text), (1...Self.workersMax).contains(number) else {
                throw CommandLineError("--workers is from 1 to \(Self.workersMax), not \(CommandLineError.quoted(text))")
            }
            workers = number
        }
        for text in arguments.values("hub-pid").flatMap({ $0.split(separator: ",", omittingEmptySubsequences: false).map(String.init) }) {
            guard let process = Int32(text), process > 0 else {
                throw CommandLineError("--hub-pid is the number of a process, not \(CommandLineError.quoted(text))")
            }
            hubProcesses.append(process)
        }
        if let text = arguments.value("redis") { redis = try Self.redis(text) }
    }

    private static func path(_ arguments: CommandLineArguments, _ flag: String) throws(CommandLineError) -> String? {
        guard let path = arguments.value(flag) else { return nil }
        guard !path.isEmpty else { throw CommandLineError("--\(flag) names no file") }
        return path
    }

    /// `redis://[user:secret@]host[:port]`; the secret isn't in any message.
    private static func redis(_ text: String) throws(CommandLineError) -> RedisPlace {
        let wrong = CommandLineError("--redis is a URL such as redis://127.0.0.1:6379 (TLS isn't spoken here)")
        guard text.hasPrefix("redis://") else { throw wrong }
        var rest = text.dropFirst("redis://".count)
        var place = RedisPlace(host: "", port: "6379", user: nil, secret: nil)
        if let at = rest.lastIndex(of: "@") {
            let parts = rest[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { throw wrong }
            place.user = parts[0].isEmpty ? nil : String(parts[0])
            place.secret = String(parts[1])
            rest = rest[rest.index(after: at)...]
        }
        if let slash = rest.firstIndex(of: "/") { rest = rest[..<slash] }
        if let colon = rest.lastIndex(of: ":"), !rest.hasSuffix("]") {
            place.port = String(rest[rest.index(after: colon)...])
            rest = rest[..<colon]
        }
        if rest.hasPrefix("["), rest.hasSuffix("]") { rest = rest.dropFirst().dropLast() }
        guard !rest.isEmpty, let port = UInt16(place.port), port > 0 else { throw wrong }
        place.host = String(rest)
        return place
    }
}
