/// What a program accepts on its command line, as a value: flags, operands, subcommands. `parse` is pure.
///
/// The forms: `--flag`, `--flag VALUE`, `--flag=VALUE`, `-f` for a flag with a letter, `--` (what follows are operands). `--help` and
/// `-h` are always known. A value that begins with `--` must be written `--flag=VALUE`: far more often the value was forgotten.
package struct CommandLineParser: Sendable {
    package struct Flag: Sendable {
        /// Without the dashes.
        package var name: String
        package var letter: Character?
        /// What the help calls the value, "FILE"; nil for a flag that takes none.
        package var value: String?
        package var isRepeatable: Bool
        package var help: String

        package init(_ name: String, letter: Character? = nil, value: String? = nil, isRepeatable: Bool = false, help: String) {
            self.name = name
            self.letter = letter
            self.value = value
            self.isRepeatable = isRepeatable
            self.help = help
        }
    }

    /// An argument that isn't a flag.
    package struct Operand: Sendable {
        package enum Count: Sendable { case one, optional, oneOrMore, any }
        /// "USER" in the help.
        package var name: String
        package var count: Count
        package var help: String

        package init(_ name: String, _ count: Count = .one, help: String) {
            self.name = name
            self.count = count
            self.help = help
        }
    }

    /// A subcommand. It takes the program's flags too, before or after its name.
    package struct Command: Sendable {
        package var name: String
        package var summary: String
        package var flags: [Flag]
        package var operands: [Operand]
        package var examples: [Example]
        /// Names of the program's flags that mean nothing to this one, and aren't in its help.
        package var unused: [String]
        /// At the end of its help; nil: the program's own.
        package var notes: [String]?

        package init(
            _ name: String, summary: String, flags: [Flag] = [], operands: [Operand] = [], examples: [Example] = [],
            unused: [String] = [], notes: [String]? = nil
        ) {
            self.name = name
            self.summary = summary
            self.flags = flags
            self.operands = operands
            self.examples = examples
            self.unused = unused
            self.notes = notes
        }
    }

    package struct Example: Sendable {
        package var line: String
        package var meaning: String

        package init(_ line: String, _ meaning: String) {
            self.line = line
            self.meaning = meaning
        }
    }

    package var program: String
    /// One sentence.
    package var summary: String
    package var flags: [Flag]
    /// Of a program without subcommands; only the last may take several.
    package var operands: [Operand]
    /// When there are any, one of them must be given.
    package var commands: [Command]
    package var examples: [Example]
    /// Paragraphs at the end of the help: environment, exit codes.
    package var notes: [String]

    package init(
        program: String, summary: String, flags: [Flag] = [], operands: [Operand] = [], commands: [Command] = [],
        examples: [Example] = [], notes: [String] = []
    ) {
        self.program = program
        self.summary = summary
        self.flags = flags
        self.operands = operands
        self.commands = commands
        self.examples = examples
        self.notes = notes
    }

    package static let help = Flag("help", letter: "h", help: "Show this help.")

    /// `arguments` without the program's own name. When `--help` is among them nothing that is missing is complained about.
    package func parse(_ arguments: [String]) throws(CommandLineError) -> CommandLineArguments {
        var parsed = CommandLineArguments()
        var command: Command?
        var rest = arguments[...]
        var isAfterDashes = false
        while let argument = rest.popFirst() {
            if isAfterDashes || !argument.hasPrefix("-") || argument == "-" {
                if !commands.isEmpty, command == nil {
                    command = try self.command(named: argument)
                    parsed.command = argument
                } else {
                    parsed.operands.append(argument)
                }
            } else if argument == "--" {
                isAfterDashes = true
            } else {
                try takeFlag(argument, &rest, of: command, into: &parsed)
            }
        }
        parsed.wantsHelp = parsed.has(Self.help.name)
        if !parsed.wantsHelp { try checkOperands(parsed, of: command) }
        return parsed
    }

    private func takeFlag(
        _ argument: String, _ rest: inout ArraySlice<String>, of command: Command?, into parsed: inout CommandLineArguments
    ) throws(CommandLineError) {
        let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let written = String(parts[0])
        let flag = try self.flag(written: written, of: command)
        if parsed.has(flag.name), !flag.isRepeatable, flag.name != Self.help.name {
            throw CommandLineError("\(written) is given twice")
        }
        guard let valueName = flag.value else {
            guard parts.count == 1 else { throw CommandLineError("\(written) takes no value") }
            parsed.add("", to: flag.name)
            return
        }
        if parts.count == 2 {
            parsed.add(String(parts[1]), to: flag.name)
        } else if let value = rest.first, !value.hasPrefix("--") {
            rest.removeFirst()
            parsed.add(value, to: flag.name)
        } else {
            throw CommandLineError("\(written) needs a value: \(written) \(valueName)")
        }
    }

    private func flag(written: String, of command: Command?) throws(CommandLineError) -> Flag {
        let known = flags + (command?.flags ?? []) + [Self.help]
        for flag in known {
            if written == "--" + flag.name { return flag }
            if let letter = flag.letter, written == "-\(letter)" { return flag }
        }
        // A flag that another subcommand has, or that stands before the subcommand it belongs to.
        if let owner = commands.first(where: { $0.name != command?.name && $0.flags.contains { "--" + $0.name == written } }) {
            let place = command == nil ? "must stand after it" : "isn't one of \(command?.name ?? "")"
            throw CommandLineError("\(written) is a flag of \(owner.name) and \(place)")
        }
        let nearest = Nearest.to(written, in: known.map { "--" + $0.name })
        throw CommandLineError("unknown flag \(CommandLineError.quoted(written))", nearest: nearest)
    }

    private func command(named name: String) throws(CommandLineError) -> Command {
        if let command = commands.first(where: { $0.name == name }) { return command }
        throw CommandLineError(
            "unknown command \(CommandLineError.quoted(name))", nearest: Nearest.to(name, in: commands.map(\.name)))
    }

    private func checkOperands(_ parsed: CommandLineArguments, of command: Command?) throws(CommandLineError) {
        if !commands.isEmpty, command == nil {
            throw CommandLineError("a command is missing: one of " + commands.map(\.name).joined(separator: ", "))
        }
        var left = parsed.operands.count
        for operand in command?.operands ?? operands {
            switch operand.count {
            case .one, .oneOrMore:
                guard left > 0 else { throw CommandLineError("\(operand.name) is missing") }
                left = operand.count == .one ? left - 1 : 0
            case .optional: left = max(0, left - 1)
            case .any: left = 0
            }
        }
        if left > 0 {
            throw CommandLineError("unexpected argument \(CommandLineError.quoted(parsed.operands[parsed.operands.count - left]))")
        }
    }
}
