import Glibc
import HubBase
import HubClientNet
import HubSwarm
import HubToken

/// Mints a token for each bot, for hubs that aren't in development mode.
struct TokenSource {
    private static let lifetimeSeconds: UInt64 = 24 * 3600
    private let key: TokenKey

    /// Throws when the secret can't be read; a sentence for people.
    init(_ source: SwarmTarget.KeySource, kid: String?) throws(CommandLineError) {
        key = TokenKey(id: kid, secret: try Self.secret(source))
    }

    func token(for user: String) -> String {
        let issued = UInt64(clamping: time(nil))
        var draft = TokenDraft(user: Name(trusted: Array(user.utf8)), issued: issued, expires: issued + Self.lifetimeSeconds)
        // Bots do all that people do.
        draft.caps = [("*", ["*"])]
        // A secret always signs.
        guard let token = try? TokenMinter.mint(draft, key: key) else { preconditionFailure("a secret didn't sign") }
        return String(decoding: token, as: UTF8.self)
    }

    private static func secret(_ source: SwarmTarget.KeySource) throws(CommandLineError) -> Secret {
        switch source {
        case .environment(let name):
            guard let secret = SecretSource.environment(name) else { throw CommandLineError("--token-key-env: \(name) isn't set or empty") }
            return secret
        case .file(let path):
            do throws(SecretSource.Unreadable) { return try SecretSource.file(path) } catch {
                throw CommandLineError("--token-key-file: \(error)")
            }
        }
    }
}
