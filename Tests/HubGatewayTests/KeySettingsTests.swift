import HubBase
import HubCore
import HubGateway
import Testing

@Suite("Keys in the configuration")
struct KeySettingsTests {
    private static let secret = "0123456789abcdef0123456789abcdef"

    private func load(_ sets: [String], environment: [String: String] = [:], isDevelopment: Bool = false) throws(ConfigurationError)
        -> LoadedConfiguration
    {
        try ConfigurationLoader.load(file: nil, environment: environment, sets: sets, isDevelopment: isDevelopment)
    }

    @Test("a secret comes from the configuration, a variable or a file, without the newline at its end")
    func sources() throws {
        let folder = try TemporaryFolder()
        let file = try folder.write(Self.secret + "\n", to: "secret")
        let keys = "auth.keys=[{kid:'a',alg:'HS256',secret:'\(Self.secret)'},{kid:'b',env:'MY_SECRET'},{kid:'c',file:'\(file)'}]"
        let loaded = try load([keys], environment: ["MY_SECRET": Self.secret])
        #expect(loaded.configuration.tokenKeys.map(\.id) == ["a", "b", "c"])
        #expect(loaded.configuration.tokenKeys.map(\.algorithm) == ["HS256", "HS256", "HS256"])
        #expect(loaded.configuration.tokenKeys.allSatisfy { $0.secret.bytes == Array(Self.secret.utf8) })
        #expect(loaded.warnings.count == 1 && loaded.warnings[0].contains("ps shows"))
        #expect(!"\(loaded)".contains(Self.secret))
    }

    @Test("a file with a secret that others may read is warned about; so is a configuration file with one in it")
    func openFiles() throws {
        let folder = try TemporaryFolder()
        let secret = try folder.write(Self.secret, to: "secret", mode: 0o640)
        let warnings = try load(["auth.keys=[{file:'\(secret)'}]"]).warnings
        #expect(warnings.count == 1 && warnings[0].contains(secret) && warnings[0].contains("mode 0640"))
        let file = try folder.write("{ auth: { keys: [{ secret: '\(Self.secret)' }] } }", to: "hub.json5", mode: 0o644)
        let loaded = try ConfigurationLoader.load(file: file)
        #expect(loaded.warnings.count == 1 && loaded.warnings[0].contains(file))
    }

