import HubBase
import HubNet
import Testing

@Suite("requests: headers, query and path")
struct HTTPRequestTests {
    private func text(_ bytes: UnsafeRawBufferPointer?) -> String? { bytes.map { String(decoding: $0, as: UTF8.self) } }

    @Test("headers are found without case, the first one wins, all are counted")
    func headers() {
        let request = "GET / HTTP/1.1\r\nHost: h\r\nAUTHORIZATION: Bearer x\r\nauthorization: second\r\nEmpty:\r\n\r\n"
        #expect(withRequest(request) { text($0.header("authorization")) } == "Bearer x")
        #expect(withRequest(request) { $0.count(of: "authorization") } == 2)
        #expect(withRequest(request) { text($0.header("empty")) } == "")
        #expect(withRequest(request) { $0.header("authorizatio") == nil } == true)
        #expect(withRequest(request) { $0.count(of: "x") } == 0)
    }

    static let queries: [(String, String?)] = [
        ("", nil), ("?", nil), ("?user=alice", "alice"), ("?a=b&user=alice&user=bob", "alice"), ("?user", ""), ("?user=", ""),
        ("?user=a%20b%2Bc+d", "a b+c d"),
        ("?%75ser=x", "x"), ("?user=%zz", nil), ("?user=%4", nil), ("?user=%", nil), ("?%zz=1&user=x", "x"), ("?User=x", nil),
        ("?xuser=x", nil), ("?&&user=x&", "x"), ("?user=a=b", "a=b"),
        ("?user=%C3%A9", "é"),
    ]

    @Test("query values are decoded as forms are encoded: + is a space, %2B a plus", arguments: queries)
    func query(query: String, value: String?) {
        let found = withRequest("GET /v1/ws\(query) HTTP/1.1\r\nHost: h\r\n\r\n") { $0.queryValue("user") }
        #expect(found == .some(value.map { Array($0.utf8) }))
    }

    static let wrong: [(String, String?)] = [
        ("", nil), ("?user=a%20b&c", nil), ("?device=%", "device"), ("?a=1&device=%4&user=%zz", "device"), ("?%zz=1&user=x", "%zz"),
        ("?a=%=41", "a"), ("?=%", ""), ("?%4=1", "%4"),
    ]

    @Test("a parameter that is wrongly encoded is named, whether or not anybody reads it", arguments: wrong)
    func wrongParameter(query: String, name: String?) {
        let found = withRequest("GET /v1/ws\(query) HTTP/1.1\r\nHost: h\r\n\r\n") { $0.wrongQueryParameter() }
        #expect(found == .some(name.map { Array($0.utf8) }))
    }

    static let paths: [(String, [String]?)] = [
        ("/", []), ("/v1/presence/alice", ["v1", "presence", "alice"]), ("/v1/", ["v1", ""]), ("//", ["", ""]),
        ("/a%2Fb/%41", ["a/b", "A"]), ("/%", nil), ("/%4", nil), ("/%4g", nil),
        ("/a+b", ["a+b"]), ("/..", [".."]),
    ]

    @Test("path segments are percent-decoded after they are split", arguments: paths)
    func path(path: String, segments: [String]?) {
        let found = withRequest("GET \(path) HTTP/1.1\r\nHost: h\r\n\r\n") { $0.pathSegments() }
        #expect(found == .some(segments.map { $0.map { Array($0.utf8) } }))
    }

    @Test("lists run over all lines of a name, without case, RFC 9110 §5.3")
    func lists() {
        let request = "GET / HTTP/1.1\r\nHost: h\r\nConnection: , keep-alive ,\tX\r\nConnection:Upgrade\r\n\r\n"
        for token: StaticString in ["keep-alive", "x", "upgrade"] {
            #expect(withRequest(request) { $0.listContains(token, in: "connection") } == true)
        }
        for token: StaticString in ["keep", "upgrade,", "", "h"] {
            #expect(withRequest(request) { $0.listContains(token, in: "connection") } == false)
        }
    }

    @Test("offered subprotocols, with case, RFC 6455 §4.1")
    func subprotocols() {
        let request =
            "GET / HTTP/1.1\r\nHost: h\r\nSec-WebSocket-Protocol: hub.v1.msgpack, x\r\nsec-websocket-protocol: hub.v1.json\r\n\r\n"
        #expect(withRequest(request) { $0.offersSubprotocol("hub.v1.json") } == true)
        #expect(withRequest(request) { $0.offersSubprotocol("hub.v1.msgpack") } == true)
        #expect(withRequest(request) { $0.offersSubprotocol("HUB.V1.JSON") } == false)
        #expect(withRequest(request) { $0.offersSubprotocol("hub.v1") } == false)
    }
}
