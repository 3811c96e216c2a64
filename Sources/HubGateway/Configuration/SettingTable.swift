import HubBase
import HubCore
import HubNet

/// Every setting of this version, once. docs/configuration.md and config/hub.json5 name each of them (a test compares).
enum SettingTable {
    static let all: [Setting] = [
        node, tls, redis, embedded, access, tokens, hooks, ask, presence, typing, limits, paces, deflate, deadlines, namespaces,
        diagnostics,
    ].flatMap { $0 }

    private static let node: [Setting] = [
        .list(
            "listen", \.listen, live: false, "Addresses to listen on, \"HOST:PORT\" each; port 0 picks one.", check: ListenAddress.problem),
        .optionalText("node", \.node, "This node's name for people; by default the host's name.") {
            Name(validating: $0, limit: 64) == nil ? "a name of 1 to 64 bytes without control characters" : nil
        },
        .integer("loops", \.loops, 0...256, "Gateway loops, a thread each; 0: one a core."),
        .optionalInteger("pin", \.pin, 0...1023, "First core to pin the loops to; by default they aren't pinned."),
        .duration("ping", \.ping, .milliseconds(100) ... .seconds(600), "Silence after which the server pings a connection."),
    ]

    private static let tls: [Setting] = [
        .list("tls.listen", \.tls.listen, live: false, "Addresses for https and wss, \"HOST:PORT\" each.", check: ListenAddress.problem),
        Setting(
            "tls.certificates", .certificates, isLive: true,
            "Certificates: cert, key (PEM files) and names, each; the first is the default."
        ) {
            .certificates($1.tls.certificates)
        } write: { value, _, configuration in
            guard case .certificates(let certificates) = value else { preconditionFailure("the kind of certificates gave \(value)") }
            configuration.tls.certificates = certificates
        },
        Setting(
            "tls.ticketSecretFile", .secretFile, isLive: true,
            "File with a secret of 32 bytes or more that all nodes share, so that TLS sessions resume on any."
        ) {
            $1.tls.ticketSecret.map { .secret($0) } ?? .absent
        } write: { value, _, configuration in
            if case .secret(let secret) = value { configuration.tls.ticketSecret = secret } else { configuration.tls.ticketSecret = nil }
        },
        .list(
            "proxy.trusted", \.proxy.trusted, live: false, "Address ranges of the proxies that are believed, \"10.0.0.0/8\" each."
        ) { AddressRange($0) == nil ? "an address or a range such as \"10.0.0.0/8\" or \"2001:db8::/32\"" : nil },
        .boolean("proxy.protocol", \.proxy.usesProtocol, "Connections from trusted proxies begin with a PROXY header, version 2."),
        Setting(
            "proxy.header", .choice(["x-forwarded-for", "forwarded"]), isLive: false,
            "The header in which trusted proxies name the client: x-forwarded-for or forwarded."
        ) {
            .text($1.proxy.header == .forwarded ? "forwarded" : "x-forwarded-for")
        } write: { value, _, configuration in
            guard case .text(let text) = value else { preconditionFailure("the kind of proxy.header gave \(value)") }
            configuration.proxy.header = text == "forwarded" ? .forwarded : .xForwardedFor
        },
    ]

    private static let embedded: [Setting] = [
        .optionalText(
            "embedded.snapshot", \.embedded.snapshot,
            "File in which the embedded broker keeps its channels over restarts; by default they end with the process."
        ) { $0.isEmpty || $0.utf8.contains(0) || $0.utf8.count > 4_000 ? "the path of a file" : nil },
        .duration(
            "embedded.snapshotInterval", \.embedded.snapshotInterval, .milliseconds(100) ... .seconds(86_400),
            "How often it's written while the node runs; it's written once more when the node stops."),
    ]

