import HubBase
import HubWire

/// Everything that can be set, typed, with defaults and units, in one place. The loader (files, environment, flags) fills it;
/// `problems()` holds the relations between settings. Names: docs/configuration.md.
package struct Configuration: Sendable {
    /// `host:port` each; port 0 picks one.
    package var listen: [String] = ["127.0.0.1:8080"]
    /// What people call this node; nil: the host's name.
    package var node: String?
    /// Gateway loops; 0: one a core.
    package var loops = 0
    /// First core to pin loops to; nil: no pinning.
    package var pin: Int?
    package var isDevelopment = false

    /// One of `url`, `sentinel.urls` and `cluster`; none: the embedded broker.
    package struct Redis: Sendable {
        package struct Sentinel: Sendable {
            package var urls: [String] = []
            /// What the sentinels call the Redis.
            package var master: String?
            package var user: String?
            package var password: Secret?
            package init() {}
        }

        /// For `rediss://` addresses.
        package struct TLS: Sendable {
            /// Who may vouch for the servers; nil: the system's authorities.
            package var authorities: File?
            /// What to show a server that asks who we are.
            package var certificate: File?
            package var key: Secret?
            /// What the servers' certificates have to stand for; nil: the name or address that they're reached by.
            package var name: String?
            package var isInsecure = false
            package init() {}
        }

        /// A file that was read.
        package struct File: Sendable, Equatable {
            package var path: String
            package var bytes: [UInt8]

            package init(path: String, bytes: [UInt8]) {
                self.path = path
                self.bytes = bytes
            }
        }

        package var url: String?
        package var tls = TLS()
        package var sentinel = Sentinel()
        /// Some nodes of the cluster.
        package var cluster: [String] = []
        package var prefix = "hub"
        /// Of Redis's ACL; nil: "default".
        package var user: String?
        package var password: Secret?
        /// Beats the URL's.
        package var database: Int?
        package init() {}

        /// Whether the node meets others on a Redis.
        package var isUsed: Bool { url != nil || !sentinel.urls.isEmpty || !cluster.isEmpty }
    }
    package var redis = Redis()

    /// Without Redis.
    package struct Embedded: Sendable {
        /// The file that keeps history over restarts; nil: none does.
        package var snapshot: String?
        package var snapshotInterval: Span = .seconds(10)
        package init() {}
    }
    package var embedded = Embedded()

    package struct TLS: Sendable {
        /// A certificate that was read and found usable.
        package struct Certificate: Sendable, CustomStringConvertible {
            /// PEM, the leaf first.
            package var chain: [UInt8]
            package var key: Secret
            package var names: [String]
            /// SHA-256 of the leaf.
            package var fingerprint: String
            package var expires: String

            package init(chain: [UInt8], key: Secret, names: [String], fingerprint: String, expires: String) {
                self.chain = chain
                self.key = key
                self.names = names
                self.fingerprint = fingerprint
                self.expires = expires
            }

            package var description: String {
                "\(names.isEmpty ? "no name" : names.joined(separator: " ")) (until \(expires), SHA-256 \(fingerprint.prefix(16))…)"
            }
        }

        /// `host:port` each.
        package var listen: [String] = []
        /// The first serves clients that ask for no name, or for an unknown one.
        package var certificates: [Certificate] = []
        /// What session tickets are sealed with, the same on all nodes; nil: each node has its own.
        package var ticketSecret: Secret?
        package init() {}
    }
    package var tls = TLS()

    package struct Proxy: Sendable {
        package enum Header: Sendable { case xForwardedFor, forwarded }
        /// Address ranges in CIDR notation.
        package var trusted: [String] = []
        /// Connections from there begin with a PROXY header, version 2.
        package var usesProtocol = false
        package var header: Header = .xForwardedFor
        package init() {}
    }
    package var proxy = Proxy()

    package struct TokenKey: Sendable {
        package var id: String?
        package var algorithm: String
        /// A secret, or a public key as PEM.
        package var secret: Secret
        /// Of a secret, outside development mode.
        package var bytesMin: Int
        package init(id: String?, algorithm: String, secret: Secret, bytesMin: Int = 0) {
            self.id = id
            self.algorithm = algorithm
            self.secret = secret
            self.bytesMin = bytesMin
        }
    }
    package var tokenKeys: [TokenKey] = []

    /// What tokens have to say, and how long they hold.
    package struct Tokens: Sendable {
        /// What `iss` must be; nil: whatever it is.
        package var issuer: String?
        /// One of them must be in `aud`; empty: there must be no `aud`.
        package var audience: [String] = []
        /// For `nbf` and `iat`.
        package var leeway: Span = .seconds(60)
        /// How long a token holds beyond its `exp`.
        package var expiryLeeway: Span = .zero
        /// How long before its end a client is told.
        package var expiryWarning: Span = .seconds(30)
        /// The longest that a token may live; revocations are kept as long.
        package var lifeMax: Span = .seconds(30 * 86_400)
        /// Whether `?token=` is taken.
        package var areTakenFromQuery = false
        package init() {}
    }
    package var tokens = Tokens()

    /// Keys that an issuer publishes (a JWK Set), beside our own.
    package struct KeySet: Sendable {
        package var file: String?
        package var url: String?
        /// PEM file of the authorities that may vouch for the URL's server; nil: the system's.
        package var authorities: String?
        package var refresh: Span = .seconds(600)
        package var interval: Span = .seconds(30)
        package var keep: Span = .seconds(86_400)
        package init() {}

        package var isUsed: Bool { file != nil || url != nil }
    }
    package var keySet = KeySet()
    /// Allowed `Origin` headers, "https://app.example.com"; empty: any.
    package var origins: [String] = []
    /// Whether who names no origin may open nothing.
    package var originRequired = false

    package struct APIKey: Sendable {
        package var id: String
        /// SHA-256 of the key, so that the key itself isn't kept.
        package var digest: [UInt8]
        package var scopes: [String]
        package init(id: String, digest: [UInt8], scopes: [String]) {
            self.id = id
            self.digest = digest
            self.scopes = scopes
        }
    }
    package var apiKeys: [APIKey] = []

    package var presence = PresenceTimers()
    /// Whom clients may watch.
    package var watchRule = WatchRule.listed

    /// Webhooks (docs/hooks.md).
    package struct Hooks: Sendable {
        /// Where events go; nil: nowhere.
        package var url: String?
        /// What requests are signed with, each of them.
        package var secrets: [Secret] = []
        /// By their names.
        package var events = ["user.online", "user.offline", "channel.occupied", "channel.vacated"]
        /// Events that wait, of all partitions together; what overflows is lost.
        package var queue = 1_000_000
        package var keep: Span = .seconds(24 * 3600)
        package var batch = 100
        package var concurrency = 8
        /// Of one request.
        package var deadline: Span = .seconds(10)
        package var retryMax: Span = .seconds(300)
        package var lease: Span = .seconds(15)
        package init() {}

        package var rules: HookRules {
            guard url != nil else { return .none }
            return HookRules(
                kinds: HookKinds(events.compactMap { HookKind(name: $0) }), perPartition: max(queue / Partition.count, 1), keep: keep)
        }

        package var limits: HookMachine.Limits {
            var limits = HookMachine.Limits()
            limits.batch = batch
            limits.concurrency = concurrency
            limits.keep = keep
            limits.retryMax = retryMax
            limits.lease = lease
            return limits
        }
    }
    package var hooks = Hooks()
    package var ask = AskSettings()

    /// What the node asks of others over HTTP.
    package struct Outgoing: Sendable {
        /// PEM file of the authorities that count; nil: the system's.
        package var authorities: String?
        /// "http://proxy:3128"; nil: none.
        package var proxy: String?
        package init() {}
    }
    package var outgoing = Outgoing()
    /// How a node hears of users' transitions.
    package enum PresenceFeeds: Sendable {
        /// All of them, by partition.
        case partitions
        /// Those of the users that somebody here watches.
        case users
    }
    package var presenceFeeds: PresenceFeeds = .partitions

    package struct Limits: Sendable {
        package var messageBytes = 64 * 1024
        package var outboundBytes = 1024 * 1024
        /// Of the outbound queues of the whole node.
        package var sendMemory = 256 * 1024 * 1024
        package var messagesPerSecond = 10_000
        package var messageBurst = 20_000
        /// Of one connection: bytes of its messages, channels that it subscribes to, and refusals by a rate, a second; 0: any number.
        package var bytesPerSecond = 16 * 1024 * 1024
        package var subscribesPerSecond = 1_000
        package var refusalsPerSecond = 100
        /// How much of a rate may be used at once: what it allows in this time. (`messagesPerSecond` has `messageBurst`.)
        package var burst: Span = .seconds(5)

        /// So many a second; 0: any number.
        package struct PerSecond: Sendable {
            package var messages = 0
            package var bytes = 0
            package var subscribes = 0
            package var connects = 0
            /// Refused tokens and keys.
            package var failures = 0
            /// Of the HTTP API.
            package var requests = 0
            package init() {}
        }
        /// Of one user on all nodes together, of one client address on this node, of one API key over HTTP on this node.
        package var user = PerSecond()
        package var address = PerSecond()
        package var key = PerSecond()
        package var connections = 1_000_000
        /// Of one client address; 0: any number.
        package var connectionsPerAddress = 0
        /// Of one user; 0: any number.
        package var connectionsPerUser = 0
        /// WebSockets that may be opened in a second; as many at once.
        package var acceptsPerSecond = 2_000
        /// Subscriptions of one connection.
        package var channels = 256
        /// Users that one connection may watch, and that one request may name.
        package var watch = 10_000
        package var watchRequest = 1_000
        package var depth = 32
        package var messageIdBytes = 64
        package var deviceBytes = 64
        package var headBytes = 8 * 1024
        package var bodyBytes = 1024 * 1024
        /// Publications of a page where the request doesn't say, and those that it may ask for.
        package var historyPage = 100
        package static let historyPageMax = 1_000
        /// Publications of one HTTP request.
        package static let publishBatch = 100
        /// What the node's channels remember together for those who come back.
        package var recoveryMemory = 16 * 1024 * 1024
        package init() {}
    }
    package var limits = Limits()

    package struct Typing: Sendable {
        /// A repeated "is typing" of one connection in one channel within this time isn't handed on; zero: all are.
        package var throttle: Span = .seconds(2)
        /// Who isn't heard of for so long has stopped.
        package var expire: Span = .seconds(6)
        package init() {}

        /// How long those who were handed a "is typing" believe it: what's heard last may be held back for the throttle (decision 0303).
        package var believed: Span { expire + throttle }
    }
    package var typing = Typing()

    /// permessage-deflate.
    package struct Deflate: Sendable {
        /// 0: off.
        package var level = 1
        package var windowBits = 15
        package var minimumBytes = 256
        package var contextBudget = 0
        package init() {}
    }
    package var deflate = Deflate()

    package struct Deadlines: Sendable {
        package var tls: Span = .seconds(10)
        package var head: Span = .seconds(10)
        package var authentication: Span = .seconds(10)
        /// An HTTP connection between requests.
        package var idle: Span = .seconds(60)
        package var close: Span = .seconds(5)
        package var pong: Span = .seconds(10)
        /// From SIGTERM until the process ends, whatever is still open.
        package var shutdown: Span = .seconds(10)
        package init() {}
    }
    package var deadlines = Deadlines()
    package var ping: Span = .seconds(20)

    /// By name; "" holds the defaults for every other one.
    package var namespaces: [String: HistoryOptions] = ["": HistoryOptions()]

    package struct Diagnostics: Sendable {
        package var echo = false
        package var echoBytes = 16 * 1024 * 1024
        package init() {}
    }
    package var diagnostics = Diagnostics()

    package enum LogLevel: Int, Sendable, Comparable {
        case debug, info, warning, error
        package static func < (left: LogLevel, right: LogLevel) -> Bool { left.rawValue < right.rawValue }
    }
    package enum LogFormat: Sendable { case automatic, text, json }
    package var logLevel: LogLevel = .info
    package var logFormat: LogFormat = .automatic
    /// Whether client addresses and user ids stand in log lines.
    package var logPersonal = true

    package init() {}
}

extension Configuration {
    /// What the broker keeps of each namespace: the operator's, and the hub's own.
    package var brokerNamespaces: [String: HistoryOptions] {
        var all = namespaces
        all[RevocationKeeper.namespace] = RevocationKeeper.options(lifeMax: tokens.lifeMax)
        return all
    }
}
