import HubBase
import HubCore
import HubGateway
import HubWire
import Testing

@Suite("asking backends in the configuration")
struct AskSettingsTests {
    private func load(_ sets: [String], isDevelopment: Bool = true) throws(ConfigurationError) -> LoadedConfiguration {
        try ConfigurationLoader.load(file: nil, environment: [:], sets: sets, isDevelopment: isDevelopment)
    }

    private func problems(_ sets: [String], isDevelopment: Bool = true) -> [String] {
        do throws(ConfigurationError) {
            _ = try load(sets, isDevelopment: isDevelopment)
            return []
        } catch { return error.problems }
    }

    private let connect = "ask.connect.url=https://backend.example/secret-path"
    private let publish = "ask.publish.url=https://backend.example/secret-path"
    private let secret = "ask.secret=0123456789abcdef"

    @Test("it's off by default, denies when it fails, and keeps nothing that doesn't ask for it")
    func defaults() throws {
        let ask = try load([]).configuration.ask
        #expect(!ask.isUsed && !ask.isIssuer)
        #expect(AskKind.allCases.allSatisfy { ask[$0].onFailure == .deny && ask.limits($0).cache == .zero })
        #expect(try load(["ask.cache=5s"]).configuration.ask.limits(.subscribe).cache == .seconds(5))
        #expect(try load(["ask.cache=5s"]).configuration.ask.limits(.publish).cache == .zero)
    }

    @Test("a namespace's own list takes the place of the one of every namespace")
    func namespaces() throws {
        let subscribe = "ask.subscribe.url=http://127.0.0.1/x"
        let all = [publish, subscribe, secret, "namespaces.*.ask=subscribe,publish", "namespaces.quiet.ask=[]"]
        let configuration = try load(all).configuration
        #expect(configuration.namespaces[""]?.asks == [.subscribe, .publish])
        #expect(configuration.namespaces["quiet"]?.asks == [])
    }

    @Test("a backend that checks tokens makes keys of our own needless")
    func instead() throws {
        #expect(try load([connect, secret, "ask.connect.mode=instead"], isDevelopment: false).configuration.ask.isIssuer)
        #expect(problems([connect, secret], isDevelopment: false).contains { $0.contains("auth.keys is empty") })
    }

    @Test("what can't be is told, and shows neither secret nor path")
    func wrong() {
        let cases: [([String], String)] = [
            ([connect], "needs ask.secret"), ([secret], "ask.secret signs nothing"),
            ([connect, "ask.secret=short-secret"], "ask.secret[0] has 12 bytes; 16 are needed"),
            (["ask.connect.url=http://backend.example/secret-path", secret], "must be an https address, or one of this machine"),
            (["ask.connect.url=ftp://backend.example/secret-path", secret], "must be an address such as"),
            ([connect, secret, "namespaces.room.ask=publish"], "namespaces.room.ask asks about publish, but ask.publish.url is missing"),
            ([connect, secret, "namespaces.*.ask=subscribe"], "namespaces.\"*\".ask asks about subscribe"),
            ([publish, secret, "namespaces.room.ask=history"], "subscribe or publish"),
            (["ask.connect.mode=instead"], "needs ask.connect.url"),
            ([connect, secret, "ask.connect.mode=instead", "ask.connect.onFailure=allow"], "can't be allow"),
            ([connect, secret, "ask.connect.onFailure=maybe"], "deny"),
            ([connect, secret, "ask.deadline=10s"], "ask.deadline must be from"),
            ([connect, secret, "ask.cache=10m"], "ask.cache (600s) must be at most ask.cacheMax (300s)"),
        ]
        for (sets, words) in cases {
            let found = problems(sets)
            #expect(found.contains { $0.contains(words) }, "\(sets): \(found)")
            for secret in ["secret-path", "short-secret", "0123456789abcdef"] {
                #expect(!found.contains { $0.contains(secret) }, "\(found)")
            }
        }
    }
}