    private static let access: [Setting] = [
        Setting(
            "auth.keys", .tokenKeys, isLive: true,
            "Keys that tokens are signed with: kid, alg (HS256, HS384, HS512, RS256, PS256, ES256, ES384, EdDSA), and secret, file or env, each."
        ) {
            .tokenKeys($1.tokenKeys)
        } write: { value, _, configuration in
            guard case .tokenKeys(let keys) = value else { preconditionFailure("the kind of keys gave \(value)") }
            configuration.tokenKeys = keys
        },
        .list(
            "auth.origins", \.origins, live: true,
            "Origins whose pages may connect, \"https://app.example.com\" or \"https://*.example.com\" each; empty: any.",
            check: OriginList.problem),
        .boolean(
            "auth.originRequired", \.originRequired, live: true,
            "WebSockets and streams of events need an Origin: clients that aren't browsers stay out."),
        Setting(
            "api.keys", .apiKeys, isLive: true,
            "Keys of the HTTP API: id, digest or file or env, and scopes (\"read\", \"publish\", \"admin\"), each."
        ) {
            .apiKeys($1.apiKeys)
        } write: { value, _, configuration in
            guard case .apiKeys(let keys) = value else { preconditionFailure("the kind of keys gave \(value)") }
            configuration.apiKeys = keys
        },
    ]

    private static let presence: [Setting] = [
        .duration(
            "presence.heartbeat", \.presence.heartbeat, .milliseconds(100) ... .seconds(600), "How often a connection's lease is renewed."),
        .duration(
            "presence.lease", \.presence.lease, .milliseconds(250) ... .seconds(3600), "How long a lease holds; at least 2.5 heartbeats."),
        .duration(
            "presence.userTTL", \.presence.userTTL, .seconds(1) ... .seconds(7 * 86_400),
            "Life of a user's record that nobody renews; more than lease, hold and heartbeat together, and than grace, hold and gapMax."),
        .duration(
            "presence.grace", \.presence.grace, .zero ... .seconds(60), "Time to come back after an unclean end before the user is offline."
        ),
        .duration(
            "presence.sweepInterval", \.presence.sweepInterval, .milliseconds(10) ... .seconds(60), "Pace of the sweeps for lapsed leases."),
        .duration(
            "presence.gapMax", \.presence.gapMax, .milliseconds(100) ... .seconds(600),
            "Longest pause between sweeps that isn't taken for an outage; less than lease less 1.1 heartbeats."),
        .duration(
            "presence.hold", \.presence.hold, .milliseconds(100) ... .seconds(3600),
            "After an outage, how long nobody is declared offline; at least 1.1 heartbeats and the refresh jitter."),
        .duration(
            "presence.awayAfter", \.presence.awayAfter, .milliseconds(100) ... .seconds(86_400),
            "Time without activity after which a connection is away."),
        .duration(
            "presence.tombstoneTTL", \.presence.tombstoneTTL, .seconds(1) ... .seconds(365 * 86_400), "How long last seen is remembered."),
        .duration(
            "presence.explainTTL", \.presence.explainTTL, .zero ... .seconds(30 * 86_400),
            "How long after its last transition a user's trail is kept, for hubctl presence --explain; 0: none."),
        .duration(
            "presence.lastSeen", \.presence.lastSeenStep, .zero ... .seconds(7 * 86_400),
            "Clients are told when somebody was seen last, rounded down to this; 0: exactly."),
        Setting(
            "presence.watch", .choice(WatchRule.allCases.map(\.rawValue)), isLive: true,
            "Whom a client may watch: everyone, those whom its rights (watch) cover, or nobody but itself."
        ) { _, configuration in
            .text(configuration.watchRule.rawValue)
        } write: { value, _, configuration in
            if case .text(let word) = value { configuration.watchRule = WatchRule(rawValue: word) ?? .listed }
        },
        Setting(
            "presence.feeds", .choice(["partitions", "users"]), isLive: false,
            "Whose changes a node hears from Redis: partitions (all) or users (of those that are watched here)."
        ) {
            .text($1.presenceFeeds == .users ? "users" : "partitions")
        } write: { value, _, configuration in
            guard case .text(let text) = value else { preconditionFailure("the kind of presence.feeds gave \(value)") }
            configuration.presenceFeeds = text == "users" ? .users : .partitions
        },
    ]

