/// `text` between quotes for an error or a report: nothing that a terminal would take for more than text, and cut after `limit` characters.
package func shownText(_ text: String, limit: Int = 40) -> String {
    var shown = ""
    for scalar in text.unicodeScalars.prefix(limit + 1) {
        shown.unicodeScalars.append(scalar.isPlain ? scalar : "\u{FFFD}")
    }
    return "\"" + (shown.unicodeScalars.count > limit ? String(shown.prefix(limit)) + "…" : shown) + "\""
}

/// A file's path: shown whole unless it's absurd, since without it the message is worth little.
package func shownPath(_ path: String) -> String { shownText(path, limit: 400) }
