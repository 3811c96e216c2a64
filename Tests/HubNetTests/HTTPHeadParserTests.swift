import HubBase
import HubNet
import Testing

@Suite("head parser: what is allowed, RFC 9112")
struct HTTPHeadParserTests {
    @Test("a browser's request, however it's cut")
    func request() throws {
        let text =
            "GET /v1/presence/al%20ice?x=1&y HTTP/1.1\r\nHost: hub.example:8080\r\nAccept:*/*\r\nX-Blank:\r\nx-mixed: \t a b \t\r\n\r\n"
        let head = try #require(parseHeadEveryWay(text)?.found)
        #expect(head.method == .get && head.minorVersion == 1)
        #expect(head.path == "/v1/presence/al%20ice")
        #expect(head.query == "x=1&y")
        #expect(head.headers == ["Host=hub.example:8080", "Accept=*/*", "X-Blank=", "x-mixed=a b"])
        #expect(head.headLength == text.utf8.count)
        #expect(head.body == .none && head.keepAlive && !head.expectsContinue && !head.isUpgrade)
    }

    @Test("one request after another from the same parser; what follows a head isn't looked at, §9.3.2")
    func pipelined() {
        let first = "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n"
        let second = "DELETE /2 HTTP/1.1\r\nHost: h\r\n\r\n"
        let bytes = Array((first + second).utf8)
        var parser = HTTPHeadParser()
        #expect(parser.receive(bytes[...], limits: NetLimits()).found?.headLength == first.utf8.count)
        #expect(parser.isAtStart)
        #expect(parser.receive(bytes[first.utf8.count...], limits: NetLimits()).found?.path == "/2")
        #expect(parseHead(Array(first.utf8) + [0, 0x0A, 0xFF]).found?.path == "/1")
    }

    @Test("one empty line in front is passed over, two are refused, §2.2")
    func emptyLines() {
        let text = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
        #expect(parseHeadEveryWay("\r\n" + text)?.found?.headLength == text.utf8.count + 2)
        #expect(parseHeadEveryWay("\r\n\r\n" + text)?.status == 400)
    }

    static let methods: [(String, HTTPMethod)] = [
        ("GET", .get), ("HEAD", .head), ("POST", .post), ("PUT", .put), ("DELETE", .delete), ("OPTIONS", .options), ("PATCH", .patch),
        ("get", .other), ("TRACE", .other), ("M-SEARCH", .other), ("GETS", .other),
    ]

    @Test("methods are compared with case, RFC 9110 §9.1", arguments: methods)
    func everyMethods(name: String, method: HTTPMethod) {
        #expect(parseHeadEveryWay("\(name) / HTTP/1.1\r\nHost: h\r\n\r\n")?.found?.method == method)
    }

    static let targets: [(String, String, String?)] = [
        ("/", "/", nil), ("/?", "/", ""), ("/a?b?c", "/a", "b?c"), ("//x//y", "//x//y", nil), ("/%zz", "/%zz", nil),
        ("/a|b{c}\"", "/a|b{c}\"", nil),
        ("http://h/a?b", "/a", "b"), ("HTTPS://H/a", "/a", nil), ("http://h", "/", nil), ("http://h?q", "/", "q"),
    ]

    @Test("targets in origin and absolute form, §3.2", arguments: targets)
    func everyTargets(target: String, path: String, query: String?) {
        let head = parseHeadEveryWay("GET \(target) HTTP/1.1\r\nHost: h\r\n\r\n")?.found
        #expect(head?.path == path)
        #expect(head?.query == query)
    }

    @Test("the asterisk belongs to OPTIONS, §3.2.4")
    func asterisk() {
        #expect(parseHead("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n").found?.path == "*")
        #expect(parseHead("GET * HTTP/1.1\r\nHost: h\r\n\r\n").status == 400)
    }

    static let persistence: [(String, String, Bool)] = [
        ("1.1", "", true), ("1.1", "Connection: close\r\n", false), ("1.1", "connection: x, CLOSE\r\n", false),
        ("1.1", "Connection: keep-alive\r\nConnection: close\r\n", false), ("1.1", "Connection: closed\r\n", true), ("1.9", "", true),
        ("1.0", "", false), ("1.0", "Connection: Keep-Alive\r\n", true), ("1.0", "Connection: keep-alive, close\r\n", false),
    ]

    @Test("a connection persists as version and Connection say, §9.3", arguments: persistence)
    func keepAlive(version: String, fields: String, keepAlive: Bool) {
        #expect(parseHeadEveryWay("GET / HTTP/\(version)\r\nHost: h\r\n\(fields)\r\n")?.found?.keepAlive == keepAlive)
    }

    static let bodies: [(String, HTTPHead.BodyLength)] = [
        ("", .none), ("Content-Length: 0\r\n", .none), ("Content-Length: 5\r\n", .length(5)), ("content-length:005\r\n", .length(5)),
        ("Content-Length: 1048576\r\n", .length(1_048_576)), ("Transfer-Encoding: chunked\r\n", .chunked),
        ("TRANSFER-ENCODING:\tChunked \r\n", .chunked),
    ]

    @Test("the body's length, §6", arguments: bodies)
    func bodyLength(fields: String, length: HTTPHead.BodyLength) {
        #expect(parseHeadEveryWay("POST / HTTP/1.1\r\nHost: h\r\n\(fields)\r\n")?.found?.body == length)
    }

    @Test("100-continue counts when there's a body to wait with, RFC 9110 §10.1.1")
    func expectation() {
        #expect(parseHead("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 5\r\n\r\n").found?.expectsContinue == true)
        #expect(parseHead("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n").found?.expectsContinue == false)
        #expect(parseHead("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n").found?.expectsContinue == false)
    }

    @Test("every byte in a header's name: tokens only, RFC 9110 §5.6.2")
    func tokens() {
        let allowed = Set("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ".utf8)
        for byte in UInt8.min...UInt8.max where byte != UInt8(ascii: ":") {
            let bytes = Array("GET / HTTP/1.1\r\nHost: h\r\nX".utf8) + [byte] + Array("Y: v\r\n\r\n".utf8)
            let event = parseHead(bytes)
            if allowed.contains(byte) ? event.found == nil : event.status != 400 { Issue.record("byte \(byte): \(event)") }
        }
    }

    @Test("every byte in a header's value: all but control characters, RFC 9110 §5.5")
    func values() {
        for byte in UInt8.min...UInt8.max {
            let bytes = Array("GET / HTTP/1.1\r\nHost: h\r\nX: a".utf8) + [byte] + Array("b\r\n\r\n".utf8)
            let isAllowed = byte == 0x09 || (byte >= 0x20 && byte != 0x7F)
            let event = parseHead(bytes)
            if isAllowed ? event.found == nil : event.status != 400 { Issue.record("byte \(byte): \(event)") }
        }
    }

    @Test("the parser's state stays within 16 bytes")
    func size() { #expect(MemoryLayout<HTTPHeadParser>.size <= 16) }
}