    private static let typing: [Setting] = [
        .duration(
            "typing.throttle", \.typing.throttle, .zero ... .seconds(60), live: true,
            "Within this time a connection's repeated \"is typing\" in a channel isn't handed on, and of changes two are at once, the last state when"
                + " it's over; 0s: all are."),
        .duration(
            "typing.expire", \.typing.expire, .milliseconds(100) ... .seconds(600), live: true,
            "Who isn't heard typing again for so long has stopped, which is told up to typing.throttle later; at least twice typing.throttle."
        ),
    ]

    private static let limits: [Setting] = [
        .size("limits.messageBytes", \.limits.messageBytes, 256...16 * 1024 * 1024, live: true, "One message from a client."),
        .size(
            "limits.outboundBytes", \.limits.outboundBytes, 4 * 1024...1024 * 1024 * 1024,
            live: true, "What may wait to be sent on one connection."),
        .size(
            "limits.sendMemory", \.limits.sendMemory, 64 * 1024...1024 * 1024 * 1024 * 1024, live: true,
            "What may wait to be sent on all connections of this node together."),
        .integer(
            "limits.messagesPerSecond", \.limits.messagesPerSecond, 1...10_000_000, live: true, "Messages of one connection, steadily."),
        .integer("limits.messageBurst", \.limits.messageBurst, 1...10_000_000, live: true, "Messages of one connection at once."),
        .integer("limits.connections", \.limits.connections, 1...10_000_000, live: true, "Connections of this node."),
        .integer(
            "limits.connectionsPerAddress", \.limits.connectionsPerAddress, 0...10_000_000, live: true,
            "Connections of one client address; 0: any number."),
        .integer(
            "limits.acceptsPerSecond", \.limits.acceptsPerSecond, 1...1_000_000, live: true,
            "WebSockets and streams of events that may be opened in a second, and TLS handshakes that may begin; others are told when to come back, or wait."
        ),
        .integer("limits.channels", \.limits.channels, 1...100_000, live: true, "Subscriptions of one connection."),
        .integer("limits.watch", \.limits.watch, 1...1_000_000, live: true, "Users that one connection may watch."),
        .integer("limits.watchRequest", \.limits.watchRequest, 1...100_000, live: true, "Users that one request may name."),
        .integer("limits.depth", \.limits.depth, 4...64, live: true, "Nesting of a message's JSON."),
        .size("limits.messageIdBytes", \.limits.messageIdBytes, 16...255, live: true, "A sender's message id."),
        .size("limits.deviceBytes", \.limits.deviceBytes, 1...255, live: true, "A client's name for itself."),
        .size("limits.headBytes", \.limits.headBytes, 1024...1024 * 1024, live: true, "Head of an HTTP request."),
        .size("limits.bodyBytes", \.limits.bodyBytes, 1024...64 * 1024 * 1024, live: true, "Body of an HTTP request."),
        .integer(
            "limits.historyPage", \.limits.historyPage, 1...Configuration.Limits.historyPageMax, live: true,
            "Publications of a page, where a request doesn't say; it may ask for 1000."),
        .size(
            "limits.recoveryMemory", \.limits.recoveryMemory, 0...1024 * 1024 * 1024 * 1024,
            "What channels remember of their latest publications, for those who come back, on this node together; 0: nothing."),
    ]

    private static let deflate: [Setting] = [
        .integer(
            "deflate.level", \.deflate.level, 0...9,
            "How hard messages are compressed for clients that offer permessage-deflate; 0: not at all."),
        .integer("deflate.windowBits", \.deflate.windowBits, 9...15, live: true, "Largest window of the compression, as a power of two."),
        .size(
            "deflate.minimumBytes", \.deflate.minimumBytes, 0...16 * 1024 * 1024, live: true,
            "Shorter messages aren't compressed; one for a single connection isn't below four times that."),
        .size(
            "deflate.contextBudget", \.deflate.contextBudget, 0...1024 * 1024 * 1024 * 1024, live: true,
            "Memory for connections whose compression goes on from message to message; 0: none does."),
    ]

