import HubBase
import HubCore
import HubGateway
import HubWire
import Testing

@Suite("webhooks in the configuration, and what signs them")
struct HookSettingsTests {
    private func load(_ sets: [String], environment: [String: String] = [:]) throws(ConfigurationError) -> LoadedConfiguration {
        try ConfigurationLoader.load(file: nil, environment: environment, sets: sets, isDevelopment: true)
    }

    private func problems(_ sets: [String]) -> [String] {
        do throws(ConfigurationError) {
            _ = try load(sets)
            return []
        } catch { return error.problems }
    }

    private let url = "hooks.url=https://backend.example/hub/secret-path"
    private let secret = "hooks.secret=0123456789abcdef"

    @Test("without an address nobody is told; with one, who comes and who goes and which channels, a share of the queue for each partition")
    func rules() throws {
        #expect(try load([]).configuration.hooks.rules == .none)
        let rules = try load([url, secret, "hooks.queue=2560"]).configuration.hooks.rules
        #expect(
            rules
                == HookRules(
                    kinds: HookKinds([.userOnline, .userOffline, .channelOccupied, .channelVacated]), perPartition: 10,
                    keep: .seconds(86_400)))
        let status = try load([url, secret, "hooks.events=user.status"]).configuration.hooks.rules
        #expect(status.kinds == HookKinds([.userStatus]))
    }

    @Test("a secret is a text, a variable's or a file's, or up to four of them")
    func secrets() throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("of the file, sixteen and more\n", to: "secret")
        let several = "hooks.secret=[{file:'\(file)'},{env:'HOOKS'},{secret:'written down as it is'}]"
        let loaded = try load([url, several], environment: ["HOOKS": "of the environment, long"])
        #expect(
            loaded.configuration.hooks.secrets.map { String(decoding: $0.bytes, as: UTF8.self) } == [
                "of the file, sixteen and more", "of the environment, long", "written down as it is",
            ])
        let variable = try load([url], environment: ["HUB_CFG_HOOKS__SECRET": "of a variable, long enough"])
        #expect(variable.configuration.hooks.secrets.map(\.bytes) == [Array("of a variable, long enough".utf8)])
        let five = "hooks.secret=[" + (0..<5).map { _ in "{secret:'0123456789abcdef'}" }.joined(separator: ",") + "]"
        #expect(problems([url, five]) == ["--set: hooks.secret has 5 secrets, of at most 4"])
    }

    @Test("what can't be is told, and shows neither secret nor path")
    func wrong() {
        let cases: [([String], String)] = [
            ([url], "hooks.url needs hooks.secret"),
            ([secret], "hooks.secret signs nothing"),
            ([url, "hooks.secret=short-secret"], "hooks.secret[0] has 12 bytes; 16 are needed"),
            (["hooks.url=https://u:secret-path@backend.example/", secret], "must not hold a user"),
            (["hooks.url=ftp://backend.example/secret-path", secret], "must be an address such as"),
            (["hooks.url=backend.example/secret-path", secret], "must be an address such as"),
            ([url, secret, "hooks.events=user.gone"], "one of user.online, user.offline, user.status, channel.occupied, channel.vacated"),
            ([url, secret, "hooks.events=[]"], "hooks.events is empty"),
            ([url, secret, "hooks.keep=60s", "hooks.retryMax=60s"], "hooks.keep (60s) must be longer"),
            ([url, secret, "outgoing.proxy=proxy:3128"], "outgoing.proxy must be an address"),
        ]
        for (sets, words) in cases {
            let found = problems(sets)
            #expect(found.contains { $0.contains(words) }, "\(sets): \(found)")
            #expect(
                !found.contains { $0.contains("secret-path") || $0.contains("short-secret") || $0.contains("0123456789abcdef") }, "\(found)"
            )
        }
    }

    @Test(
        "plain http to another machine is warned about, without the path",
        arguments: [("localhost", 0), ("127.0.0.2", 0), ("[::1]", 0), ("backend.example", 1)])
    func plain(host: String, count: Int) throws {
        let warnings = try load(["hooks.url=http://\(host):8080/secret-path", secret]).warnings.filter { !$0.contains("ps shows") }
        #expect(warnings.count == count && warnings.allSatisfy { $0.contains("plain http") && !$0.contains("secret-path") })
    }

    @Test("a reload changes address, secrets and kinds live, and says so without them")
    func reload() throws {
        let before = try load([url, secret]).configuration
        let after = try load(["hooks.url=https://other.example/secret-path", "hooks.secret=fedcba9876543210", "hooks.events=user.status"])
            .configuration
        let difference = ConfigurationDiff(from: before, to: after)
        #expect(difference.needsRestart.isEmpty)
        #expect(difference.merged.hooks.url == "https://other.example/secret-path")
        #expect(difference.merged.hooks.secrets.map(\.bytes) == after.hooks.secrets.map(\.bytes))
        let said = difference.live.map(\.description)
        #expect(said.contains { $0.contains("https://backend.example") && $0.contains("https://other.example") })
        #expect(said.contains("hooks.secret (a secret changed)"))
        #expect(!said.contains { $0.contains("secret-path") || $0.contains("fedcba") })
        // The same place, another path: still a change.
        let path = try load(["hooks.url=https://backend.example/another", secret]).configuration
        #expect(ConfigurationDiff(from: before, to: path).merged.hooks.url == "https://backend.example/another")
    }

    @Test("a signature is the time and an HMAC-SHA-256 of time and body for each secret, as another program computes it")
    func signature() {
        let secrets = ["a secret of the receiver", "the next"].map { Secret(Array($0.utf8)) }
        #expect(
            HookSignature.text(Array(#"{"events":[]}"#.utf8), secrets: secrets, seconds: 1_764_530_000)
                == "t=1764530000,v1=1d2b495e42ebcea6aa50629ec3aaa9e8b17221f8ec270a351b5fbc0da65bad02"
                + ",v1=2e5c7748cd6af6a17507854fcfbd29330da286297b34b842e5914f5809da66d9")
    }
}
