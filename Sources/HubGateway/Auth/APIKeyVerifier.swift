import HubBase
import HubCore
import HubToken

/// Checks the keys of the HTTP API. A value.
package struct APIKeyVerifier: Sendable {
    package struct Grant: Sendable, Equatable {
        /// Which key, for logs.
        package var id: String
        package var scopes: [String]

        package init(id: String, scopes: [String]) {
            self.id = id
            self.scopes = scopes
        }

        /// What its connections are called.
        package var name: Name { Name(trusted: TokenClaims.servicePrefix + Array(id.utf8)) }

        /// Of a connection that is opened with it.
        package var rights: Rights {
            let isAdmin = scopes.contains("admin")
            return .key(reads: isAdmin || scopes.contains("read"), publishes: isAdmin || scopes.contains("publish"))
        }
    }

    private let keys: [Configuration.APIKey]

    package init(keys: [Configuration.APIKey]) { self.keys = keys }

    /// The key whose connections have that name.
    package func grant(of name: Name) -> Grant? {
        keys.lazy.map { Grant(id: $0.id, scopes: $0.scopes) }.first { $0.name == name }
    }

    /// Whether there is any key at all.
    package var isEmpty: Bool { keys.isEmpty }

    /// nil when it's none of the keys. Compares digests, all of them and each in constant time, so that the time tells neither how much
    /// of a guess was right nor which key it was. Cost: a SHA-256 of the key; longer ones than any of ours are refused before that.
    package func verify(_ key: UnsafeRawBufferPointer) -> Grant? {
        guard (1...1024).contains(key.count) else { return nil }
        let digest = Digest.sha256([UInt8](key))
        var grant: Grant?
        for known in keys where Digest.isEqual(known.digest, digest) { grant = Grant(id: known.id, scopes: known.scopes) }
        return grant
    }

    package func verify(_ key: [UInt8]) -> Grant? { key.withUnsafeBytes { verify($0) } }
}