    private static let deadlines: [Setting] = [
        .duration(
            "deadlines.tls", \.deadlines.tls, .milliseconds(100) ... .seconds(300), live: true,
            "From accept until PROXY header and TLS handshake are done."),
        .duration(
            "deadlines.head", \.deadlines.head, .milliseconds(100) ... .seconds(300), live: true,
            "From accept until a request's head is whole."),
        .duration(
            "deadlines.authentication", \.deadlines.authentication, .milliseconds(100) ... .seconds(300),
            live: true, "From the handshake until the client shows its token; what a backend is asked has ask.deadline."),
        .duration(
            "deadlines.idle", \.deadlines.idle, .milliseconds(100) ... .seconds(3600), live: true,
            "For the next request on an HTTP connection."),
        .duration("deadlines.close", \.deadlines.close, .milliseconds(100) ... .seconds(300), live: true, "For the closing handshake."),
        .duration("deadlines.pong", \.deadlines.pong, .milliseconds(100) ... .seconds(300), live: true, "For the answer to a ping."),
        .duration(
            "deadlines.shutdown", \.deadlines.shutdown, .milliseconds(100) ... .seconds(3600),
            "From SIGTERM until the process ends, whatever is still open."),
    ]

    static let namespacePrefix = "namespaces.NAME."
    private static let namespaces: [Setting] = [
        .namespaceInteger("namespaces.NAME.history.size", \.size, 0...100_000, "Publications kept for each channel; 0: none."),
        .namespaceDuration("namespaces.NAME.history.ttl", \.ttl, .milliseconds(100) ... .seconds(365 * 86_400), "How long they are kept."),
        .namespaceDuration(
            "namespaces.NAME.dedup", \.dedup, .milliseconds(100) ... .seconds(7 * 86_400),
            "How long a message id is remembered, so that a retry isn't published twice. Raise it on running nodes."),
        .rights,
        .asks,
        .namespaceBoolean("namespaces.NAME.presence", \.members.isOn, "Whether channels know who is in them."),
        .namespaceInteger(
            "namespaces.NAME.members.threshold", \.members.threshold, 0...MemberLimits.whole,
            "Members above which only how many there are is told; above a quarter of it changes come once a second."),
    ]

    private static let diagnostics: [Setting] = [
        .boolean("diagnostics.echo", \.diagnostics.echo, "Serves /v1/echo, which sends back what it gets; on in development mode."),
        .size("diagnostics.echoBytes", \.diagnostics.echoBytes, 1024...256 * 1024 * 1024, "Largest message of the echo endpoint."),
        Setting(
            "log.level", .choice(["debug", "info", "warning", "error"]), isLive: true,
            "Least weight that is logged: debug, info, warning, error."
        ) {
            .text("\($1.logLevel)")
        } write: { value, _, configuration in
            let levels: [String: Configuration.LogLevel] = ["debug": .debug, "info": .info, "warning": .warning, "error": .error]
            guard case .text(let text) = value, let level = levels[text] else { preconditionFailure("the kind of log.level gave \(value)") }
            configuration.logLevel = level
        },
        .boolean(
            "log.personal", \.logPersonal, live: true, "Client addresses and user ids in log lines as they are; false: as pseudonyms."),
        Setting(
            "log.format", .choice(["automatic", "text", "json"]), isLive: false,
            "Text, JSON, or automatic: text on a terminal, JSON elsewhere."
        ) {
            .text("\($1.logFormat)")
        } write: { value, _, configuration in
            let formats: [String: Configuration.LogFormat] = ["automatic": .automatic, "text": .text, "json": .json]
            guard case .text(let text) = value, let format = formats[text] else {
                preconditionFailure("the kind of log.format gave \(value)")
            }
            configuration.logFormat = format
        },
    ]

    /// Names that are settled but whose part of the hub isn't built: refused, since accepting them would promise what isn't kept. Each
    /// stands for all that is below it too.
    static let unsupported = [
        "drain"
    ]
}
