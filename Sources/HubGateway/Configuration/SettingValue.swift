import HubBase
import HubCore

/// A value of a setting after its kind has judged it.
enum SettingValue: Sendable {
    case absent
    case boolean(Bool)
    case integer(Int)
    case size(Int)
    case duration(Span)
    case text(String)
    /// A text that is shown in part: the rest may be a secret.
    case partly(String, shown: String)
    case list([String])
    case secret(Secret)
    case secrets([Secret])
    case file(Configuration.Redis.File)
    case tokenKeys([Configuration.TokenKey])
    case apiKeys([Configuration.APIKey])
    case certificates([Configuration.TLS.Certificate])

    /// As `--check` and a reload show it. Never a secret; keys by their ids.
    var shown: String {
        switch self {
        case .absent: "none"
        case .boolean(let flag): "\(flag)"
        case .integer(let number): "\(number)"
        case .size(let count): QuantityText.text(byteCount: count)
        case .duration(let span): QuantityText.text(span)
        case .text(let text), .partly(_, let text): shownText(text)
        case .list(let texts): texts.isEmpty ? "none" : texts.map { shownText($0) }.joined(separator: ", ")
        case .secret(let secret): secret.description
        case .secrets(let secrets): secrets.isEmpty ? "none" : secrets.map(\.description).joined(separator: ", ")
        case .file(let file): shownText(file.path)
        case .tokenKeys(let keys):
            keys.isEmpty
                ? "none"
                : keys.map { ($0.id.map { shownText($0) } ?? "without kid") + " (\($0.algorithm), \($0.secret))" }.joined(
                    separator: ", ")
        case .apiKeys(let keys):
            keys.isEmpty ? "none" : keys.map { "\(shownText($0.id)) (\($0.scopes.joined(separator: ", ")))" }.joined(separator: ", ")
        case .certificates(let certificates): certificates.isEmpty ? "none" : certificates.map(\.description).joined(separator: ", ")
        }
    }

    /// Whether two values are the same, secrets included.
    func isSame(as other: SettingValue) -> Bool {
        switch (self, other) {
        case (.secret(let left), .secret(let right)): left.bytes == right.bytes
        case (.partly(let left, _), .partly(let right, _)): left == right
        case (.secrets(let left), .secrets(let right)): left.map(\.bytes) == right.map(\.bytes)
        case (.file(let left), .file(let right)): left == right
        case (.tokenKeys(let left), .tokenKeys(let right)):
            left.elementsEqual(right) { $0.id == $1.id && $0.algorithm == $1.algorithm && $0.secret.bytes == $1.secret.bytes }
        case (.apiKeys(let left), .apiKeys(let right)):
            left.elementsEqual(right) { $0.id == $1.id && $0.digest == $1.digest && $0.scopes == $1.scopes }
        case (.certificates(let left), .certificates(let right)):
            left.elementsEqual(right) { $0.chain == $1.chain && $0.key.bytes == $1.key.bytes && $0.names == $1.names }
        default: shown == other.shown
        }
    }
}
