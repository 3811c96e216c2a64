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
    init(_ source: SwarmOptions.KeySource, kid: String?) throws(CommandLineError) {
        key = TokenKey(id: kid, secret: try Self.secret(source))
    }

    func token(for user: String) -> String {
        let issued = UInt64(clamping: time(nil))
        let name = Name(trusted: Array(user.utf8))
        let token = TokenMinter.mint(user: name, issued: issued, expires: issued + Self.lifetimeSeconds, key: key)
        return String(decoding: token, as: UTF8.self)
    }

    private static func secret(_ source: SwarmOptions.KeySource) throws(CommandLineError) -> Secret {
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
