/// A value of a configuration file as it was written, with the lines that errors name.
package indirect enum ConfigurationValue: Sendable, Equatable {
    package struct Member: Sendable, Equatable {
        package var key: String
        /// From 1.
        package var line: Int
        package var value: ConfigurationValue

        package init(key: String, line: Int, value: ConfigurationValue) {
            self.key = key
            self.line = line
            self.value = value
        }
    }

    case null
    case boolean(Bool)
    case integer(Int)
    /// A number that isn't an integer or doesn't fit one, as written. No setting takes one; the error shows it.
    case number(String)
    case text(String)
    case list([ConfigurationValue])
    case object([Member])

    /// What stands there, for an error: "the number 30", "a list".
    package var shown: String {
        switch self {
        case .null: "null"
        case .boolean(let flag): "\(flag)"
        case .integer(let number): "the number \(number)"
        case .number(let written): "the number \(written.prefix(40))"
        case .text(let text): shownText(text)
        case .list: "a list"
        case .object: "an object"
        }
    }

    /// As `shown`, where a word is expected: what is as long as a secret isn't shown.
    package var cautious: String {
        if case .text(let text) = self, text.utf8.count <= 8 { return shown }
        return sort
    }

    /// What kind of thing stands there, and no more, where it may be a secret.
    package var sort: String {
        switch self {
        case .null: "null"
        case .boolean: "true or false"
        case .integer, .number: "a number"
        case .text(let text): "a text of \(text.utf8.count) bytes"
        case .list: "a list"
        case .object: "an object"
        }
    }
}
