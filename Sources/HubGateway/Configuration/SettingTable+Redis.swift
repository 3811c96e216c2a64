import HubBase
import HubCore
import HubRedis

/// Redis: where it is, and who we are to it.
extension SettingTable {
    static let redis: [Setting] = [
        Setting(
            "redis.url", .privateText(urlProblem), isLive: false,
            "\"redis://HOST:PORT/DB\", \"rediss://…\" for TLS, \"unix:///PATH\"; without Redis the node stands alone, on the embedded broker."
        ) {
            $1.redis.url.map { .text($0) } ?? .absent
        } write: { value, _, configuration in
            guard case .text(let text) = value, var url = try? RedisURL(text) else {
                preconditionFailure("the kind of redis.url gave \(value)")
            }
            // User and password go where no report or log finds them.
            if let password = url.password { configuration.redis.password = password }
            if let user = url.user { configuration.redis.user = String(decoding: user, as: UTF8.self) }
            (url.user, url.password) = (nil, nil)
            configuration.redis.url = url.description
        },
        addresses(
            "redis.sentinel.urls", \.redis.sentinel.urls,
            "Sentinels that say where the Redis is, \"redis://HOST:PORT\" each; in place of redis.url."),
        .optionalText("redis.sentinel.master", \.redis.sentinel.master, "The name that the sentinels know the Redis by.") {
            plain($0, bytes: 1...128)
        },
        .optionalText(
            "redis.sentinel.user", \.redis.sentinel.user, "User name at the sentinels, where it isn't \"default\".", check: userProblem),
        password("redis.sentinel.password", .secret, \.redis.sentinel.password, "Password of the sentinels, where they have one."),
        password("redis.sentinel.passwordFile", .secretFile, \.redis.sentinel.password, "File that holds the password of the sentinels."),
        addresses(
            "redis.cluster", \.redis.cluster,
            "Some nodes of a Redis Cluster, \"redis://HOST:PORT\" each, which name the others; in place of redis.url."),
        .text("redis.prefix", \.redis.prefix, "First part of every key, so that hubs can share a Redis.") {
            KeySpace(prefix: $0) == nil ? "1 to 64 letters, digits, '-', '_', '.' and ':'" : nil
        },
        .optionalText("redis.user", \.redis.user, "User name at the Redis (ACL), where it isn't \"default\".", check: userProblem),
        password("redis.password", .secret, \.redis.password, "Password of the Redis. Better from a file or the environment."),
        password("redis.passwordFile", .secretFile, \.redis.password, "File that holds the password of the Redis."),
        .optionalInteger("redis.database", \.redis.database, 0...65_535, "Number of the database; by default the URL's, or 0."),
        file(
            "redis.tls.ca", \.redis.tls.authorities,
            "PEM file of the authorities that may vouch for rediss:// servers; by default the system's."),
        file("redis.tls.cert", \.redis.tls.certificate, "PEM file of the certificate to show rediss:// servers that ask for one."),
        Setting("redis.tls.key", .secretFile, isLive: false, "PEM file of that certificate's key, without a password.") {
            $1.redis.tls.key.map { .secret($0) } ?? .absent
        } write: { value, _, configuration in
            guard case .secret(let secret) = value else { preconditionFailure("a secret's kind gave \(value)") }
            configuration.redis.tls.key = secret
        },
        .optionalText(
            "redis.tls.name", \.redis.tls.name,
            "The name that rediss:// servers' certificates stand for, where it isn't that of their address."
        ) { plain($0, bytes: 1...253) },
        .boolean(
            "redis.tls.insecure", \.redis.tls.isInsecure,
            "Takes any certificate of rediss:// servers: whoever sits on the line can read all."),
    ]

    private static func file(_ path: String, _ field: any Setting.Field<Configuration.Redis.File?>, _ help: String) -> Setting {
        Setting(path, .file, isLive: false, help) { _, configuration in
            configuration[keyPath: field].map { .file($0) } ?? .absent
        } write: { value, _, configuration in
            guard case .file(let file) = value else { preconditionFailure("a file's kind gave \(value)") }
            configuration[keyPath: field] = file
        }
    }

    private static func urlProblem(_ text: String) -> String? {
        do throws(RedisURL.Problem) {
            let url = try RedisURL(text)
            if let user = url.user, let wrong = userProblem(String(decoding: user, as: UTF8.self)) { return "with a user name of \(wrong)" }
            return nil
        } catch { return error.description }
    }

    @Sendable private static func userProblem(_ text: String) -> String? { plain(text, bytes: 1...256) }

    /// What goes into a command or a log as it is.
    private static func plain(_ text: String, bytes: ClosedRange<Int>) -> String? {
        let isPlain = text.utf8.allSatisfy { (0x21...0x7E).contains($0) } && bytes.contains(text.utf8.count)
        return isPlain ? nil : "\(bytes.lowerBound) to \(bytes.upperBound) visible ASCII characters"
    }

    private static func addresses(_ path: String, _ field: any Setting.Field<[String]>, _ help: String) -> Setting {
        Setting(path, .privateList { RedisPlan.listProblem($0) }, isLive: false, help) { _, configuration in
            .list(configuration[keyPath: field])
        } write: { value, _, configuration in
            guard case .list(let texts) = value else { preconditionFailure("a list's kind gave \(value)") }
            configuration[keyPath: field] = texts
        }
    }

    private static func password(_ path: String, _ kind: SettingKind, _ field: any Setting.Field<Secret?>, _ help: String) -> Setting {
        Setting(path, kind, isLive: false, help) { _, configuration in
            // One value behind two settings: it's shown once.
            path.hasSuffix("File") ? .absent : configuration[keyPath: field].map { .secret($0) } ?? .absent
        } write: { value, _, configuration in
            guard case .secret(let secret) = value else { preconditionFailure("a secret's kind gave \(value)") }
            configuration[keyPath: field] = secret
        }
    }
}
