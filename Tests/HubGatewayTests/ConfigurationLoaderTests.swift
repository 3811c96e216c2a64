import Foundation
import HubBase
import HubCore
import HubGateway
import Testing

@Suite("Loading a configuration")
struct ConfigurationLoaderTests {
    private static let secret = "0123456789abcdef0123456789abcdef"
    private static let key = "auth: { keys: [{ alg: 'HS256', secret: '\(secret)' }] }"

    /// The configuration of a file with `text`, or its problems. The file's name shows as FILE.
    private func load(
        _ text: String?, environment: [String: String] = [:], sets: [String] = [], isDevelopment: Bool = true
    ) throws -> Result<LoadedConfiguration, ConfigurationError> {
        let folder = try TemporaryFolder()
        let path = try text.map { try folder.write($0, to: "hub.json5") }
        do {
            return .success(
                try ConfigurationLoader.load(file: path, environment: environment, sets: sets, isDevelopment: isDevelopment))
        } catch {
            var error = error
            error.problems = error.problems.map { $0.replacingOccurrences(of: path ?? "no file", with: "FILE") }
            return .failure(error)
        }
    }

    private func problems(_ text: String?, environment: [String: String] = [:], sets: [String] = [], isDevelopment: Bool = true) throws
        -> [String]
    {
        guard case .failure(let error) = try load(text, environment: environment, sets: sets, isDevelopment: isDevelopment) else {
            return []
        }
        return error.problems
    }

