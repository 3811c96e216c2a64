import HubBase
import HubCore

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
    private let sentinelUser: [UInt8]?
    private let sentinelPassword: Secret?

    package var isCluster: Bool {
        if case .cluster = servers { return true }
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
        if let master = redis.sentinel.master {
            servers = .sentinel(try RedisPlan.places(redis.sentinel.urls, of: "redis.sentinel.urls"), name: [UInt8](master.utf8))
        } else if !redis.cluster.isEmpty {
            servers = .cluster(try RedisPlan.places(redis.cluster, of: "redis.cluster"))
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
        }
        user = redis.user.map { [UInt8]($0.utf8) }
        password = redis.password
        self.database = database ?? 0
        sentinelUser = redis.sentinel.user.map { [UInt8]($0.utf8) }
        sentinelPassword = redis.sentinel.password
    }

    private static func places(_ urls: [String], of setting: String) throws(Problem) -> [RedisURL.Place] {
        var places: [RedisURL.Place] = []
        for text in urls {
            do throws(RedisURL.Problem) { places.append(try RedisURL(text).place) } catch {
                throw Problem(description: "\(setting) must hold \(error)")
            }
        }
        return places
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
        var access = RedisAccess(user: user, password: password, database: database, name: name)
        if case .sentinel = servers { access.mustBeMaster = true }
        return access
    }

    func sentinelAccess(_ name: [UInt8]) -> RedisAccess { RedisAccess(user: sentinelUser, password: sentinelPassword, name: name) }
}
