/// A command line that isn't one of the program's. The shell prints `description` and ends with code 2.
package struct CommandLineError: Error, Sendable, CustomStringConvertible {
    package var message: String
    /// What was probably meant.
    package var nearest: String?

    package init(_ message: String, nearest: String? = nil) {
        self.message = message
        self.nearest = nearest
    }

    package var description: String {
        guard let nearest else { return message }
        return message + "; did you mean \(nearest)?"
    }

    /// `text` between quotes, fit for a terminal: at most 80 characters, nothing that a terminal would take for more than text.
    package static func quoted(_ text: String) -> String {
        var shown = "\""
        var count = 0
        for scalar in text.unicodeScalars {
            if count == 80 {
                shown += "…"
                break
            }
            shown.unicodeScalars.append(scalar.isPlain ? scalar : "\u{FFFD}")
            count += 1
        }
        return shown + "\""
    }
}
