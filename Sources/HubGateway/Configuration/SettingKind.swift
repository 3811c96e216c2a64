import HubBase

/// What a setting takes: the syntax, the bounds, and the words for an error.
enum SettingKind: Sendable {
    case boolean
    case integer(ClosedRange<Int>)
    /// Bytes: "64KB", or a bare number of them.
    case size(ClosedRange<Int>)
    case duration(ClosedRange<Span>)
    case choice([String])
    /// The check gives what is wrong with a text, after "must be …"; nil when it's fine.
    case text(@Sendable (String) -> String?)
    /// As `text`; errors don't show what was given, since a password may be in it.
    case privateText(@Sendable (String) -> String?)
    case list(@Sendable (String) -> String?)
    /// As `list`, with errors as `privateText`'s.
    case privateList(@Sendable (String) -> String?)
    case secret
    /// The name of a file that holds the secret.
    case secretFile
    /// Several: one text, or a list of {secret | file | env}.
    case secrets
    /// The name of a file that is read when the configuration is.
    case file
    case tokenKeys
    case apiKeys
    case certificates

    /// What is wrong with a value, to be read after the setting's name.
    struct Problem: Error {
        /// "[0].secret": the place within the value.
        var place: String = ""
        var message: String
    }

    /// Judges a value. Files and variables that the value names are read through `sources`.
    func parse(_ value: ConfigurationValue, _ sources: inout SecretSources) throws(Problem) -> SettingValue {
        switch self {
        case .boolean:
            if case .boolean(let flag) = value { return .boolean(flag) }
            throw Problem(message: "must be true or false, not \(value.shown)")
        case .integer(let range):
            if case .integer(let number) = value, range.contains(number) { return .integer(number) }
            throw Problem(message: "must be a whole number from \(range.lowerBound) to \(range.upperBound), not \(value.shown)")
        case .size(let range): return .size(try Self.size(value, range))
        case .duration(let range): return .duration(try Self.duration(value, range))
        case .choice(let words):
            if case .text(let text) = value, words.contains(text) { return .text(text) }
            throw Problem(message: "must be one of \(words.map { "\"\($0)\"" }.joined(separator: ", ")), not \(value.shown)")
        case .text(let check): return .text(try Self.text(value, check))
        case .privateText(let check):
            guard case .text(let text) = value else { throw Problem(message: "must be a text between quotes") }
            if let wrong = check(text) {
                throw Problem(message: "must be \(wrong)")
            }
            return .text(text)
        case .list(let check):
            guard case .list(let elements) = value else { throw Problem(message: "must be a list of texts, not \(value.shown)") }
            var texts: [String] = []
            for (index, element) in elements.enumerated() {
                do throws(Problem) { texts.append(try Self.text(element, check)) } catch {
                    throw Problem(place: "[\(index)]", message: error.message)
                }
            }
            return .list(texts)
        case .privateList(let check):
            guard case .list(let elements) = value else { throw Problem(message: "must be a list of texts") }
            var texts: [String] = []
            for (index, element) in elements.enumerated() {
                guard case .text(let text) = element else { throw Problem(place: "[\(index)]", message: "must be a text between quotes") }
                if let wrong = check(text) { throw Problem(place: "[\(index)]", message: "must be \(wrong)") }
                texts.append(text)
            }
            return .list(texts)
        case .secret:
            guard case .text(let text) = value else { throw Problem(message: "must be a text") }
            guard !text.isEmpty else { throw Problem(message: "is empty") }
            return .secret(Secret(Array(text.utf8)))
        case .secretFile:
            let path = try Self.text(value) { $0.isEmpty ? "the name of a file" : nil }
            return .secret(try sources.secret(file: path))
        case .secrets: return .secrets(try KeySettings.secrets(value, &sources))
        case .file:
            let path = try Self.text(value) { $0.isEmpty ? "the name of a file" : nil }
            do throws(SmallFile.Failure) {
                return .file(.init(path: path, bytes: try SmallFile.read(path, byteCountMax: Self.fileByteCountMax).bytes))
            } catch { throw Problem(message: "names the file \(shownPath(path)): \(error.message)") }
        case .tokenKeys: return .tokenKeys(try KeySettings.tokenKeys(value, &sources))
        case .apiKeys: return .apiKeys(try KeySettings.apiKeys(value, &sources))
        case .certificates: return .certificates(try CertificateSettings.certificates(value, &sources))
        }
    }

    /// What a text from the environment or from `--set` stands for: there nothing has a type of its own.
    func value(fromText text: String) throws(Problem) -> ConfigurationValue {
        switch self {
        case .boolean: return text == "true" ? .boolean(true) : text == "false" ? .boolean(false) : .text(text)
        case .integer: return Int(text).map { .integer($0) } ?? .text(text)
        case .size, .duration, .choice, .text, .privateText, .secret, .secretFile, .file: return .text(text)
        case .secrets: return text.hasPrefix("[") ? try Self.json(text) : .text(text)
        case .list, .privateList:
            guard text.hasPrefix("[") else {
                return .list(text.split(separator: ",", omittingEmptySubsequences: false).map { .text(String($0)) })
            }
            return try Self.json(text)
        case .tokenKeys, .apiKeys, .certificates: return try Self.json(text)
        }
    }

    /// A system's whole list of authorities has some 250 KB.
    private static let fileByteCountMax = 1024 * 1024

    private static func json(_ text: String) throws(Problem) -> ConfigurationValue {
        do throws(JSON5Reader.Failure) { return try JSON5Reader.read(Array(text.utf8)) } catch {
            throw Problem(message: "isn't JSON5: \(error.message) (line \(error.line), column \(error.column))")
        }
    }

    private static func text(_ value: ConfigurationValue, _ check: (String) -> String?) throws(Problem) -> String {
        guard case .text(let text) = value else { throw Problem(message: "must be a text between quotes, not \(value.shown)") }
        if let wrong = check(text) { throw Problem(message: "must be \(wrong), not \(value.shown)") }
        return text
    }

    private static func size(_ value: ConfigurationValue, _ range: ClosedRange<Int>) throws(Problem) -> Int {
        let count: Int? =
            switch value {
            case .integer(let number): number
            case .text(let text): QuantityText.byteCount(text)
            default: nil
            }
        guard let count else { throw Problem(message: "must be a size such as \"64KB\" (B, KB, MB, GB), not \(value.shown)") }
        guard range.contains(count) else {
            let bounds = "\(QuantityText.text(byteCount: range.lowerBound)) to \(QuantityText.text(byteCount: range.upperBound))"
            throw Problem(message: "must be from \(bounds), not \(value.shown)")
        }
        return count
    }

    private static func duration(_ value: ConfigurationValue, _ range: ClosedRange<Span>) throws(Problem) -> Span {
        let isNumber =
            switch value {
            case .integer, .number: true
            case .text(let text): Int(text) != nil
            default: false
            }
        guard !isNumber else {
            throw Problem(message: "must be a duration such as \"30s\": \(value.shown) lacks its unit (ms, s, m, h, d)")
        }
        guard case .text(let text) = value, let span = QuantityText.span(text) else {
            throw Problem(message: "must be a duration such as \"30s\" (ms, s, m, h, d), not \(value.shown)")
        }
        guard range.contains(span) else {
            throw Problem(
                message: "must be from \(QuantityText.text(range.lowerBound)) to \(QuantityText.text(range.upperBound)), not \(value.shown)"
            )
        }
        return span
    }
}
