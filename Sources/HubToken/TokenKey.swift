import HubBase

/// A key that tokens are signed and checked with. The key decides the algorithm, never the token (RFC 8725 §3.1).
package struct TokenKey: Sendable, CustomStringConvertible {
    /// Those of RFC 7518 §3.1 and RFC 8037 §3.1 that this hub knows; the raw value is the header's `alg`.
    package enum Algorithm: String, Sendable, CaseIterable {
        case hs256 = "HS256"
        case hs384 = "HS384"
        case hs512 = "HS512"
        case rs256 = "RS256"
        case ps256 = "PS256"
        case es256 = "ES256"
        case es384 = "ES384"
        /// With Ed25519 alone.
        case edDSA = "EdDSA"

        package var isSymmetric: Bool { self == .hs256 || self == .hs384 || self == .hs512 }

        /// Bytes of the shortest secret: those of the hash (RFC 7518 §3.2).
        package var secretBytesMin: Int {
            switch self {
            case .hs384: 48
            case .hs512: 64
            default: 32
            }
        }
    }

    package enum Material: Sendable {
        case secret(Secret)
        /// Public, or private for who signs.
        case key(SignatureKey)
    }

    /// The `kid` that chooses it.
    package var id: String?
    package let algorithm: Algorithm
    package let material: Material

    /// Why a key can't serve; said of the key in a sentence, "it …".
    package struct Problem: Error, Sendable, Equatable {
        package var message: String
    }

    /// A secret for HMAC. Its length is for the caller to judge (`Algorithm.secretBytesMin`): development takes any.
    package init(id: String?, algorithm: Algorithm = .hs256, secret: Secret) {
        precondition(algorithm.isSymmetric, "\(algorithm.rawValue) takes no secret")
        self.id = id
        self.algorithm = algorithm
        material = .secret(secret)
    }

    /// A key of the kind that the algorithm needs: RSA of 2048 to 8192 bits, the curve of the algorithm's name, Ed25519.
    package init(id: String?, algorithm: Algorithm, key: SignatureKey) throws(Problem) {
        guard key.kind == algorithm.kind else {
            throw Problem(message: "is \(key.kind?.shown ?? "a key of another kind"); \(algorithm.rawValue) takes \(algorithm.needs)")
        }
        self.id = id
        self.algorithm = algorithm
        material = .key(key)
    }

    /// What a configuration or a tool was given for an algorithm: a secret's bytes, or a key as PEM.
    package init(id: String?, algorithm: Algorithm, bytes: Secret, forSigning: Bool = false) throws(Problem) {
        let isPEM = bytes.bytes.starts(with: Array("-----BEGIN ".utf8))
        if algorithm.isSymmetric {
            // A public key as the secret is how tokens are forged (RFC 8725 §2.1).
            guard !isPEM else { throw Problem(message: "holds a PEM key; \(algorithm.rawValue) takes a secret that nobody else knows") }
            self.init(id: id, algorithm: algorithm, secret: bytes)
        } else {
            guard isPEM else { throw Problem(message: "isn't PEM (-----BEGIN …); \(algorithm.rawValue) takes \(algorithm.needs)") }
            let key = try forSigning ? SignatureKey(privatePEM: bytes) : SignatureKey(publicPEM: bytes.bytes)
            try self.init(id: id, algorithm: algorithm, key: key)
        }
    }

    package var description: String { "\(id ?? "without kid") (\(algorithm.rawValue), <redacted>)" }
}

extension TokenKey.Algorithm {
    fileprivate var kind: SignatureKey.Kind? {
        switch self {
        case .hs256, .hs384, .hs512: nil
        case .rs256, .ps256: .rsa
        case .es256: .p256
        case .es384: .p384
        case .edDSA: .ed25519
        }
    }

    fileprivate var needs: String {
        switch self {
        case .hs256, .hs384, .hs512: "a secret"
        case .rs256, .ps256: "an RSA key"
        case .es256: "a key on the curve P-256"
        case .es384: "a key on the curve P-384"
        case .edDSA: "an Ed25519 key"
        }
    }
}
