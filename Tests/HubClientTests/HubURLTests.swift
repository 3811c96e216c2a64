import HubClient
import Testing

@Suite("The hub's address")
struct HubURLTests {
    @Test(
        "what is accepted",
        arguments: [
            ("http://127.0.0.1:8080", false, "127.0.0.1", 8080, "", "127.0.0.1:8080"),
            ("ws://hub.example", false, "hub.example", 80, "", "hub.example"),
            ("WSS://hub.example", true, "hub.example", 443, "", "hub.example"),
            ("https://hub.example:443/", true, "hub.example", 443, "", "hub.example"),
            ("http://[::1]:9/a/b//", false, "::1", 9, "/a/b", "[::1]:9"),
            ("http://[::1]", false, "::1", 80, "", "[::1]"),
        ])
    func accepted(_ text: String, _ isSecure: Bool, _ host: String, _ port: Int, _ prefix: String, _ authority: String) throws {
        let url = try HubURL(text)
        #expect(url.isSecure == isSecure)
        #expect(url.host == host)
        #expect(url.port == port)
        #expect(url.prefix == prefix)
        #expect(url.authority == authority)
    }

    @Test(
        "what is refused, with a reason that names it",
        arguments: [
            "", "hub", "127.0.0.1:8080", "ftp://hub", "http://", "http://:80", "http://[::1", "http://[::1]x:1", "http://hub:0",
            "http://hub:65536", "http://hub:99999999999999999999", "http://hub:+1", "http://hub:", "http://a@hub", "http://hub?x=1",
            "http://hub#x", "http://h b", "http://h\u{0}b", "http://hüb", "://", "http://[]",
        ])
    func refused(_ text: String) {
        #expect(throws: HubURL.Malformed.self) { try HubURL(text) }
    }

    @Test("a long or binary address is cut and cleaned before it's shown")
    func shown() {
        do throws(HubURL.Malformed) {
            _ = try HubURL("\u{1B}[31m" + String(repeating: "x", count: 10_000))
            Issue.record("accepted")
        } catch {
            #expect(error.description.utf8.count < 200)
            #expect(!error.description.contains("\u{1B}"))
        }
    }

    @Test("an HTTP address keeps the prefix")
    func http() throws {
        #expect(try HubURL("ws://hub:81/x/").http("/v1/nodes") == "http://hub:81/x/v1/nodes")
    }

    @Test("percent-encoding leaves only unreserved characters, RFC 3986 §2.3")
    func encode() {
        #expect(HubURL.encode("aZ09-._~".utf8) == "aZ09-._~")
        #expect(HubURL.encode("a b/c:ü%\u{0}".utf8) == "a%20b%2Fc%3A%C3%BC%25%00")
    }
}
