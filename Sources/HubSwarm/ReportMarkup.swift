/// HTML and SVG as text. Names of scenarios, error codes and the like come from files and from hubs under test: what they hold is shown,
/// never obeyed.
package enum ReportMarkup {
    /// For content and for attributes in double quotes. Control characters and those that turn the direction of text become U+FFFD.
    package static func escaped(_ text: String) -> String {
        var escaped = ""
        escaped.reserveCapacity(text.utf8.count)
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&quot;"
            case "'": escaped += "&#39;"
            case "\u{0}"..."\u{1F}", "\u{7F}"..."\u{9F}", "\u{200E}", "\u{200F}", "\u{2028}"..."\u{202E}", "\u{2066}"..."\u{2069}",
                "\u{FFFE}",
                "\u{FFFF}":
                escaped += "\u{FFFD}"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }

    /// A cell: how it's shown, whether it's a number (aligned right), and what it says of the row.
    package struct Cell: Sendable, Equatable {
        package enum Mood: String, Sendable { case good, bad, plain }
        package var text: String
        package var isNumber: Bool
        package var mood: Mood

        package init(_ text: String, isNumber: Bool = false, mood: Mood = .plain) {
            self.text = text
            self.isNumber = isNumber
            self.mood = mood
        }

        package static func number(_ text: String, mood: Mood = .plain) -> Cell { Cell(text, isNumber: true, mood: mood) }
    }

    /// A table with a caption; the first cell of a row is its heading.
    package static func table(_ caption: String, _ header: [Cell], _ rows: [[Cell]]) -> String {
        // One that isn't long stays on one page of paper.
        let isShort = rows.count <= 16
        var text = "<div class=\"scroll\"><table\(isShort ? " class=\"short\"" : "")><caption>\(escaped(caption))</caption><thead><tr>"
        for cell in header { text += "<th scope=\"col\"\(cell.isNumber ? " class=\"n\"" : "")>\(escaped(cell.text))</th>" }
        text += "</tr></thead><tbody>\n"
        for row in rows {
            text += "<tr>"
            for (column, cell) in row.enumerated() {
                let classes = [cell.isNumber ? "n" : "", cell.mood == .plain ? "" : cell.mood.rawValue].filter { !$0.isEmpty }
                let attribute = classes.isEmpty ? "" : " class=\"\(classes.joined(separator: " "))\""
                text += column == 0 ? "<th scope=\"row\"\(attribute)>" : "<td\(attribute)>"
                text += escaped(cell.text) + (column == 0 ? "</th>" : "</td>")
            }
            text += "</tr>\n"
        }
        return text + "</tbody></table></div>\n"
    }

    /// A whole page: one file, no script, nothing loaded from anywhere.
    package static func page(title: String, body: String) -> String {
        """
        <!DOCTYPE html>
        <html lang="en"><head><meta charset="utf-8">
        <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta name="color-scheme" content="light dark">
        <title>\(escaped(title))</title>
        <style>
        \(ReportStyle.sheet)
        </style></head><body>
        \(body)
        </body></html>

        """
    }
}
