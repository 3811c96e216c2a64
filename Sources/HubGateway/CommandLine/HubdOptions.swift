import HubBase

/// The command line of `hubd`.
package struct HubdOptions: Sendable {
    package var configFile: String?
    package var listen: [String] = []
    package var redis: String?
    package var node: String?
    package var isDevelopment = false
    package var sets: [String] = []
    package var isCheck = false
    package var wantsVersion = false
    package var wantsHelp = false

    /// `arguments` without the program's name.
    package static func parse(_ arguments: [String]) throws(CommandLineError) -> HubdOptions {
        let parsed = try parser.parse(arguments)
        var options = HubdOptions()
        options.configFile = parsed.value("config")
        options.listen = parsed.values("listen")
        options.redis = parsed.value("redis")
        options.node = parsed.value("node")
        options.isDevelopment = parsed.has("dev")
        options.sets = parsed.values("set")
        options.isCheck = parsed.has("check")
        options.wantsVersion = parsed.has("version")
        options.wantsHelp = parsed.wantsHelp
        return options
    }

    /// The settings that have a flag of their own.
    var flagSettings: [ConfigurationLoader.FlagSetting] {
        var settings: [ConfigurationLoader.FlagSetting] = []
        if !listen.isEmpty { settings.append(.init(flag: "--listen", path: "listen", value: .list(listen.map { .text($0) }))) }
        if let redis { settings.append(.init(flag: "--redis", path: "redis.url", value: .text(redis))) }
        if let node { settings.append(.init(flag: "--node", path: "node", value: .text(node))) }
        return settings
    }

    package static let parser = CommandLineParser(
        program: "hubd", summary: "A node of the hub: presence and pub/sub over WebSocket, alone or with others on one Redis.",
        flags: [
            .init("config", value: "FILE", help: "Read settings from FILE (JSON5)."),
            .init(
                "listen", value: "HOST:PORT", isRepeatable: true,
                help: "Listen there; port 0 picks one and prints it. Default: 127.0.0.1:8080."),
            .init("redis", value: "URL", help: "Share channels and presence with other nodes through this Redis. Default: stand alone."),
            .init("node", value: "NAME", help: "This node's name for people. Default: the host's name."),
            .init("dev", help: "Development mode: this machine only, ?user=alice instead of a token, all rights, the echo endpoint."),
            .init("set", value: "KEY=VALUE", isRepeatable: true, help: "Set any setting, such as limits.channels=100."),
            .init("check", help: "Say what would run, and don't run it."),
            .init("version", help: "Print the version."),
        ],
        examples: [
            .init("hubd --dev", "try it: ws://127.0.0.1:8080/v1/ws?user=alice&channel=room:1"),
            .init("hubd --config /etc/hub/hub.json5", "a node as configured"),
            .init("hubd --dev --listen 127.0.0.1:0 --redis redis://127.0.0.1:6379", "one of several nodes on this machine"),
            .init("hubd --config hub.json5 --check", "would it start, and with what?"),
        ],
        notes: [
            """
            Settings come from their defaults, then FILE, then variables HUB_CFG_… (presence.userTTL is
            HUB_CFG_PRESENCE__USER_TTL), then --set, then the other flags; later ones win.
            """,
            "Signals: SIGTERM and SIGINT stop the node in order, a second one at once. SIGHUP reads FILE again.",
            "Exit codes: 0 stopped as asked, 1 failed (an address is taken, say), 2 usage or configuration.",
        ])
}
