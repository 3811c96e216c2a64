import HubBase
import HubWire

/// What an error reply of Redis means for us, by its first word.
package enum RedisFault: Equatable {
    /// The script isn't loaded: load and call again.
    case noScript
    /// maxmemory is reached: nothing was written.
    case full
    /// This server can't take writes now, or isn't the right one, or doesn't let us do our work: leave it, and try again.
    case wrongServer
    /// In a cluster: the keys aren't here, or not all of them, or not now. Nothing was done.
    case elsewhere
    /// A key of ours holds something else: nothing was written.
    case foreign
    /// A channel keeps as many read positions as it may.
    case readersFull
    /// A read position beyond the channel's end, which is there.
    case ahead(UInt64)
    /// It waited too long at a Redis that stood still: nothing was written.
    case late
    /// A misuse, ours or the operator's.
    case other

    package init(_ text: UnsafeRawBufferPointer) {
        if text.hasPrefix("NOSCRIPT") {
            self = .noScript
        } else if text.hasPrefix("OOM") || text.hasPrefix("-OOM") {
            self = .full
        } else if RedisFault.moving.contains(where: { text.hasPrefix($0) }) {
            self = .elsewhere
        } else if RedisFault.leaving.contains(where: { text.hasPrefix($0) }) {
            self = .wrongServer
        } else if text.hasPrefix("READERS") {
            self = .readersFull
        } else if text.hasPrefix("LATE ") {
            self = .late
        } else if text.hasPrefix("AHEAD "), let end = UnsafeRawBufferPointer(rebasing: text.dropFirst(6)).decimal {
            self = .ahead(end)
        } else if text.contains("FOREIGN ") || text.contains("WRONGTYPE ") {
            // From within a script, after its name and line in some versions.
            self = .foreign
        } else {
            self = .other
        }
    }

    private static let moving: [StaticString] = ["MOVED ", "ASK ", "TRYAGAIN", "CLUSTERDOWN"]
    private static let leaving: [StaticString] = [
        "READONLY", "LOADING", "MASTERDOWN", "NOREPLICAS", "BUSY", "NOAUTH", "MISCONF", "UNBLOCKED", "NOPERM",
        // What a script gets in place of NOPERM.
        "ERR The user executing the script",
    ]

    /// `foreign`: what's said where a key holds something else; the call knows of whom it is.
    package func wireError(_ text: String, foreign: WireError) -> WireError {
        switch self {
        case .full: .redisOutOfMemory
        case .noScript, .wrongServer, .elsewhere, .late: .redisAway
        case .foreign: foreign
        case .readersFull: .readersFull
        case .ahead(let end): .readAhead(of: end)
        case .other: WireError(.internal, "Redis refused a command: \(text)")
        }
    }

    /// An error's text for the operator: what it means in our configuration, where that's known.
    package static func advice(_ text: String) -> String {
        let known: [(String, String)] = [
            ("WRONGPASS", "user name and password don't fit: see redis.user, redis.password and redis.passwordFile"),
            ("NOAUTH", "Redis wants a password: set redis.password or redis.passwordFile"),
            ("ERR AUTH <password> called without", "this Redis has no password: redis.password isn't wanted"),
            ("NOPERM", "the user lacks a right; docs/redis.md lists those that a hub needs"),
            ("ERR The user executing the script", "the user lacks a right; docs/redis.md lists those that a hub needs"),
            ("ERR DB index is out of range", "Redis has no database of this number"),
            ("ERR invalid DB index", "Redis has no database of this number"),
            ("ERR SELECT is not allowed in cluster mode", "a cluster has database 0 only"),
            ("MOVED ", "this Redis is a cluster: name it by redis.cluster"),
            ("CLUSTERDOWN", "the cluster says that it's down"),
            ("READONLY", "this Redis is a replica"),
            ("ERR unknown command 'SENTINEL'", "this isn't a sentinel: a Redis without sentinels is named by redis.url"),
            ("ERR unknown command `SENTINEL`", "this isn't a sentinel: a Redis without sentinels is named by redis.url"),
        ]
        guard let found = known.first(where: { text.hasPrefix($0.0) }) else { return text }
        return "\(text.hasSuffix(".") ? String(text.dropLast()) : text): \(found.1)"
    }
}

extension RedisFault {
    /// The kind of reason for which a link is down, in words for everybody: no address, no name, nothing that a server said (the log has those).
    /// nil: it's away, and that's all there is to tell.
    package static func kind(of problem: String) -> StaticString? {
        let kinds: [([String], StaticString)] = [
            // First of all: what somebody else wrote stands in it.
            (["this version needs"], "a key of Redis that the hub needs is somebody else's, or of another version"),
            (
                ["WRONGPASS", "NOAUTH", "ERR AUTH <password> called without", "invalid password"],
                "Redis refuses the user name or the password"
            ),
            (["NOPERM", "ERR The user executing the script"], "the hub's user lacks a right in Redis"),
            (
                ["ERR DB index is out of range", "ERR invalid DB index", "ERR SELECT is not allowed"],
                "Redis has no database of this number"
            ),
            (["certificate", "TLS", "begins with rediss://"], "the TLS connection to Redis fails"),
            (["isn't a hub's", "FOREIGN", "WRONGTYPE"], "a key of Redis that the hub needs is somebody else's"),
            (["READONLY"], "this Redis is a replica"),
            (["LOADING"], "Redis is loading its data"),
            (
                ["this Redis is a cluster", "this Redis is no cluster", "this isn't a sentinel"],
                "Redis is of another kind than the configuration says"
            ),
        ]
        return kinds.first { $0.0.contains { problem.contains($0) } }?.1
    }
}

extension WireError {
    package static let redisAway = WireError(.unavailable, "Redis can't be reached; retry later.", retryAfter: 1000)
    package static let redisOutOfMemory = WireError(.storeFull, "Redis is out of memory; retry later.", retryAfter: 2000)
    package static let redisFull = WireError(.overloaded, "Too many requests wait for Redis; retry later.", retryAfter: 1000)
    /// It was asked, and said that it takes nothing now: no replica, a replica itself, a cluster that's down.
    package static let redisRefuses = WireError(.unavailable, "Redis takes nothing now; retry later.", retryAfter: 1000)

    /// A key holds something else. The client hears whose it is; which key, the log says.
    package static func foreignKey(_ whose: String) -> WireError {
        WireError(.internal, "What Redis holds of \(whose) isn't a hub's; nothing was changed.", mayRetry: false)
    }
    package static func foreignKey(channel: Name) -> WireError { foreignKey("the channel \(channel)") }
    package static func unreadable(channel: Name) -> WireError {
        WireError(.internal, "The history of \(channel) holds a publication that this version can't read.", mayRetry: false)
    }
    package static let notOurs = WireError(.internal, "Redis gave an answer that isn't ours to read.")
}
