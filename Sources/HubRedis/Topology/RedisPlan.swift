import Glibc
import HubBase
import HubCore
import HubNet

/// What the configuration says about Redis, read: which servers, and how to introduce ourselves to them.
package struct RedisPlan {
    package enum Servers: Equatable {
        case single(RedisURL.Place)
        /// Where the sentinels are, and what they call the Redis.
        case sentinel([RedisURL.Place], name: [UInt8])
        /// Some nodes of the cluster; they name the others.
        case cluster([RedisURL.Place])
    }

    /// To be read after the name of the first setting that it names.
    package struct Problem: Error, CustomStringConvertible {
        package let description: String
    }

    package let servers: Servers
    private let user: [UInt8]?
    private let password: Secret?
    private let database: Int
    /// nil: plain. One scheme holds for all servers, sentinels and data alike.
    private let tls: TLSClientContext?
    private let tlsName: String?
    private let sentinelUser: [UInt8]?
    private let sentinelPassword: Secret?

    package var isCluster: Bool {
        if case .cluster = servers { return true }
        return false
    }

    package var trustsAnybody: Bool {
        if case .anyone? = tls?.trust { return true }
        return false
    }

    package init(_ redis: Configuration.Redis) throws(Problem) {
        let given = [
            ("redis.url", redis.url != nil), ("redis.sentinel.urls", !redis.sentinel.urls.isEmpty),
            ("redis.cluster", !redis.cluster.isEmpty),
        ].filter(\.1).map(\.0)
        guard given.count <= 1 else { throw Problem(description: "\(given[0]) and \(given[1]) are both given: a hub has one Redis") }
        guard redis.sentinel.urls.isEmpty == (redis.sentinel.master == nil) else {
            throw Problem(
                description: redis.sentinel.master == nil
                    ? "redis.sentinel.urls needs redis.sentinel.master, the name that the sentinels know the Redis by"
                    : "redis.sentinel.master needs redis.sentinel.urls: where the sentinels are")
        }
        guard redis.user == nil || redis.password != nil else {
            throw Problem(description: "redis.user needs its password: redis.password or redis.passwordFile")
        }
        guard redis.sentinel.user == nil || redis.sentinel.password != nil else {
            throw Problem(description: "redis.sentinel.user needs its password: redis.sentinel.password or redis.sentinel.passwordFile")
        }
        var database = redis.database
        let usesTLS: Bool
        if let master = redis.sentinel.master {
            let urls = try RedisPlan.urls(redis.sentinel.urls, of: "redis.sentinel.urls")
            servers = .sentinel(urls.map(\.place), name: [UInt8](master.utf8))
            usesTLS = urls.contains { $0.usesTLS }
        } else if !redis.cluster.isEmpty {
            let urls = try RedisPlan.urls(redis.cluster, of: "redis.cluster")
            servers = .cluster(urls.map(\.place))
            usesTLS = urls.contains { $0.usesTLS }
            guard (database ?? 0) == 0 else {
                throw Problem(description: "redis.database is \(database ?? 0), but a cluster (redis.cluster) has database 0 only")
            }
        } else {
            let url: RedisURL
            do throws(RedisURL.Problem) { url = try RedisURL(redis.url ?? "redis://127.0.0.1:6379") } catch {
                throw Problem(description: "redis.url must be \(error)")
            }
            servers = .single(url.place)
            database = database ?? url.database
            usesTLS = url.usesTLS
        }
        tls = try RedisPlan.context(redis.tls, isUsed: usesTLS)
        tlsName = redis.tls.name
        user = redis.user.map { [UInt8]($0.utf8) }
        password = redis.password
        self.database = database ?? 0
        sentinelUser = redis.sentinel.user.map { [UInt8]($0.utf8) }
        sentinelPassword = redis.sentinel.password
    }

    private static func urls(_ texts: [String], of setting: String) throws(Problem) -> [RedisURL] {
        var urls: [RedisURL] = []
        for text in texts {
            do throws(RedisURL.Problem) { urls.append(try RedisURL(text)) } catch {
                throw Problem(description: "\(setting) must hold \(error)")
            }
        }
        guard urls.allSatisfy({ $0.usesTLS == urls[0].usesTLS }) else {
            throw Problem(description: "\(setting) mixes redis:// and rediss://: it's TLS with all of them or with none")
        }
        return urls
    }

    private static func context(_ tls: Configuration.Redis.TLS, isUsed: Bool) throws(Problem) -> TLSClientContext? {
        let given = [
            ("redis.tls.ca", tls.authorities != nil), ("redis.tls.cert", tls.certificate != nil), ("redis.tls.key", tls.key != nil),
            ("redis.tls.name", tls.name != nil), ("redis.tls.insecure", tls.isInsecure),
        ].filter(\.1).map(\.0)
        guard isUsed else {
            guard let first = given.first else { return nil }
            throw Problem(description: "\(first) is for TLS, but the addresses of Redis begin with redis://: rediss:// means TLS")
        }
        guard !tls.isInsecure || tls.authorities == nil else {
            throw Problem(
                description: "redis.tls.insecure and redis.tls.ca are both given: either somebody vouches for the servers or nobody does")
        }
        var identity: TLSCertificate?
        switch (tls.certificate, tls.key) {
        case (nil, nil): break
        case (let certificate?, let key?):
            do throws(TLSCertificate.Problem) {
                identity = try TLSCertificate(chain: certificate.bytes, key: key, names: nil, now: Int64(time(nil)))
            } catch {
                throw Problem(description: "\(error.isOfKey ? "redis.tls.key" : "redis.tls.cert") names a file which \(error.description)")
            }
        case (nil, _?): throw Problem(description: "redis.tls.key needs redis.tls.cert, the certificate that it belongs to")
        case (_?, nil): throw Problem(description: "redis.tls.cert needs redis.tls.key, its key")
        }
        let trust: TLSClientContext.Trust =
            tls.isInsecure ? .anyone : tls.authorities.map { .only($0.bytes) } ?? .system
        do throws(TLSCertificate.Problem) {
            return try TLSClientContext(trust: trust, identity: identity, authorityPlace: "redis.tls.ca")
        } catch {
            throw Problem(description: "redis.tls.ca names a file which \(error.description)")
        }
    }

    /// What an address in a list has to be; nil when it's fine. Passwords and databases have settings of their own there.
    package static func listProblem(_ text: String) -> String? {
        do throws(RedisURL.Problem) {
            let url = try RedisURL(text)
            if url.user != nil || url.password != nil {
                return "\"redis://HOST:PORT\" without user and password, which have settings of their own"
            }
            if url.database != nil { return "\"redis://HOST:PORT\" without a database, which has a setting of its own" }
            return nil
        } catch { return error.description }
    }

    // MARK: Introductions

    /// To a server that holds data.
    func access(_ name: [UInt8]) -> RedisAccess {
        var access = RedisAccess(user: user, password: password, database: database, name: name, tls: tls, tlsName: tlsName)
        if case .sentinel = servers { access.mustBeMaster = true }
        return access
    }

    func sentinelAccess(_ name: [UInt8]) -> RedisAccess {
        RedisAccess(user: sentinelUser, password: sentinelPassword, name: name, tls: tls, tlsName: tlsName)
    }
}
