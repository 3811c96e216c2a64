extension CommandLineParser {
    /// The text of `--help`; with `command` that of the subcommand. Ends with a newline.
    package func helpText(command name: String? = nil) -> String {
        let command = name.flatMap { name in commands.first { $0.name == name } }
        let operands = command?.operands ?? self.operands
        var usage = "Usage: " + program
        if let command { usage += " " + command.name } else if !commands.isEmpty { usage += " COMMAND" }
        usage += " [FLAGS]"
        for operand in operands {
            switch operand.count {
            case .one: usage += " " + operand.name
            case .optional: usage += " [" + operand.name + "]"
            case .oneOrMore: usage += " " + operand.name + "…"
            case .any: usage += " [" + operand.name + "…]"
            }
        }
        var sections = [command?.summary ?? summary, usage]
        if command == nil, !commands.isEmpty { sections.append(Self.table("Commands", commands.map { ($0.name, $0.summary) })) }
        if !operands.isEmpty { sections.append(Self.table("Arguments", operands.map { ($0.name, $0.help) })) }
        let all = (command?.flags ?? []) + flags.filter { command?.unused.contains($0.name) != true } + [Self.help]
        sections.append(Self.table("Flags", all.map { (Self.usage(of: $0), $0.help) }))
        let examples = command?.examples ?? self.examples
        if !examples.isEmpty { sections.append(Self.table("Examples", examples.map { ($0.line, $0.meaning) })) }
        if command == nil, !commands.isEmpty { sections.append("\(program) COMMAND --help says more of one command.") }
        sections += command?.notes ?? notes
        return sections.joined(separator: "\n\n") + "\n"
    }

    private static func usage(of flag: Flag) -> String {
        var text = flag.letter.map { "-\($0), " } ?? ""
        text += "--" + flag.name
        if let value = flag.value { text += " " + value }
        return flag.isRepeatable ? text + " …" : text
    }

    /// Two columns; a long first column goes on a line of its own.
    private static func table(_ title: String, _ rows: [(String, String)]) -> String {
        let widest = rows.map(\.0.count).filter { $0 <= 30 }.max() ?? 0
        var text = title + ":"
        for (left, right) in rows {
            text += "\n  " + left
            if left.count > widest {
                text += "\n" + String(repeating: " ", count: 4 + widest)
            } else {
                text += String(repeating: " ", count: 2 + widest - left.count)
            }
            text += right
        }
        return text
    }
}
