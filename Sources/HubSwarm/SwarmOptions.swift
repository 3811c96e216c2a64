import HubBase

/// What `hub-swarm` with flags alone was asked for, checked.
package struct SwarmOptions: Sendable, Equatable {
    /// Where it goes. A run with flags speaks JSON, from whatever address the system takes.
    package var target: SwarmTarget
    package var bots = 100
    package var rooms = 10
    package var seconds: UInt64 = 10
    /// Messages a second of each bot.
    package var rate = 0.1
    /// Bytes of each payload; the fields need some 80 anyway.
    package var size = 0
    /// Connections a second while joining.
    package var connectRate = 500.0
    package var isJSON = false
    package var seed: UInt64
    /// Of several processes; `bots` and `rooms` are those of this part then.
    package private(set) var part = WorkersPart()

    package static let botsMax = 1_000_000

    package static let parser = CommandLineParser(
        program: "hub-swarm",
        summary: "Bots that chat in rooms, and a check that everybody got everything once and in order.",
        flags: SwarmTarget.placeFlags + [
            CommandLineParser.Flag("bots", value: "N", help: "How many bots (default 100)."),
            CommandLineParser.Flag("rooms", value: "M", help: "How many rooms they share (default 10)."),
            CommandLineParser.Flag("seconds", value: "T", help: "How long they talk, after all have joined (default 10)."),
            CommandLineParser.Flag("rate", value: "R", help: "Messages a second of each bot (default 0.1)."),
            CommandLineParser.Flag("size", value: "BYTES", help: "Bytes of each payload (default: the fewest possible, some 80)."),
            CommandLineParser.Flag("connect-rate", value: "C", help: "Connections a second while joining (default 500)."),
            CommandLineParser.Flag("seed", value: "SEED", help: "Of all random choices (default: a random one, which is printed)."),
            CommandLineParser.Flag("json", help: "Print the summary as JSON."),
            CommandLineParser.Flag("version", help: "Print the version."),
        ] + ReportOptions.flags,
        examples: [
            CommandLineParser.Example("hub-swarm --bots 2000 --rooms 200 --seconds 30", "against one node here"),
            CommandLineParser.Example(
                "hub-swarm --url http://10.0.0.1:8080,http://10.0.0.2:8080 --json", "against two nodes, for a program"),
        ],
        notes: [
            "hub-swarm run plays scenarios (chat, presence, broadcast, herd, hostile, or a file). It, find, compare and report have a --help of their own (docs/swarm-reports.md).",
            "hub-swarm check JOURNAL… judges journals of other clients by the same rules (hub-swarm check --help).",
            "Latency counts from the time at which a message was due, whatever kept its bot from sending it then.",
            "Exit codes: 0 nothing lost, duplicated or out of order; 1 something was; 2 wrong usage, or too few descriptors or ports for so many bots; 3 no bot could connect.",
        ])

    /// `defaultURL` and `defaultSeed` count when the flags aren't given.
    package init(_ arguments: CommandLineArguments, defaultURL: String, defaultSeed: UInt64) throws(CommandLineError) {
        target = try SwarmTarget(arguments, defaultURL: defaultURL)
        seed = try Self.number(arguments, "seed", 0...UInt64.max, "a whole number") ?? defaultSeed
        if let value = try Self.number(arguments, "bots", 1...UInt64(Self.botsMax), "from 1 to 1000000") { bots = Int(value) }
        if let value = try Self.number(arguments, "rooms", 1...UInt64(Self.botsMax), "from 1 to 1000000") { rooms = Int(value) }
        if let value = try Self.number(arguments, "seconds", 1...86_400, "from 1 to 86400, without a unit") { seconds = value }
        if let value = try Self.number(arguments, "size", 0...1_048_576, "from 0 to 1048576") { size = Int(value) }
        rate = try Self.decimal(arguments, "rate", 0...1000) ?? rate
        connectRate = try Self.decimal(arguments, "connect-rate", 1...100_000) ?? connectRate
        isJSON = arguments.has("json")
        // Not asked for, so not an error.
        if !arguments.has("rooms") { rooms = min(rooms, bots) }
        guard rooms <= bots else { throw CommandLineError("--rooms \(rooms) is more than --bots \(bots): some rooms would stay empty") }
    }

    /// What this process does of it.
    package mutating func take(_ part: WorkersPart) throws(CommandLineError) {
        guard part.count > 1 else {
            self.part = part
            return
        }
        guard part.count <= rooms else {
            throw CommandLineError("\(part.count) workers are more than --rooms \(rooms): people of one room are bots of one worker")
        }
        self.part = part
        bots = part.part(of: bots).count
        rooms = part.part(of: rooms).count
        connectRate /= Double(part.count)
    }

    private static func number(
        _ arguments: CommandLineArguments, _ flag: String, _ range: ClosedRange<UInt64>, _ meaning: String
    ) throws(CommandLineError) -> UInt64? {
        guard let text = arguments.value(flag) else { return nil }
        guard let value = UInt64(text), range.contains(value) else {
            throw CommandLineError("--\(flag) is \(meaning), not \(CommandLineError.quoted(text))")
        }
        return value
    }

    private static func decimal(
        _ arguments: CommandLineArguments, _ flag: String, _ range: ClosedRange<Double>
    ) throws(CommandLineError) -> Double? {
        guard let text = arguments.value(flag) else { return nil }
        guard let value = Double(text), range.contains(value) else {
            throw CommandLineError(
                "--\(flag) is a number from \(range.lowerBound) to \(range.upperBound), not \(CommandLineError.quoted(text))")
        }
        return value
    }

    /// What the system's limits allow, before anything is started: nil when all is well, otherwise what is short and how many are possible.
    /// Every destination address has its own `ports`.
    package func shortage(descriptors: Int, ports: Int, destinations: Int) -> String? {
        // Standard streams, epoll, eventfd, and a few that libraries keep.
        let possible = descriptors - 16
        if bots > possible {
            return "\(bots) bots need as many descriptors, and this process may have \(descriptors) (ulimit -Hn): "
                + "\(max(possible, 0)) bots are possible; raise the limit or run several swarms"
        }
        let connections = ports * max(destinations, 1)
        if bots > connections {
            return "\(bots) bots need as many local ports, and net.ipv4.ip_local_port_range has \(ports) for each of "
                + "\(destinations) destination\(destinations == 1 ? "" : "s"): \(connections) bots are possible; widen the range or add destinations"
        }
        return nil
    }
}
