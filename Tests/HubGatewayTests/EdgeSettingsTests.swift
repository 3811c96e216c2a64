import HubBase
import HubCore
import HubGateway
import Testing

/// Certificates themselves are judged by HubNet (TLSCertificateTests) and, from files, in Tests/Integration/test_tls.py.
@Suite("TLS and proxies in the configuration")
struct EdgeSettingsTests {
    private func load(_ sets: [String]) throws(ConfigurationError) -> LoadedConfiguration {
        try ConfigurationLoader.load(file: nil, sets: sets, isDevelopment: true)
    }

    private func problems(_ sets: [String]) -> [String] {
        do throws(ConfigurationError) {
            _ = try load(sets)
            return []
        } catch { return error.problems }
    }

    @Test("trusted proxies are ranges; the header is one of two")
    func proxies() throws {
        let loaded = try load(["proxy.trusted=10.0.0.0/8,2001:db8::/32,192.0.2.1", "proxy.protocol=true", "proxy.header=forwarded"])
        #expect(loaded.configuration.proxy.trusted == ["10.0.0.0/8", "2001:db8::/32", "192.0.2.1"])
        #expect(loaded.configuration.proxy.usesProtocol && loaded.configuration.proxy.header == .forwarded)
        let standard = try load([]).configuration.proxy
        #expect(standard.trusted.isEmpty && !standard.usesProtocol && standard.header == .xForwardedFor)
    }

    @Test(
        "what can't be is told by place",
        arguments: [
            (
                ["proxy.trusted=10.0.0.1/8"],
                "--set: proxy.trusted[0] must be an address or a range such as \"10.0.0.0/8\" or \"2001:db8::/32\", not \"10.0.0.1/8\""
            ),
            (["proxy.header=via"], "--set: proxy.header must be one of \"x-forwarded-for\", \"forwarded\", not \"via\""),
            (
                ["proxy.protocol=true"],
                "proxy.protocol needs proxy.trusted: a PROXY header is believed from there only [proxy.protocol: --set]"
            ),
            (["tls.listen=127.0.0.1:0"], "tls.listen needs a certificate: tls.certificates is empty [tls.listen: --set]"),
            (["tls.certificates=[{key:'a'}]"], "--set: tls.certificates[0] lacks its cert: the name of a PEM file"),
            (["tls.certificates=[{cert:'a'}]"], "--set: tls.certificates[0] lacks its key: the name of a PEM file"),
            (["tls.certificates=[{cert:'a',kee:'b'}]"], "--set: tls.certificates[0] has the unknown key \"kee\"; did you mean key?"),
            (["tls.certificates=[{cert:'a',key:5}]"], "--set: tls.certificates[0].key must be a text between quotes"),
            (
                ["tls.certificates=[{cert:'/nowhere/a',key:'b'}]"],
                "--set: tls.certificates[0].cert names the file \"/nowhere/a\": can't be read: No such file or directory"
            ),
            (
                ["tls.certificates=[{cert:'a',key:'b',names:[]}]"],
                "--set: tls.certificates[0].names must be a list of host names, not a list"
            ),
            (
                ["tls.certificates=[{cert:'a',key:'b',names:['*.*.example']}]"],
                "--set: tls.certificates[0].names must hold host names such as \"hub.example.com\" or \"*.example.com\", not \"*.*.example\""
            ),
            (
                ["listen=127.0.0.1:7000", "tls.listen=127.0.0.1:7000,127.0.0.1:7001"],
                "tls.listen needs a certificate: tls.certificates is empty [tls.listen: --set]"
            ),
            (["deadlines.tls=10ms"], "--set: deadlines.tls must be from 100ms to 5m, not \"10ms\""),
        ])
    func wrong(sets: [String], problem: String) { #expect(problems(sets).contains(problem), "\(problems(sets))") }

    @Test("one address can't be plain and secure, and development mode is for this machine on both")
    func addresses() {
        let both = problems(["listen=127.0.0.1:7000", "tls.listen=127.0.0.1:7000"])
        #expect(both.contains("tls.listen names \"127.0.0.1:7000\", as listen does [listen: --set, tls.listen: --set]"), "\(both)")
        #expect(problems(["tls.listen=0.0.0.0:7000"]).contains { $0.hasPrefix("tls.listen is \"0.0.0.0:7000\", but development mode") })
    }

    @Test("a ticket secret has 32 bytes at least, and doesn't show")
    func ticketSecret() throws {
        let folder = try TemporaryFolder()
        let short = try folder.write("too short", to: "short")
        #expect(
            problems(["tls.ticketSecretFile=\(short)"]) == [
                "tls.ticketSecretFile holds 9 bytes; 32 are needed at least [tls.ticketSecretFile: --set]"
            ])
        let secret = String(repeating: "m4rker", count: 8)
        let loaded = try load(["tls.ticketSecretFile=\(try folder.write(secret, to: "long"))"])
        #expect(loaded.configuration.tls.ticketSecret?.bytes == Array(secret.utf8))
        #expect(!"\(loaded)".contains("m4rker"))
    }
}
