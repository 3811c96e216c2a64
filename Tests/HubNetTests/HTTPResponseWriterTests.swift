import HubBase
import HubNet
import Testing

@Suite("responses on the wire, RFC 9112 §4")
struct HTTPResponseWriterTests {
    private func write(_ response: HTTPResponse, keepAlive: Bool = true, isHead: Bool = false, date: Int64 = 784_111_777) -> String {
        var out = ByteBuffer(capacity: 16)
        HTTPResponseWriter.write(response, keepAlive: keepAlive, isHead: isHead, date: date, into: &out)
        return String(decoding: out.copyBytes(), as: UTF8.self)
    }

    @Test("status, date, headers, length, body; safe defaults are added")
    func whole() {
        let response = HTTPResponse(status: 200, headers: [("Content-Type", "application/json")], body: Array("{}".utf8))
        #expect(
            write(response)
                == "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n"
                + "X-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n"
                + "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\nCache-Control: no-store\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}"
        )
    }

    @Test("HEAD gets the length without the body, RFC 9110 §9.3.2")
    func head() { #expect(write(HTTPResponse(status: 200, body: [1, 2, 3]), isHead: true).hasSuffix("Content-Length: 3\r\n\r\n")) }

    @Test("204 and 304 have neither body nor length, RFC 9110 §8.6", arguments: [204, 304])
    func bodiless(status: Int) {
        let text = write(HTTPResponse(status: status, body: [0x78]))
        #expect(!text.contains("Content-Length") && text.hasSuffix("\r\n\r\n"))
    }

    @Test("the connection closes when the request or the response says so")
    func closing() {
        var response = HTTPResponse(status: 200)
        #expect(write(response, keepAlive: false).contains("\r\nConnection: close\r\n"))
        response.closes = true
        #expect(write(response).contains("\r\nConnection: close\r\n"))
        #expect(
            write(HTTPResponse(status: 426, headers: [("Upgrade", "websocket")]), keepAlive: false).contains(
                "\r\nConnection: Upgrade, close\r\n"))
    }

    @Test("what the handler set stays; what frames the message is ours alone")
    func override() {
        let text = write(
            HTTPResponse(
                status: 200,
                headers: [
                    ("cache-control", "max-age=5"), ("content-length", "77777"), ("Transfer-Encoding", "chunked"), ("DATE", "x"),
                    ("connection", "x"),
                ],
                body: [0x78]))
        #expect(text.contains("\r\ncache-control: max-age=5\r\n") && !text.contains("no-store"))
        #expect(text.contains("\r\nContent-Length: 1\r\n") && !text.contains("77777") && !text.contains("chunked"))
        #expect(text.components("Date:") == 2 && text.components("onnection:") == 2)
    }

    @Test("no header can end its line: responses aren't split")
    func splitting() {
        let text = write(HTTPResponse(status: 200, headers: [("X\r\nA", "b\r\nSet-Cookie: c\u{0}")]))
        #expect(text.contains("\r\nX  A: b  Set-Cookie: c \r\n"))
    }

    @Test("an unknown status has an empty reason; none is out of three digits")
    func statuses() {
        #expect(write(HTTPResponse(status: 299)).hasPrefix("HTTP/1.1 299 \r\n"))
        #expect(write(HTTPResponse(status: 503)).hasPrefix("HTTP/1.1 503 Service Unavailable\r\n"))
        #expect(write(HTTPResponse(status: -1)).hasPrefix("HTTP/1.1 100 "))
        #expect(write(HTTPResponse(status: 10_000)).hasPrefix("HTTP/1.1 999 "))
    }

    static let dates: [(Int64, String)] = [
        (0, "Thu, 01 Jan 1970 00:00:00 GMT"), (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
        (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"), (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
        (1_796_032_800, "Mon, 30 Nov 2026 10:00:00 GMT"), (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        (1_798_761_599, "Thu, 31 Dec 2026 23:59:59 GMT"),
        (-5, "Thu, 01 Jan 1970 00:00:00 GMT"), (.max, "Fri, 31 Dec 9999 23:59:59 GMT"),
    ]

    @Test("dates, RFC 9110 §5.6.7", arguments: dates)
    func everyDates(seconds: Int64, text: String) {
        #expect(write(HTTPResponse(status: 200), date: seconds).contains("\r\nDate: \(text)\r\n"))
    }

    @Test("100 Continue")
    func interim() {
        var out = ByteBuffer(capacity: 16)
        HTTPResponseWriter.writeContinue(into: &out)
        #expect(out.copyBytes() == Array("HTTP/1.1 100 Continue\r\n\r\n".utf8))
    }
}

extension String {
    /// How many parts `separator` cuts it into.
    fileprivate func components(_ separator: String) -> Int { ranges(of: separator).count + 1 }
}
