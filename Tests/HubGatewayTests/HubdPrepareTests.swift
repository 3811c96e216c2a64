import HubBase
import HubCore
import HubGateway
import Testing

@Suite("hubd, from arguments to a configuration")
struct HubdPrepareTests {
    private static let keys = "HUB_CFG_AUTH__KEYS"
    private static let environment = [keys: #"[{"alg":"HS256","env":"HUB_SECRET"}]"#, "HUB_SECRET": "0123456789abcdef0123456789abcdef"]

    private func end(_ arguments: [String], _ environment: [String: String] = [:]) -> (code: Int32, output: String, error: String)? {
        guard case .exit(let code, let output, let error) = Hubd.prepare(arguments: arguments, environment: environment) else { return nil }
        return (code, output, error)
    }

    private func run(_ arguments: [String], _ environment: [String: String] = [:]) -> Configuration? {
        guard case .run(let loaded, _) = Hubd.prepare(arguments: arguments, environment: environment) else { return nil }
        return loaded.configuration
    }

    @Test("without a key it refuses to start, says why, and names three ways out")
    func noKey() {
        let end = end([])
        #expect(end?.code == 2)
        #expect(end?.output == "")
        #expect(end?.error.hasPrefix("hubd: auth.keys is empty: with no key to check tokens with nobody could connect.") == true)
        for way in ["hubd --dev", "--config FILE", "HUB_CFG_AUTH__KEYS="] { #expect(end?.error.contains(way) == true) }
        #expect(run([], Self.environment)?.tokenKeys.count == 1)
    }

    @Test("development mode: no key needed, loopback, echo on unless it's set")
    func development() {
        let configuration = run(["--dev"])
        #expect(configuration?.isDevelopment == true)
        #expect(configuration?.listen == ["127.0.0.1:8080"])
        #expect(configuration?.diagnostics.echo == true)
        #expect(run(["--dev", "--set", "diagnostics.echo=false"])?.diagnostics.echo == false)
        #expect(run([], Self.environment)?.diagnostics.echo == false)
    }

    @Test(
        "development mode takes no address that others could reach",
        arguments: ["0.0.0.0:80", "[::]:80", "10.0.0.1:80", "127.0.0.1.example:80", "host:80"])
    func reachable(address: String) {
        let end = end(["--dev", "--listen", address])
        #expect(end?.code == 2)
        #expect(
            end?.error.contains("\"\(address)\", but development mode (--dev)") == true && end?.error.contains("[listen: --listen]") == true
        )
        #expect(run(["--listen", address], Self.environment)?.listen == [address])
    }

    @Test("development mode takes loopback addresses", arguments: ["127.0.0.1:0", "127.9.9.9:80", "[::1]:80", "localhost:80"])
    func loopback(address: String) {
        #expect(run(["--dev", "--listen", address])?.listen == [address])
    }

    @Test("flags win over --set, which wins over the environment")
    func flags() {
        let configuration = run(
            ["--dev", "--node=n1", "--redis", "redis://r:1", "--listen=127.0.0.1:1", "--listen=127.0.0.1:2", "--set=node=other"],
            ["HUB_CFG_NODE": "third", "HUB_CFG_REDIS__URL": "redis://other", "HUB_CFG_LISTEN": "0.0.0.0:9"])
        #expect(configuration?.node == "n1")
        #expect(configuration?.redis.url == "redis://r:1")
        #expect(configuration?.listen == ["127.0.0.1:1", "127.0.0.1:2"])
    }

    @Test(
        "wrong usage ends with 2 and says what was meant",
        arguments: [
            (["--dve"], "hubd: unknown flag \"--dve\"; did you mean --dev?"), (["--config"], "hubd: --config needs a value: --config FILE"),
            (["--node", "a", "--node", "b"], "hubd: --node is given twice"), (["start"], "hubd: unexpected argument \"start\""),
            (
                ["--dev", "--redis", "r:1"],
                "hubd: --redis: redis.url must be \"redis://HOST:PORT\" or \"redis://HOST:PORT/DATABASE\" (\"rediss://…\": TLS; \"unix:///PATH\": a socket)"
            ),
            (
                ["--dev", "--listen", "127.0.0.1:70000"],
                "hubd: --listen: listen[0] must be HOST:PORT with a port from 0 to 65535, not \"127.0.0.1:70000\""
            ),
            (["--dev", "--node", ""], "hubd: --node: node must be a name of 1 to 64 bytes without control characters, not \"\""),
            (
                ["--dev", "--config", "/nowhere.json5"],
                "hubd: the configuration file \"/nowhere.json5\" can't be read: No such file or directory"
            ),
        ])
    func usage(arguments: [String], line: String) {
        let end = end(arguments)
        #expect(end?.code == 2 && end?.output == "")
        #expect(end?.error.split(separator: "\n").first.map(String.init) == line)
    }

    @Test("--help and --version print and end with 0")
    func help() {
        let help = end(["--help"])
        #expect(help?.code == 0 && help?.error == "")
        for flag in [
            "--config FILE", "--listen HOST:PORT", "--redis URL", "--node NAME", "--dev", "--set KEY=VALUE", "--check", "--version",
            "--help",
        ] {
            #expect(help?.output.contains(flag) == true, "\(flag)")
        }
        #expect(end(["--version"])?.output == "hubd \(HubVersion.text)\n")
    }

    @Test("--check says what would run and where each value comes from, with secrets redacted")
    func check() throws {
        var environment = Self.environment
        environment["HUB_CFG_NAMESPACES__CHAT__DEDUP"] = "1m"
        let end = end(["--check", "--redis", "redis://:pa55word@r:1", "--set", "limits.channels=5"], environment)
        #expect(end?.code == 0 && end?.error.contains("ps shows") == true && end?.error.contains("pa55word") == false)
        #expect(
            end?.output == """
                Set, and where:
                  listen                 "127.0.0.1:8080"  (default)
                  redis.url              "redis://r:1"  (--redis)
                  redis.password         <redacted>  (--redis)
                  auth.keys              without kid (HS256, <redacted>)  (HUB_CFG_AUTH__KEYS)
                  limits.channels        5  (--set)
                  namespaces.chat.dedup  1m  (HUB_CFG_NAMESPACES__CHAT__DEDUP)
                ok

                """)
        #expect(self.end(["--check", "--set", "limits.chanels=5"], environment)?.code == 2)
    }
}

