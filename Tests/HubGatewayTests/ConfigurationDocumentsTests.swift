import Foundation
import HubBase
import HubCore
import HubGateway
import Testing

@Suite("Documents of the configuration")
struct ConfigurationDocumentsTests {
    private func read(_ path: String) throws -> String {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        return try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
    }

    @Test("docs/configuration.md has the row of every setting, word for word, and of nothing else")
    func reference() throws {
        let rows = try read("docs/configuration.md").split(separator: "\n").map(String.init).filter { $0.hasPrefix("| `") }
        let expected = SettingReference.all.map(\.row)
        for row in expected where !rows.contains(row) { Issue.record("missing: \(row)") }
        for row in rows where !expected.contains(row) { Issue.record("not a setting, or out of date: \(row)") }
    }

    @Test("docs/configuration.md names what this version refuses")
    func unsupported() throws {
        let text = try read("docs/configuration.md")
        for path in SettingReference.unsupported { #expect(text.contains("`\(path)`"), "\(path)") }
    }

    @Test("config/hub.json5 with its comment signs taken away names every setting and gives each its default")
    func defaults() throws {
        let commented = #/(?m)^(\s*)\/\/ ([A-Za-z"*]+: .*[,{]|\},?)$/#
        let text = try read("config/hub.json5").replacing(commented) { "\($0.1)\($0.2)" }
        let folder = try TemporaryFolder()
        let loaded = try ConfigurationLoader.load(
            file: try folder.write(text, to: "hub.json5"),
            environment: ["HUB_AUTH_SECRET": String(repeating: "s", count: 32), "HUB_API_KEY": String(repeating: "k", count: 32)])
        let named = Set(loaded.origins.keys.map { $0.replacing(#/^namespaces\.[^.]+/#, with: "namespaces.NAME") })
        // What has no default and no example without a file is only spoken of.
        let spokenOf = [
            "redis.passwordFile", "redis.password", "redis.user", "redis.sentinel.master", "redis.sentinel.user", "redis.sentinel.password",
            "redis.sentinel.passwordFile", "auth.jwks.url", "auth.jwks.ca", "redis.tls.ca", "redis.tls.cert", "redis.tls.key",
            "redis.tls.name", "tls.ticketSecretFile", "hooks.url", "hooks.secret", "outgoing.ca", "outgoing.proxy",
            "ask.connect.url", "ask.subscribe.url", "ask.publish.url", "ask.secret",
        ]
        #expect(named == Set(SettingReference.all.map(\.path)).subtracting(spokenOf))
        for path in spokenOf { #expect(text.contains(path.split(separator: ".").last ?? "")) }
        // What has no default shows an example.
        let examples: Set = [
            "node", "pin", "redis.url", "redis.database", "embedded.snapshot", "auth.keys", "auth.jwks.file", "auth.issuer", "api.keys",
        ]
        let differing = ConfigurationDiff(from: Configuration(), to: loaded.configuration)
        let changed = (differing.live + differing.needsRestart).map(\.path).filter {
            !examples.contains($0) && !$0.hasPrefix("namespaces.chat.")
        }
        #expect(changed == ["auth.origins"])
    }

    @Test("config/hub.json5 as it stands sets nothing")
    func untouched() throws {
        let folder = try TemporaryFolder()
        let file = try folder.write(try read("config/hub.json5"), to: "hub.json5")
        #expect(try ConfigurationLoader.load(file: file, isDevelopment: true).origins.isEmpty)
    }

    @Test("config/development.json5 runs in development mode")
    func development() throws {
        let folder = try TemporaryFolder()
        let file = try folder.write(try read("config/development.json5"), to: "hub.json5")
        #expect(try ConfigurationLoader.load(file: file, isDevelopment: true).warnings == [])
    }

    @Test("config/compose.json5 takes its secrets from the environment that docker-compose.yml gives, and not without them")
    func compose() throws {
        let folder = try TemporaryFolder()
        let file = try folder.write(try read("config/compose.json5"), to: "hub.json5")
        let environment = ["HUB_AUTH_SECRET": String(repeating: "s", count: 32), "HUB_API_KEY": String(repeating: "k", count: 32)]
        let configuration = try ConfigurationLoader.load(file: file, environment: environment).configuration
        #expect(configuration.listen == ["0.0.0.0:8080"])
        #expect(configuration.redis.url == "redis://redis:6379")
        #expect(configuration.tokenKeys.count == 1 && configuration.apiKeys.count == 1)
        #expect(throws: ConfigurationError.self) { try ConfigurationLoader.load(file: file) }
    }
}
