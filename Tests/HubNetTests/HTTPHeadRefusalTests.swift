import HubBase
import HubNet
import Testing

@Suite("head parser: what is refused, RFC 9112")
struct HTTPHeadRefusalTests {
    static let lines: [(String, Int)] = [
        ("GET /\r\n", 400), ("GET\r\n", 400), (" GET / HTTP/1.1\r\n", 400), ("GET  / HTTP/1.1\r\n", 400), ("GET / HTTP/1.1 \r\n", 400),
        ("GET /  HTTP/1.1\r\n", 400),
        ("GET\t/ HTTP/1.1\r\n", 400), ("GET / a HTTP/1.1\r\n", 400), ("G(T / HTTP/1.1\r\n", 400), ("GET /#a HTTP/1.1\r\n", 400),
        ("GET /é HTTP/1.1\r\n", 400),
        ("GET a HTTP/1.1\r\n", 400), ("GET http:// HTTP/1.1\r\n", 400), ("GET http:///a HTTP/1.1\r\n", 400),
        ("GET http://u@h/ HTTP/1.1\r\n", 400), ("GET ftp://h/ HTTP/1.1\r\n", 400),
        ("GET / http/1.1\r\n", 400), ("GET / HTTP/11\r\n", 400), ("GET / HTTP/1.10\r\n", 400), ("GET / HTTP/1,1\r\n", 400),
        ("GET / HTTP/x.1\r\n", 400),
        ("GET / HTTP/2.0\r\n", 505), ("GET / HTTP/0.9\r\n", 505), ("PRI * HTTP/2.0\r\n", 505), ("CONNECT h:1 HTTP/1.1\r\n", 501),
    ]

