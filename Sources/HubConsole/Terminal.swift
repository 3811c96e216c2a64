import HubBase

/// How text gets onto a terminal: colours or none, columns, and never a control character that a name or a payload brought along.
package struct Terminal: Sendable {
    package enum Colour: Int, Sendable { case red = 31, green = 32, yellow = 33, grey = 90 }

    package var hasColour: Bool

    package init(hasColour: Bool) { self.hasColour = hasColour }

    package func paint(_ text: String, _ colour: Colour?) -> String {
        guard hasColour, let colour else { return text }
        return "\u{1B}[\(colour.rawValue)m\(text)\u{1B}[0m"
    }

    /// What others wrote, made harmless: control characters, and those that turn the direction of text or can't be seen, become U+FFFD. A line
    /// break in a message must not look like a second message.
    package static func safe(_ text: String) -> String {
        var safe = ""
        for scalar in text.unicodeScalars {
            safe.unicodeScalars.append(scalar.isPlain ? scalar : "\u{FFFD}")
        }
        return safe
    }

    /// Left-aligned columns, two spaces between them, `indent` before. A cell's colour doesn't count for its width.
    package func table(_ header: [String], _ rows: [[(text: String, colour: Colour?)]], indent: Int = 2) -> [String] {
        var widths = header.map(\.count)
        for row in rows { for (column, cell) in row.enumerated() { widths[column] = max(widths[column], cell.text.count) } }
        let all = [header.map { (text: $0, colour: Colour?.some(.grey)) }] + rows
        return all.map { row in
            var line = String(repeating: " ", count: indent)
            for (column, cell) in row.enumerated() {
                line += paint(cell.text, cell.colour)
                if column < row.count - 1 { line += String(repeating: " ", count: widths[column] - cell.text.count + 2) }
            }
            return line
        }
    }
}

/// Lengths of time as people say them.
package enum SpokenTime {
    /// "3 s", "2 min", "5 h", "12 d": the largest unit, rounded down.
    package static func text(milliseconds: UInt64) -> String {
        let seconds = milliseconds / 1000
        if seconds < 60 { return "\(seconds) s" }
        if seconds < 3600 { return "\(seconds / 60) min" }
        if seconds < 48 * 3600 { return "\(seconds / 3600) h" }
        return "\(seconds / 86_400) d"
    }
}