@Suite("A configuration that is read again")
struct ConfigurationDiffTests {
    private func load(_ sets: [String]) throws -> Configuration {
        try ConfigurationLoader.load(file: nil, sets: sets, isDevelopment: true).configuration
    }

    @Test("limits, keys, origins, namespaces and the log level change at once; what was taken at the start needs a restart")
    func diff() throws {
        let running = try load(["namespaces.old.dedup=2m", "auth.keys=[{kid:'a',secret:'x'}]"])
        let next = try load([
            "limits.channels=5", "auth.origins=https://a.example", "log.level=debug", "node=other", "ping=30s",
            "namespaces.new.history.size=3",
            "auth.keys=[{kid:'a',secret:'y'}]",
        ])
        let diff = ConfigurationDiff(from: running, to: next)
        #expect(
            diff.live.map(\.description) == [
                "auth.keys (a secret changed)", "auth.origins: none → \"https://a.example\"", "limits.channels: 256 → 5",
                "namespaces.new.history.size: 100 → 3", "namespaces.old.dedup: 2m → 10m", "log.level: \"info\" → \"debug\"",
            ])
        #expect(diff.needsRestart.map(\.path) == ["node", "ping"])
        #expect(diff.merged.limits.channels == 5)
        #expect(diff.merged.logLevel == .debug)
        #expect(diff.merged.tokenKeys.first?.secret.bytes == Array("y".utf8))
        #expect(diff.merged.namespaces == next.namespaces, "a namespace that is gone from the file is gone")
        #expect(diff.merged.node == nil && diff.merged.ping == .seconds(20))
    }

    @Test("the same again changes nothing")
    func same() throws {
        let sets = [
            "limits.channels=5", "auth.keys=[{secret:'x'}]", "redis.password=p",
            "api.keys=[{id:'a',digest:'\(String(repeating: "0", count: 64))',scopes:['read']}]",
        ]
        #expect(ConfigurationDiff(from: try load(sets), to: try load(sets)).isEmpty)
    }
}