    @Test("a request line in any other form, §3, at once", arguments: lines)
    func requestLine(line: String, status: Int) { #expect(parseHeadEveryWay(line)?.status == status) }

    static let smuggled: [(String, String, Int)] = [
        ("both lengths", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400),
        ("both lengths, the other way", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", 400),
        ("two lengths", "Content-Length: 5\r\nContent-Length: 6\r\n", 400),
        ("the same length twice", "Content-Length: 5\r\ncontent-length: 5\r\n", 400),
        ("a list of lengths", "Content-Length: 5, 5\r\n", 400), ("a signed length", "Content-Length: +5\r\n", 400),
        ("a negative length", "Content-Length: -1\r\n", 400),
        ("a hex length", "Content-Length: 0x5\r\n", 400), ("a length with a blank", "Content-Length: 5 5\r\n", 400),
        ("no length", "Content-Length:\r\n", 400),
        ("half a length", "Content-Length: 0.5\r\n", 400), ("a length in words", "Content-Length: null\r\n", 400),
        ("an exponent", "Content-Length: 1e3\r\n", 400),
        ("a quoted length", "Content-Length: \"5\"\r\n", 400), ("length 2^63", "Content-Length: 9223372036854775808\r\n", 413),
        ("length 2^64", "Content-Length: 18446744073709551616\r\n", 413),
        ("length 2^64 + 5", "Content-Length: 18446744073709551621\r\n", 413),
        ("a length over the limit", "Content-Length: 1048577\r\n", 413),
        ("chunked twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400),
        ("chunked in a list", "Transfer-Encoding: gzip, chunked\r\n", 400),
        ("chunked not last", "Transfer-Encoding: chunked, identity\r\n", 400), ("an empty coding", "Transfer-Encoding:\r\n", 400),
        ("identity", "Transfer-Encoding: identity\r\n", 501),
        ("xchunked", "Transfer-Encoding: xchunked\r\n", 501), ("quoted", "Transfer-Encoding: \"chunked\"\r\n", 501),
        ("with a parameter", "Transfer-Encoding: chunked;a=b\r\n", 501),
        ("vertical tab", "Transfer-Encoding: \u{0B}chunked\r\n", 400), ("a blank before the colon", "Transfer-Encoding : chunked\r\n", 400),
        ("a tab before the colon", "Content-Length\t: 5\r\n", 400),
        ("folded", "X: a\r\n Content-Length: 5\r\n", 400), ("folded by a tab", "X: a\r\n\tb\r\n", 400),
        ("LF alone", "X: a\nContent-Length: 5\r\n", 400), ("CR alone", "X: a\rContent-Length: 5\r\n", 400),
        ("CR CR LF", "X: a\r\r\n", 400), ("NUL", "X: a\u{0}b\r\n", 400), ("DEL", "X: a\u{7F}b\r\n", 400), ("no colon", "X\r\n", 400),
        ("no name", ": a\r\n", 400), ("two hosts", "Host: h\r\n", 400),
        ("an expectation we don't know", "Expect: 200-ok\r\n", 417),
        ("two expectations", "Expect: 100-continue\r\nExpect: 100-continue\r\n", 417),
    ]

    @Test("whatever two readers could read in two ways, §6.3, §11.2", arguments: smuggled)
    func smuggling(name: String, fields: String, status: Int) {
        #expect(parseHeadEveryWay("POST / HTTP/1.1\r\nHost: h\r\n\(fields)\r\n")?.status == status)
    }

    @Test("Transfer-Encoding in HTTP/1.0, §6.1")
    func oldTransferEncoding() { #expect(parseHead("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n").status == 400) }

    @Test("white space before the first header, §2.2")
    func blankAfterRequestLine() { #expect(parseHeadEveryWay("GET / HTTP/1.1\r\n Host: h\r\n\r\n")?.status == 400) }

    static let hosts: [(String, Bool)] = [
        ("h", true), ("", true), ("127.0.0.1:80", true), ("[::1]:80", true), ("a-b_c.d~e", true), ("x%20y", true), ("h/a", false),
        ("h@i", false), ("h i", false), ("h?i", false),
        ("h#i", false), ("h\\i", false), ("h\"i", false), ("hé", false),
    ]

    @Test("Host is one name and port, §3.2", arguments: hosts)
    func host(value: String, isAllowed: Bool) {
        let event = parseHeadEveryWay("GET / HTTP/1.1\r\nHost: \(value)\r\n\r\n")
        #expect(isAllowed ? event?.found != nil : event?.status == 400)
    }

    @Test("HTTP/1.1 needs a Host, HTTP/1.0 doesn't, §3.2")
    func missingHost() {
        #expect(parseHeadEveryWay("GET / HTTP/1.1\r\n\r\n")?.status == 400)
        #expect(parseHeadEveryWay("GET / HTTP/1.0\r\n\r\n")?.found != nil)
        #expect(parseHead("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n").status == 400)
    }

    @Test("an absolute target that names another host than Host")
    func otherHost() { #expect(parseHeadEveryWay("GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n")?.status == 400) }

    @Test("a head of exactly the limit is taken, one byte more is 431")
    func headBytes() {
        var limits = NetLimits()
        limits.headBytes = 100
        let frame = "GET / HTTP/1.1\r\nHost: h\r\nX: \r\n\r\n"
        let exact = frame.replacing("X: ", with: "X: " + String(repeating: "a", count: 100 - frame.utf8.count))
        #expect(exact.utf8.count == 100)
        #expect(parseHeadEveryWay(exact, limits: limits)?.found != nil)
        #expect(parseHeadEveryWay(exact.replacing("X: ", with: "X: a"), limits: limits)?.status == 431)
        // Told as soon as the limit is full, though no line has ended.
        #expect(parseHead(Array(exact.utf8.prefix(60)) + [UInt8](repeating: 0x62, count: 40), limits: limits).status == 431)
        #expect(parseHead(Array(exact.utf8.prefix(60)) + [UInt8](repeating: 0x62, count: 39), limits: limits) == .needMore)
    }

    @Test("a request line that fills the head's limit is 414")
    func longTarget() {
        var limits = NetLimits()
        limits.headBytes = 100
        #expect(parseHeadEveryWay("GET /" + String(repeating: "a", count: 100), limits: limits)?.status == 414)
        #expect(parseHeadEveryWay("\r\nGET /" + String(repeating: "a", count: 100), limits: limits)?.status == 414)
    }

    @Test("headers are counted: the limit is taken, one more is 431")
    func headerCount() {
        var limits = NetLimits()
        limits.headers = 10
        let head = "GET / HTTP/1.1\r\nHost: h\r\n"
        let nine = String(repeating: "a: b\r\n", count: 9)
        #expect(parseHeadEveryWay(head + nine + "\r\n", limits: limits)?.found?.headers.count == 10)
        #expect(parseHeadEveryWay(head + nine + "a: b\r\n", limits: limits)?.status == 431)
    }

    @Test("limits that make no sense are no trap")
    func absurdLimits() {
        var limits = NetLimits()
        limits.headBytes = -1
        #expect(parseHead("GET / HTTP/1.1\r\n", limits: limits).status == 414)
        limits.headBytes = .max
        limits.headers = -5
        limits.bodyBytes = -1
        #expect(parseHead("GET / HTTP/1.1\r\nHost: h\r\n\r\n", limits: limits).status == 431)
    }

    @Test("a peer that doesn't speak HTTP is refused by its first bytes: TLS on a plain port")
    func clientHello() { #expect(parseHead([0x16, 0x03, 0x01]).status == 400) }

    @Test("a refusal is answered like every error of the API, and closes")
    func response() {
        let response = HTTPRefusal(status: 431, message: "too many headers").response
        #expect(response.status == 431 && response.closes)
        #expect(response.body == Array(#"{"error":{"code":"tooLarge","message":"too many headers"}}"#.utf8))
        #expect("\(HTTPRefusal(status: 400, message: "no Host"))" == "400 no Host")
    }
}
