/// A configuration that can't be run. Each problem is a sentence that names the setting and the place it comes from.
package struct ConfigurationError: Error, Sendable, CustomStringConvertible {
    /// Never empty; never holds a secret.
    package var problems: [String]

    /// A line each, at most 20.
    package var description: String {
        let shown = problems.prefix(20)
        let rest = problems.count - shown.count
        return (shown + (rest > 0 ? ["… and \(rest) more"] : [])).joined(separator: "\n")
    }
}

/// Where a value was set.
package enum ConfigurationPlace: Sendable, Equatable, CustomStringConvertible {
    case file(String, line: Int)
    case variable(String)
    case set
    /// With its dashes.
    case flag(String)

    package var description: String {
        switch self {
        case .file(let path, let line): "\(path):\(line)"
        case .variable(let name): name
        case .set: "--set"
        case .flag(let flag): flag
        }
    }
}
