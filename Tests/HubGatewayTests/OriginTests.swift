import HubGateway
import Testing

@Suite("origins: scheme, host and port, and nothing else")
struct OriginTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let list: String
        let origin: String
        let isIn: Bool
        var testDescription: String { "\(list) \(isIn ? "takes" : "refuses") \(origin.debugDescription.prefix(80))" }

        init(_ list: String, _ origin: String, _ isIn: Bool) {
            self.list = list
            self.origin = origin
            self.isIn = isIn
        }
    }

    static let forms: [Row] = [
        // The same three parts, however they're written.
        Row("https://app.example.com", "https://app.example.com", true),
        Row("https://app.example.com", "https://app.example.com:443", true),
        Row("https://app.example.com:443", "https://app.example.com", true),
        Row("http://localhost:80", "http://localhost", true),
        Row("https://app.example.com", "HTTPS://APP.Example.COM", true),
        Row("https://APP.example.com", "https://app.example.com", true),
        Row("http://localhost:3000", "http://localhost:3000", true),
        Row("http://[::1]:3000", "http://[0:0:0:0:0:0:0:1]:3000", true),
        Row("http://[2001:DB8::1]", "http://[2001:db8::1]:80", true),
        Row("http://192.0.2.1:8080", "http://192.0.2.1:8080", true),
        Row("https://xn--bcher-kva.example", "https://xn--bcher-kva.example", true),
        Row("capacitor://localhost", "capacitor://localhost", true),
        // One part differs.
        Row("https://app.example.com", "http://app.example.com", false),
        Row("https://app.example.com", "https://app.example.com:444", false),
        Row("http://app.example.com", "http://app.example.com:443", false),
        Row("https://app.example.com", "https://app.example.org", false),
        Row("https://app.example.com", "https://example.com", false),
        Row("https://example.com", "https://app.example.com", false),
        Row("http://localhost:3000", "http://localhost", false),
        Row("http://127.0.0.1", "http://localhost", false),
        Row("capacitor://localhost", "http://localhost", false),
        // What only begins or ends like it.
        Row("https://app.example.com", "https://app.example.com.evil.example", false),
        Row("https://app.example.com", "https://evilapp.example.com", false),
        Row("https://app.example.com", "https://app.example.com@evil.example", false),
        Row("https://app.example.com", "https://user:word@app.example.com", false),
        Row("https://app.example.com", "https://app.example.com/", false),
        Row("https://app.example.com", "https://app.example.com/path", false),
        Row("https://app.example.com", "https://app.example.com?query", false),
        Row("https://app.example.com", "https://app.example.com#fragment", false),
        Row("https://app.example.com", "https://app.example.com\\@evil.example", false),
        Row("https://app.example.com", "https://app.example.com%2eevil.example", false),
        Row("https://app.example.com", "https://app.example.com, https://evil.example", false),
        Row("https://app.example.com", "https://app.example.com https://evil.example", false),
        // What no browser writes.
        Row("https://app.example.com", "https://app.example.com.", false),
        Row("https://app.example.com", "https://.app.example.com", false),
        Row("https://app.example.com", "https://app..example.com", false),
        Row("https://app.example.com", "https://app.example.com:", false),
        Row("https://app.example.com", "https://app.example.com:0", false),
        Row("https://app.example.com", "https://app.example.com:0443", false),
        Row("https://app.example.com", "https://app.example.com:65979", false),
        Row("https://app.example.com", "https://app.example.com:443:443", false),
        Row("https://app.example.com", "https://app.example.com:+443", false),
        Row("https://app.example.com", " https://app.example.com", false),
        Row("https://app.example.com", "https:/app.example.com", false),
        Row("https://app.example.com", "https:app.example.com", false),
        Row("https://app.example.com", "//app.example.com", false),
        Row("https://app.example.com", "app.example.com", false),
        Row("https://app.example.com", "://app.example.com", false),
        Row("https://app.example.com", "1https://app.example.com", false),
        Row("https://app.example.com", "https://", false),
        Row("https://app.example.com", "https://:443", false),
        Row("https://app.example.com", "null", false),
        Row("https://app.example.com", "NULL", false),
        Row("https://app.example.com", "", false),
        Row("https://app.example.com", "*", false),
        Row("https://app.example.com", "https://\u{430}pp.example.com", false),
        Row("https://app.example.com", "https://app\u{FF0E}example.com", false),
        Row("https://app.example.com", "https://app.example.com\u{0}", false),
        Row("https://app.example.com", "https://app.example.com\n", false),
        Row("http://[::1]", "http://::1", false),
        Row("http://[::1]", "http://[::1", false),
        Row("http://[::1]", "http://[::1]3000", false),
        Row("http://[::1]", "http://[::1%25lo]", false),
        Row("http://192.0.2.1", "http://[192.0.2.1]", false),
        Row("http://192.0.2.1", "http://3221225985", false),
        // One label for the star: not none, not two.
        Row("https://*.example.com", "https://app.example.com", true),
        Row("https://*.example.com", "https://APP.example.com:443", true),
        Row("https://*.example.com", "https://example.com", false),
        Row("https://*.example.com", "https://a.b.example.com", false),
        Row("https://*.example.com", "https://.example.com", false),
        Row("https://*.example.com", "https://appexample.com", false),
        Row("https://*.example.com", "http://app.example.com", false),
        Row("https://*.example.com", "https://app.example.com:8443", false),
        Row("https://*.example.com:8443", "https://app.example.com:8443", true),
        Row("https://*.example.com", "https://*.example.com", false),
        Row("https://*.example.com", "https://app.example.com.", false),
        Row("https://*.example.com", "https://evil.example/.example.com", false),
        Row("https://*.a.example.com", "https://b.a.example.com", true),
        Row("https://*.localhost:3000", "http://x.localhost:3000", false),
    ]

    @Test("who is let in", arguments: forms)
    func isIn(_ row: Row) {
        #expect(OriginList.problem(row.list) == nil)
        let origin = WebOrigin(row.origin)
        #expect((origin.map { OriginList([row.list]).contains($0) } ?? false) == row.isIn)
    }

    @Test(
        "what isn't an origin or a pattern of ours can't be configured",
        arguments: [
            "", "*", "https://*", "https://*.", "*.example.com", "https://a*.example.com", "https://*a.example.com",
            "https://*.*.example.com",
            "https://app.*.com", "https://*.192.0.2.1", "https://[*::1]", "https://*:443", "null", "https://b\u{FC}cher.example",
            "https://app.example.com/", "https://user@app.example.com", "https://app.example.com:0", "https://app.example.com.",
            "https://*.example.com/x", "app.example.com", "https://*.[::1]",
        ])
    func problems(text: String) { #expect(OriginList.problem(text) != nil) }

    @Test(
        "a star over a whole top-level domain is warned about",
        arguments: [("https://*.com", 1), ("https://*.example.com", 0), ("http://*.localhost", 0)])
    func warnings(text: String, count: Int) {
        #expect(OriginList.problem(text) == nil)
        #expect(OriginList.warnings([text]).count == count)
    }

    @Test("an origin too long for any host is none, and costs no more than its length")
    func huge() {
        #expect(WebOrigin("https://" + String(repeating: "a.", count: 200) + "com") == nil)
        #expect(WebOrigin("https://" + String(repeating: "a", count: 64) + ".com") == nil)
        #expect(WebOrigin(String(repeating: "a", count: 100_000)) == nil)
        #expect(WebOrigin("https://" + String(repeating: "*.", count: 50_000)) == nil)
        // The longest there is.
        let labels = Array(repeating: String(repeating: "a", count: 62), count: 4).joined(separator: ".")
        #expect(WebOrigin("https://\(labels):65535") != nil)
    }

    @Test("a thousand patterns are looked up, not tried one after another")
    func many() {
        let list = OriginList((0..<1000).map { "https://*.customer\($0).example.com" } + (0..<1000).map { "https://app\($0).example.org" })
        #expect(WebOrigin("https://www.customer999.example.com").map(list.contains) == true)
        #expect(WebOrigin("https://app999.example.org").map(list.contains) == true)
        #expect(WebOrigin("https://www.customer1000.example.com").map(list.contains) == false)
    }

    @Test(
        "pages of this machine, for development mode",
        arguments: [
            ("http://localhost:3000", true), ("http://127.0.0.1", true), ("http://[::1]:8080", true), ("https://LOCALHOST", true),
            ("http://localhost.evil.example", false), ("http://127.0.0.1.evil.example", false), ("http://localhost@evil.example", false),
            ("file://localhost", false), ("null", false), ("http://[::2]", false), ("http://localhost:3000/", false),
        ])
    func loopback(text: String, isLoopback: Bool) { #expect((WebOrigin(text)?.isLoopback ?? false) == isLoopback) }

    @Test("any bytes are an origin or none: no input traps")
    func bytes() {
        var seed: UInt64 = 1
        let alphabet = Array("https://ex.am-ple:443[]*@#?%\u{0}\u{FF}".utf8)
        for _ in 0..<20_000 {
            var bytes: [UInt8] = []
            for _ in 0..<Int(seed % 40) {
                seed = seed &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                bytes.append(alphabet[Int(seed >> 33) % alphabet.count])
            }
            seed = seed &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            if let origin = bytes.withUnsafeBytes({ WebOrigin($0) }) { #expect(WebOrigin("\(origin)") == origin) }
        }
    }
}
