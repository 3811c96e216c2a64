import HubBase
import HubCore
import HubToken

extension TokenVerifier {
    /// For the keys of a configuration, and those of a key set.
    package init(_ configuration: Configuration, and keySet: [TokenKey] = []) {
        var rules = Rules()
        rules.issuer = configuration.tokens.issuer
        rules.audience = configuration.tokens.audience
        rules.leeway = configuration.tokens.leeway
        rules.expiryLeeway = configuration.tokens.expiryLeeway
        rules.lifeMax = configuration.tokens.lifeMax
        let keys = configuration.tokenKeys.compactMap { key in
            // The loader lets no other through.
            TokenKey.Algorithm(rawValue: key.algorithm).flatMap { try? TokenKey(id: key.id, algorithm: $0, bytes: key.secret) }
        }
        self.init(keys: keys + keySet, rules: rules)
    }
}

extension Grants {
    /// What holds for users whose tokens have no `caps`: the namespaces' rules. Development mode lets them do everything.
    package static func rules(_ configuration: Configuration) -> Grants {
        configuration.isDevelopment ? .all : Grants(namespaces: configuration.namespaces.mapValues(\.rights))
    }
}
