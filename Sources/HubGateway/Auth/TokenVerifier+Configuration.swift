import HubCore
import HubToken

extension TokenVerifier {
    /// For the keys of a configuration.
    package init(_ configuration: Configuration) {
        self.init(
            keys: configuration.tokenKeys.compactMap { key in
                // The loader lets no other algorithm through.
                TokenKey.Algorithm(rawValue: key.algorithm).map { TokenKey(id: key.id, algorithm: $0, secret: key.secret) }
            })
    }
}
