/// What a command line said, checked against its `CommandLineParser`.
package struct CommandLineArguments: Sendable {
    /// The subcommand, when the program has any.
    package var command: String?
    /// What isn't a flag, in order.
    package var operands: [String] = []
    package var wantsHelp = false
    private var given: [(flag: String, value: String)] = []

    package init() {}

    /// Whether a flag was given; its name without dashes.
    package func has(_ flag: String) -> Bool { given.contains { $0.flag == flag } }

    /// The value of a flag that may be given once.
    package func value(_ flag: String) -> String? { given.first { $0.flag == flag }?.value }

    /// All values of a repeatable flag, in order.
    package func values(_ flag: String) -> [String] { given.filter { $0.flag == flag }.map(\.value) }

    mutating func add(_ value: String, to flag: String) { given.append((flag, value)) }
}