    @Test("later sources win: defaults, file, environment, --set, flags")
    func order() throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("{ limits: { channels: 1, watch: 5000, depth: 8, connections: 7 } }", to: "a.json5")
        let loaded = try ConfigurationLoader.load(
            file: file,
            environment: ["HUB_CFG_LIMITS__WATCH": "6000", "HUB_CFG_LIMITS__DEPTH": "9", "HUB_CFG_NODE": "env"],
            sets: ["limits.depth=10", "node=set"],
            flags: [.init(flag: "--node", path: "node", value: .text("flag"))], isDevelopment: true)
        let configuration = loaded.configuration
        #expect(configuration.limits.channels == 1)
        #expect(configuration.limits.watch == 6000)
        #expect(configuration.limits.depth == 10)
        #expect(configuration.node == "flag")
        #expect(configuration.limits.messageBytes == 65536)
        #expect(loaded.origins["limits.channels"] == .file(file, line: 1))
        #expect(loaded.origins["limits.watch"] == .variable("HUB_CFG_LIMITS__WATCH"))
        #expect(loaded.origins["limits.depth"] == .set)
        #expect(loaded.origins["node"] == .flag("--node"))
    }

    @Test("every kind of value is read from a file and from text alike")
    func kinds() throws {
        let inFile = """
            { listen: ['127.0.0.1:0', '[::1]:9000'], redis: { url: 'redis://localhost:6380/2', prefix: 'h' }, pin: 1,
              presence: { userTTL: '10m' }, limits: { messageBytes: '32KB' }, diagnostics: { echo: false }, log: { level: 'debug' },
              auth: { origins: ['https://a.example'] }, namespaces: { chat: { history: { size: 7 } } } }
            """
        let environment = [
            "HUB_CFG_LISTEN": "127.0.0.1:0,[::1]:9000", "HUB_CFG_REDIS__URL": "redis://localhost:6380/2", "HUB_CFG_REDIS__PREFIX": "h",
            "HUB_CFG_PIN": "1", "HUB_CFG_PRESENCE__USER_TTL": "10m", "HUB_CFG_LIMITS__MESSAGE_BYTES": "32768",
            "HUB_CFG_DIAGNOSTICS__ECHO": "false", "HUB_CFG_LOG__LEVEL": "debug", "HUB_CFG_AUTH__ORIGINS": "[\"https://a.example\"]",
            "HUB_CFG_NAMESPACES__CHAT__HISTORY__SIZE": "7",
        ]
        let sets = [
            "listen=127.0.0.1:0,[::1]:9000", "redis.url=redis://localhost:6380/2", "redis.prefix=h", "pin=1", "presence.userTTL=600s",
            "limits.messageBytes=32KB", "diagnostics.echo=false", "log.level=debug", "auth.origins=https://a.example",
            "namespaces.chat.history.size=7",
        ]
        for loaded in [try load(inFile), try load(nil, environment: environment), try load(nil, sets: sets)] {
            let configuration = try loaded.get().configuration
            #expect(configuration.listen == ["127.0.0.1:0", "[::1]:9000"])
            #expect(configuration.redis.url == "redis://localhost:6380/2")
            #expect(configuration.redis.prefix == "h")
            #expect(configuration.pin == 1)
            #expect(configuration.presence.userTTL == .seconds(600))
            #expect(configuration.limits.messageBytes == 32768)
            #expect(configuration.diagnostics.echo == false)
            #expect(configuration.logLevel == .debug)
            #expect(configuration.origins == ["https://a.example"])
            #expect(configuration.namespaces["chat"]?.size == 7)
            #expect(configuration.namespaces[""]?.size == 100)
        }
    }

    @Test(
        "a wrong file is refused with the setting and its place, field-faults B63",
        arguments: [
            ("{ lsten: [] }", "FILE:1: lsten is unknown; did you mean listen?"),
            ("{\n presence: {\n  hartbeat: '1s' } }", "FILE:3: presence.hartbeat is unknown; did you mean presence.heartbeat?"),
            ("{ heartbeat: '1s' }", "FILE:1: heartbeat is unknown; did you mean presence.heartbeat?"),
            ("{ zebra: 1 }", "FILE:1: zebra is unknown; docs/configuration.md lists all"),
            (
                "{ namespaces: { chat: { histry: {} } } }",
                "FILE:1: namespaces.chat.histry is unknown; did you mean namespaces.chat.history?"
            ),
            (
                "{ namespaces: { chat: { history: { sizes: 1 } } } }",
                "FILE:1: namespaces.chat.history.sizes is unknown; did you mean namespaces.chat.history.size?"
            ),
            (
                "{ namespaces: { 'a:b': { dedup: '1s' } } }",
                "FILE:1: \"a:b\" can't be a namespace: 1 to 255 bytes, no colon, no control characters"
            ),
            ("{ namespaces: { '': { dedup: '1s' } } }", "FILE:1: a namespace's name can't be empty; \"*\" stands for every namespace"),
            ("{ presence: 5 }", "FILE:1: presence must be an object, { … }, not the number 5"),
            (
                "{ presence: { heartbeat: 30 } }",
                "FILE:1: presence.heartbeat must be a duration such as \"30s\": the number 30 lacks its unit (ms, s, m, h, d)"
            ),
            (
                "{ presence: { heartbeat: '30' } }",
                "FILE:1: presence.heartbeat must be a duration such as \"30s\": \"30\" lacks its unit (ms, s, m, h, d)"
            ),
            (
                "{ presence: { heartbeat: '30 s' } }",
                "FILE:1: presence.heartbeat must be a duration such as \"30s\" (ms, s, m, h, d), not \"30 s\""
            ),
            (
                "{ presence: { heartbeat: true } }",
                "FILE:1: presence.heartbeat must be a duration such as \"30s\" (ms, s, m, h, d), not true"
            ),
            (
                "{ presence: { heartbeat: '99999999999999999999d' } }",
                "FILE:1: presence.heartbeat must be a duration such as \"30s\" (ms, s, m, h, d), not \"99999999999999999999d\""
            ),
            ("{ presence: { grace: '2m' } }", "FILE:1: presence.grace must be from 0s to 1m, not \"2m\""),
            ("{ listen: ['127.0.0.1:70000'] }", "FILE:1: listen[0] must be HOST:PORT with a port from 0 to 65535, not \"127.0.0.1:70000\""),
            (
                "{ listen: ['127.0.0.1:0', ':80'] }",
                "FILE:1: listen[1] must be HOST:PORT with a host: \"0.0.0.0:80\" is every interface, not \":80\""
            ),
            ("{ listen: '127.0.0.1:80' }", "FILE:1: listen must be a list of texts, not \"127.0.0.1:80\""),
            ("{ listen: [] }", "listen is empty: at least one HOST:PORT is needed [listen: FILE:1]"),
            ("{ listen: ['127.0.0.1:80', '127.0.0.1:80'] }", "listen names \"127.0.0.1:80\" twice [listen: FILE:1]"),
            ("{ limits: { channels: -1 } }", "FILE:1: limits.channels must be a whole number from 1 to 100000, not the number -1"),
            ("{ limits: { channels: 1.5 } }", "FILE:1: limits.channels must be a whole number from 1 to 100000, not the number 1.5"),
            ("{ limits: { channels: 1e400 } }", "FILE:1: limits.channels must be a whole number from 1 to 100000, not the number 1e400"),
            ("{ limits: { channels: '5' } }", "FILE:1: limits.channels must be a whole number from 1 to 100000, not \"5\""),
            (
                "{ limits: { messageBytes: '64kb' } }",
                "FILE:1: limits.messageBytes must be a size such as \"64KB\" (B, KB, MB, GB), not \"64kb\""
            ),
            ("{ limits: { messageBytes: '99GB' } }", "FILE:1: limits.messageBytes must be from 256B to 16MB, not \"99GB\""),
            ("{ log: { level: 'loud' } }", "FILE:1: log.level must be one of \"debug\", \"info\", \"warning\", \"error\", not \"loud\""),
            ("{ diagnostics: { echo: 'yes' } }", "FILE:1: diagnostics.echo must be true or false, not \"yes\""),
            ("{ node: '' }", "FILE:1: node must be a name of 1 to 64 bytes without control characters, not \"\""),
            ("{ node: null }", "FILE:1: node must be a text between quotes, not null"),
            (
                "{ auth: { origins: ['app.example.com'] } }",
                "FILE:1: auth.origins[0] must be an origin such as \"https://app.example.com\", \"https://*.example.com\" or \"http://localhost:3000\", without a path (international names in punycode), not \"app.example.com\""
            ),
            ("{ a: 1, a: 2 }", "FILE:1:9: \"a\" is given twice, first in line 1"),
            ("[]", "FILE: must hold one object, { … }, not a list"),
            ("{ drain: { spread: \"10s\" } }", "FILE:1: drain isn't supported by this version"),
            ("{ deflate: { windowBits: 8 } }", "FILE:1: deflate.windowBits must be a whole number from 9 to 15, not the number 8"),
            (
                "{ namespaces: { a: { members: { threshold: 5000 } } } }",
                "FILE:1: namespaces.a.members.threshold must be a whole number from 0 to 1000, not the number 5000"
            ),
            ("{ namespaces: { a: { presence: 1 } } }", "FILE:1: namespaces.a.presence must be true or false, not the number 1"),
        ])
    func wrongFile(text: String, problem: String) throws {
        #expect(try problems(text) == [problem])
    }

    @Test("a URL of Redis is judged without showing the password in it")
    func redisURL() throws {
        let wrong = [
            "redis://:pa55word@host:99999", "redis://b%01b:pa55word@host", "http://:pa55word@host", "redis://:pa55word%ZZ@host",
        ]
        for url in wrong {
            let found = try problems(nil, sets: ["redis.url=" + url])
            #expect(
                found.count == 1 && found[0].hasPrefix("--set: redis.url must be ") && !found[0].contains("pa55word"), "\(url): \(found)")
        }
        let loaded = try load(nil, sets: ["redis.url=redis://:pa55%20word@host:1/3"]).get()
        #expect(loaded.configuration.redis.url == "redis://host:1/3")
        #expect(loaded.configuration.redis.password?.bytes == Array("pa55 word".utf8))
        #expect(!"\(loaded)".contains("pa55"))
        for url in [
            "redis://host", "redis://[::1]:6379/0", "redis://127.0.0.1", "redis://bob:pa55word@host", "unix:///run/redis.sock?db=1",
        ] {
            #expect(try problems(nil, sets: ["redis.url=" + url]) == [])
        }
    }

    @Test(
        "where Redis is, is said once, and whole",
        arguments: [
            ("redis.url=redis://h redis.cluster=redis://h:7000", "redis.url and redis.cluster are both given: a hub has one Redis"),
            (
                "redis.sentinel.urls=redis://h",
                "redis.sentinel.urls needs redis.sentinel.master, the name that the sentinels know the Redis by"
            ),
            ("redis.sentinel.master=main", "redis.sentinel.master needs redis.sentinel.urls: where the sentinels are"),
            ("redis.url=redis://h redis.user=app", "redis.user needs its password: redis.password or redis.passwordFile"),
            ("redis.cluster=redis://h redis.database=2", "redis.database is 2, but a cluster (redis.cluster) has database 0 only"),
        ])
    func redisPlan(sets: String, problem: String) throws {
        let found = try problems(nil, sets: sets.split(separator: " ").map(String.init))
        #expect(found.count == 1 && found[0].hasPrefix(problem), "\(found)")
    }

    @Test("addresses of sentinels and cluster nodes carry no secrets, and show none that they shouldn't have carried")
    func redisLists() throws {
        for setting in ["redis.sentinel.urls", "redis.cluster"] {
            for url in ["redis://:pa55word@h", "redis://u:pa55word@h", "redis://h/1", "unix://relative", "pa55word"] {
                let found = try problems(nil, sets: ["\(setting)=redis://ok,\(url)", "redis.sentinel.master=m"])
                #expect(found.contains { $0.contains("\(setting)[1] must be ") }, "\(found)")
                #expect(!found.joined().contains("pa55word"))
            }
        }
    }

    @Test("all problems are told at once")
    func several() throws {
        #expect(try problems("{ lsten: [], presence: { lease: 5 } }", environment: ["HUB_CFG_NODE": ""], sets: ["pin=x"]).count == 4)
    }

    @Test("relations between settings are told with the places of both")
    func relations() throws {
        let found = try problems("{ presence: { lease: '60s' } }", sets: ["presence.heartbeat=30s"])
        #expect(found.count == 1)
        #expect(found.first?.hasPrefix("presence.lease (60s) must be at least 2.5 times presence.heartbeat (30s)") == true)
        #expect(found.first?.hasSuffix("[presence.heartbeat: --set, presence.lease: FILE:1]") == true)
        #expect(try problems(nil, sets: ["limits.messageBytes=1MB"]).count == 2)
    }

    @Test("a file that isn't there, is a directory or is too long is told by name")
    func unreadable() throws {
        let folder = try TemporaryFolder()
        for path in [folder.path + "/none.json5", folder.path] {
            let error = #expect(throws: ConfigurationError.self) { try ConfigurationLoader.load(file: path) }
            #expect(error?.problems.count == 1)
            #expect(error?.description.contains(path) == true && error?.description.contains("can't be read") == true)
        }
        let long = try folder.write(String(repeating: " ", count: 300_000), to: "long.json5")
        let error = #expect(throws: ConfigurationError.self) { try ConfigurationLoader.load(file: long) }
        #expect(error?.description.contains("is longer than 256KB") == true)
    }

    @Test("only HUB_CFG_ variables are ours: an unknown one is an error, a cluster's HUB_PORT is nothing to us")
    func environment() throws {
        #expect(try problems(nil, environment: ["HUB_PORT": "tcp://10.0.0.1:80", "HUBD_PORT": "tcp://10.0.0.1:80", "HUB_URL": "x"]) == [])
        #expect(
            try problems(nil, environment: ["HUB_CFG_PRESENCE__HARTBEAT": "1s"]) == [
                "HUB_CFG_PRESENCE__HARTBEAT is unknown; did you mean HUB_CFG_PRESENCE__HEARTBEAT?"
            ])
        #expect(
            try problems(nil, environment: ["HUB_CFG_DRAIN__SPREAD": "x"]) == [
                "HUB_CFG_DRAIN__SPREAD isn't supported by this version"
            ])
        #expect(
            try problems(nil, environment: ["HUB_CFG_AUTH__KEYS": "[{"]) == [
                "HUB_CFG_AUTH__KEYS: auth.keys isn't JSON5: a key is expected, not the end (line 1, column 3)"
            ])
        let loaded = try load(nil, environment: ["HUB_CFG_NAMESPACES__TEAM_CHAT__DEDUP": "1m"]).get()
        #expect(loaded.configuration.namespaces["teamChat"]?.dedup == .seconds(60))
    }

    @Test("what holds for every namespace holds for each that doesn't say otherwise, whatever stands first")
    func namespaces() throws {
        let text = "{ namespaces: { chat: { history: { ttl: '1m' } }, '*': { history: { size: 5 }, dedup: '1m' } } }"
        let namespaces = try load(text, sets: ["namespaces.a.b.dedup=2m"]).get().configuration.namespaces
        #expect(
            namespaces["chat"]
                == {
                    var options = HistoryOptions(); options.size = 5; options.ttl = .seconds(60); options.dedup = .seconds(60);
                    return options
                }())
        #expect(namespaces[""]?.ttl == .seconds(3600))
        #expect(namespaces["a.b"]?.dedup == .seconds(120))
    }

    @Test("--set without an equals sign, with an odd key or for a group is told")
    func sets() throws {
        #expect(
            try problems(nil, sets: ["limits.channels"]) == ["--set \"limits.channels\": must be KEY=VALUE, such as limits.channels=100"])
        #expect(try problems(nil, sets: ["limits=1"]) == ["--set: limits isn't a setting but a group of them"])
        #expect(try problems(nil, sets: ["=1"]).count == 1)
        #expect(try problems(nil, sets: ["\u{1B}[2J=1"]) == ["--set: \"\u{FFFD}[2J\" is unknown; docs/configuration.md lists all"])
    }
}
