import HubBase
import HubCore
import HubToken

/// `auth.keys` and `api.keys`: lists of objects, with secrets from files and variables.
enum KeySettings {
    static let keysMax = 16
    static let scopes = ["read", "publish", "admin"]

    static func tokenKeys(_ value: ConfigurationValue, _ sources: inout SecretSources) throws(SettingKind.Problem) -> [Configuration
        .TokenKey]
    {
        var keys: [Configuration.TokenKey] = []
        for (index, fields) in try ObjectFields.list(value, of: "keys", atMost: keysMax, fields: ["kid", "alg", "secret", "file", "env"])
            .enumerated()
        {
            do throws(SettingKind.Problem) {
                let word = try fields.text("alg") ?? "HS256"
                guard let algorithm = TokenKey.Algorithm(rawValue: word) else {
                    let known = TokenKey.Algorithm.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", ")
                    throw .init(place: ".alg", message: "must be one of \(known), not \(ConfigurationValue.text(word).cautious)")
                }
                let id = try fields.text("kid")
                let secret = try Self.secret(fields, direct: "secret", isPublic: !algorithm.isSymmetric, &sources)
                do throws(TokenKey.Problem) { _ = try TokenKey(id: id, algorithm: algorithm, bytes: secret) } catch {
                    throw .init(message: error.message)
                }
                keys.append(
                    .init(id: id, algorithm: word, secret: secret, bytesMin: algorithm.isSymmetric ? algorithm.secretBytesMin : 0))
            } catch { throw error.within(index) }
        }
        return keys
    }

    static func apiKeys(_ value: ConfigurationValue, _ sources: inout SecretSources) throws(SettingKind.Problem) -> [Configuration.APIKey] {
        var keys: [Configuration.APIKey] = []
        for (index, fields) in try ObjectFields.list(value, of: "keys", atMost: keysMax, fields: ["id", "digest", "file", "env", "scopes"])
            .enumerated()
        {
            do throws(SettingKind.Problem) {
                guard let id = try fields.text("id") else { throw .init(message: "lacks its id") }
                let digest: [UInt8]
                if fields.members["digest"] != nil, fields.members["file"] == nil, fields.members["env"] == nil {
                    digest = try Self.digest(fields.text("digest") ?? "")
                } else {
                    let secret = try Self.secret(fields, direct: "digest", &sources)
                    if secret.bytes.count < 16 {
                        sources.warnings.append("the API key \(shownText(id)) is shorter than 16 bytes: easy to guess")
                    }
                    digest = Digest.sha256(secret.bytes)
                }
                keys.append(.init(id: id, digest: digest, scopes: try scopes(fields)))
            } catch { throw error.within(index) }
        }
        return keys
    }

    /// One secret as a text, or several as objects; the first isn't special.
    static func secrets(_ value: ConfigurationValue, _ sources: inout SecretSources) throws(SettingKind.Problem) -> [Secret] {
        if case .text(let text) = value {
            guard !text.isEmpty else { throw .init(message: "is empty") }
            return [Secret(Array(text.utf8))]
        }
        guard case .list = value else { throw .init(message: "must be a text or a list of {secret | file | env}") }
        var secrets: [Secret] = []
        for (index, fields) in try ObjectFields.list(value, of: "secrets", atMost: secretsMax, fields: ["secret", "file", "env"])
            .enumerated()
        {
            do throws(SettingKind.Problem) { secrets.append(try secret(fields, direct: "secret", &sources)) } catch {
                throw error.within(index)
            }
        }
        return secrets
    }

    /// Each signs every request.
    static let secretsMax = 4

    /// One of `direct`, `file` and `env`.
    private static func secret(
        _ fields: ObjectFields, direct: String, isPublic: Bool = false, _ sources: inout SecretSources
    ) throws(SettingKind.Problem) -> Secret {
        let ways = [direct, "file", "env"].filter { fields.members[$0] != nil }
        guard ways.count == 1, let way = ways.first, let text = try fields.text(way) else {
            throw .init(message: "needs exactly one of \(direct), file and env")
        }
        do throws(SettingKind.Problem) {
            switch way {
            case "file": return try sources.secret(file: text, isPublic: isPublic)
            case "env": return try sources.secret(variable: text)
            default: return Secret(Array(text.utf8))
            }
        } catch { throw .init(place: "." + way, message: error.message) }
    }

    /// A SHA-256 in hexadecimal digits, as `sha256sum` prints it.
    private static func digest(_ text: String) throws(SettingKind.Problem) -> [UInt8] {
        let digits = text.utf8.map { byte -> UInt8? in
            switch byte {
            case 0x30...0x39: byte - 0x30
            case 0x61...0x66: byte - 0x61 + 10
            case 0x41...0x46: byte - 0x41 + 10
            default: nil
            }
        }
        guard digits.count == 64, !digits.contains(nil) else {
            throw .init(place: ".digest", message: "must be a SHA-256: 64 hexadecimal digits")
        }
        return stride(from: 0, to: 64, by: 2).map { (digits[$0] ?? 0) << 4 | (digits[$0 + 1] ?? 0) }
    }

    private static func scopes(_ fields: ObjectFields) throws(SettingKind.Problem) -> [String] {
        let expected = "must be a list of some of \(scopes.map { "\"\($0)\"" }.joined(separator: ", "))"
        guard let value = fields.members["scopes"] else {
            throw .init(message: "lacks its scopes: \(expected.dropFirst("must be ".count))")
        }
        guard case .list(let elements) = value, !elements.isEmpty else {
            throw .init(place: ".scopes", message: "\(expected), not \(value.cautious)")
        }
        var chosen: [String] = []
        for element in elements {
            guard case .text(let scope) = element, scopes.contains(scope) else {
                throw .init(place: ".scopes", message: "\(expected), not \(element.cautious)")
            }
            if !chosen.contains(scope) { chosen.append(scope) }
        }
        return chosen
    }
}