    @Test("whatever stands where a secret may stand, a refusal doesn't show it")
    func nothingIsShown() throws {
        let marker = "m4rker-0123456789"
        let holders = ConfigurationLoader.secretPaths
        #expect(
            Set(["auth.keys", "auth.jwks.url", "api.keys", "redis.url", "redis.password", "hooks.url", "hooks.secret", "outgoing.proxy"])
                .isSubset(of: Set(holders)))
        let values = [
            marker, "'\(marker)'", "[\(marker)]", "['\(marker)']", "[{secret:\(marker)}]", "[{secret:'\(marker)',env:'X'}]",
            "[{alg:'\(marker)'}]", "[{env:'\(marker)'}]", "[{alg:'ES256',secret:'\(marker)'}]",
            "[{id:'x',digest:'\(marker)',scopes:['read']}]",
            "[{id:'x',env:'LONG',scopes:'\(marker)'}]", "[{id:'x',env:'LONG',scopes:['\(marker)']}]", "{a:'\(marker)'}",
            "[{secret:'\(marker)\\q",
            "http://u:\(marker)@host:1", "ftp://u:\(marker)@host:1", "https://host/?key=\(marker)#a", "redis://u:\(marker)@host:x",
            "redis//:\(marker)@host",
        ]
        for path in holders {
            for value in values {
                do throws(ConfigurationError) {
                    let loaded = try load(["\(path)=\(value)"], environment: ["LONG": Self.secret])
                    #expect(!ConfigurationReport.text(loaded).contains(marker), "\(path)=\(value)")
                    #expect(!loaded.warnings.joined().contains(marker), "\(path)=\(value)")
                } catch {
                    #expect(!error.description.contains(marker), "\(path)=\(value)")
                }
                let folder = try TemporaryFolder()
                let parts = path.split(separator: ".")
                let opening = parts.map { "\($0):{" }.joined().dropLast()
                let text = "{" + opening + value + String(repeating: "}", count: parts.count)
                let file = try folder.write(text, to: "hub.json5", mode: 0o600)
                do throws(ConfigurationError) { _ = try ConfigurationLoader.load(file: file) } catch {
                    #expect(!error.description.contains(marker), "\(text)")
                }
            }
        }
    }

    @Test("a secret among the arguments is warned of; in a file or a variable it isn't")
    func arguments() throws {
        let set = "auth.keys=[{secret:'\(Self.secret)'}]"
        let warned = try load([set, "redis.url=redis://u:pass@127.0.0.1:6379", "redis.prefix=a"]).warnings
        #expect(warned.count == 2 && warned.allSatisfy { $0.contains("ps shows") && !$0.contains(Self.secret) && !$0.contains("pass@") })
        #expect(try load(["auth.keys=[{env:'KEY'}]"], environment: ["KEY": Self.secret]).warnings.isEmpty)
    }

    @Test("a key set that others can write is warned of")
    func openKeySet() throws {
        let folder = try TemporaryFolder()
        for (mode, count) in [(0o644, 0), (0o664, 1), (0o646, 1)] as [(Int, Int)] {
            let set = try folder.write("{}", to: "set\(mode).json", mode: mode)
            let warnings = try load(["auth.keys=[{env:'KEY'}]", "auth.jwks.file=\(set)"], environment: ["KEY": Self.secret]).warnings
            #expect(warnings.count == count && warnings.allSatisfy { $0.contains(set) && $0.contains("chmod 644") })
        }
    }

    @Test(
        "keys that can't be used are told by place, without a word of the secret, field-faults B63",
        arguments: [
            ("auth.keys={}", "--set: auth.keys must be a list of objects, not an object"),
            ("auth.keys=5", "--set: auth.keys must be a list of objects, not a number"),
            ("auth.keys=[5]", "--set: auth.keys[0] must be an object, not a number"),
            ("auth.keys=[{kid:'a'}]", "--set: auth.keys[0] needs exactly one of secret, file and env"),
            ("auth.keys=[{secret:'m4rker',env:'X'}]", "--set: auth.keys[0] needs exactly one of secret, file and env"),
            ("auth.keys=[{secret:''}]", "--set: auth.keys[0].secret is empty"),
            ("auth.keys=[{secret:5}]", "--set: auth.keys[0].secret must be a text between quotes"),
            ("auth.keys=[{sekret:'m4rker'}]", "--set: auth.keys[0] has the unknown key \"sekret\"; did you mean secret?"),
            (
                "auth.keys=[{alg:'none',secret:'m4rker'}]",
                "--set: auth.keys[0].alg must be one of \"HS256\", \"HS384\", \"HS512\", \"RS256\", \"PS256\", \"ES256\", \"ES384\", \"EdDSA\", not \"none\""
            ),
            ("auth.keys=[{env:'NOT_SET'}]", "--set: auth.keys[0].env names the variable \"NOT_SET\", which isn't set"),
            ("auth.keys=[{env:'EMPTY'}]", "--set: auth.keys[0].env names the variable \"EMPTY\", which is empty"),
            (
                "auth.keys=[{file:'/nowhere/key'}]",
                "--set: auth.keys[0].file names the file \"/nowhere/key\": can't be read: No such file or directory"
            ),
            ("auth.keys=[{secret:'m4rker-m4rker'}]", "auth.keys[0] is 13 bytes long; HS256 needs at least 32 bytes [auth.keys: --set]"),
            (
                "auth.keys=[{alg:'RS256',secret:'m4rker-m4rker'}]",
                "--set: auth.keys[0] isn't PEM (-----BEGIN …); RS256 takes an RSA key"
            ),
            (
                "auth.keys=[{alg:'HS512',secret:'0123456789abcdef0123456789abcdef'}]",
                "auth.keys[0] is 32 bytes long; HS512 needs at least 64 bytes [auth.keys: --set]"
            ),
            (
                "auth.keys=[{alg:'HS256',secret:'-----BEGIN m4rker'}]",
                "--set: auth.keys[0] holds a PEM key; HS256 takes a secret that nobody else knows"
            ),
            (
                "auth.jwks.url=http://keys.example/",
                "--set: auth.jwks.url must be an https address, or one of this machine"
            ),
            (
                "namespaces.room.rights=subscribe,own",
                "--set: namespaces.room.rights[1] must be one of subscribe, publish, presence, history, watch, or *, not \"own\""
            ),
            ("api.keys=[{digest:'00',scopes:['read']}]", "--set: api.keys[0] lacks its id"),
            ("api.keys=[{id:'a',digest:'00',scopes:['read']}]", "--set: api.keys[0].digest must be a SHA-256: 64 hexadecimal digits"),
            ("api.keys=[{id:'a',env:'LONG'}]", "--set: api.keys[0] lacks its scopes: a list of some of \"read\", \"publish\", \"admin\""),
            (
                "api.keys=[{id:'a',env:'LONG',scopes:['root']}]",
                "--set: api.keys[0].scopes must be a list of some of \"read\", \"publish\", \"admin\", not \"root\""
            ),
            ("redis.password=", "--set: redis.password is empty"),
            (
                "redis.passwordFile=/nowhere/key",
                "--set: redis.passwordFile names the file \"/nowhere/key\": can't be read: No such file or directory"
            ),
        ])
    func wrong(set: String, problem: String) {
        let environment = ["EMPTY": "", "LONG": Self.secret]
        let base = "auth.keys=[{secret:'\(Self.secret)'}]"
        let error = #expect(throws: ConfigurationError.self) { try load([base, set], environment: environment) }
        #expect(error?.problems == [problem])
        #expect(error?.description.contains("m4rker") == false)
    }

    @Test("a public key others may read, but not write")
    func publicKeys() throws {
        let folder = try TemporaryFolder()
        let pem = """
            -----BEGIN PUBLIC KEY-----
            MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
            -----END PUBLIC KEY-----
            """
        let open = try folder.write(pem, to: "open", mode: 0o644)
        let loaded = try load(["auth.keys=[{alg:'EdDSA',file:'\(open)'}]"])
        #expect(loaded.warnings == [] && loaded.configuration.tokenKeys.map(\.algorithm) == ["EdDSA"])
        let writable = try folder.write(pem, to: "writable", mode: 0o664)
        #expect(try load(["auth.keys=[{alg:'EdDSA',file:'\(writable)'}]"]).warnings.first?.contains("written by other users") == true)
    }

    @Test("rights are words, a namespace's in place of those for every one; a key set alone is enough to start")
    func rights() throws {
        let loaded = try load([
            "auth.jwks.file=/etc/hub/keys.json", "namespaces.*.rights=subscribe,watch", "namespaces.room.rights=['*']",
            "namespaces.hall.dedup=5m",
        ])
        let rules = Grants.rules(loaded.configuration)
        #expect(rules.allow(.subscribe, in: "any:1") && !rules.allow(.publish, in: "any:1") && rules.allow(.publish, in: "room:1"))
        #expect(rules.allow(.subscribe, in: "hall:1") && rules.allowWatching("bob"))
        #expect(Grants.rules(try load([], isDevelopment: true).configuration).allow(.publish, in: "room:1"))
    }

    @Test("an empty file with a secret is an error")
    func emptyFile() throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("\n", to: "secret")
        let error = #expect(throws: ConfigurationError.self) { try load(["auth.keys=[{file:'\(file)'}]"]) }
        #expect(error?.description.contains("which is empty") == true)
    }

    @Test("doubled ids and keys are refused")
    func doubled() {
        let two = "auth.keys=[{kid:'a',secret:'\(Self.secret)'},{kid:'a',secret:'\(Self.secret)x'}]"
        #expect(throws: ConfigurationError.self) { try load([two]) }
        let base = "auth.keys=[{secret:'\(Self.secret)'}]"
        for keys in [
            "[{id:'a',env:'A',scopes:['read']},{id:'a',env:'B',scopes:['read']}]",
            "[{id:'a',env:'A',scopes:['read']},{id:'b',env:'A',scopes:['read']}]",
        ] {
            #expect(throws: ConfigurationError.self) {
                try load([base, "api.keys=" + keys], environment: ["A": Self.secret, "B": Self.secret + "x"])
            }
        }
    }

    @Test("development mode takes short keys, and none")
    func development() throws {
        #expect(try load([], isDevelopment: true).configuration.tokenKeys.isEmpty)
        #expect(try load(["auth.keys=[{secret:'short'}]"], isDevelopment: true).configuration.tokenKeys.count == 1)
    }

    @Test("the digest of an API key is what sha256sum prints, and the key is taken by it")
    func apiKeys() throws {
        // printf 'correct horse battery' | sha256sum
        let digest = "9028ea0d15decaa35b2da21c0290af3b1a5ba0a30a591906f89b5074e209ea72"
        let base = "auth.keys=[{env:'SIGNING'}]"
        let loaded = try load(
            [base, "api.keys=[{id:'one',digest:'\(digest)',scopes:['read']},{id:'two',env:'KEY',scopes:['read','publish','read']}]"],
            environment: ["KEY": "another key, long", "SIGNING": Self.secret])
        #expect(loaded.warnings == [])
        let verifier = APIKeyVerifier(keys: loaded.configuration.apiKeys)
        #expect(verifier.verify(Array("correct horse battery".utf8)) == .init(id: "one", scopes: ["read"]))
        #expect(verifier.verify(Array("another key, long".utf8)) == .init(id: "two", scopes: ["read", "publish"]))
        for wrong in ["", "correct horse batter", "correct horse battery ", digest, String(repeating: "x", count: 2000)] {
            #expect(verifier.verify(Array(wrong.utf8)) == nil)
        }
        #expect(APIKeyVerifier(keys: []).verify(Array("x".utf8)) == nil)
    }

    @Test("a password of Redis by file; two of them in one source are one too many")
    func redisPassword() throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("pa55\r\n", to: "password")
        let base = "auth.keys=[{secret:'\(Self.secret)'}]"
        #expect(try load([base, "redis.passwordFile=\(file)"]).configuration.redis.password?.bytes == Array("pa55".utf8))
        let error = #expect(throws: ConfigurationError.self) { try load([base, "redis.passwordFile=\(file)", "redis.password=x"]) }
        #expect(error?.problems == ["--set: redis.passwordFile and redis.password are both given; one of them is enough"])
    }
}
