import HubBase
import HubNet
import Testing

@Suite("opening handshake, the server's side, RFC 6455 §4.2")
struct WebSocketOpeningHandshakeTests {
    /// The accept key, or the refusal's status; nil when the parser refused the head.
    private func judge(_ text: String) -> String? {
        withRequest(text) { request in
            switch OpeningHandshake.judge(request) {
            case .accept(let key): withUnsafeBytes(of: key.text) { String(decoding: $0, as: UTF8.self) }
            case .refuse(let response): response.closes ? "\(response.status)" : "\(response.status) without closing"
            }
        }
    }

    static let host = "Host: h\r\n"
    static let upgrade = "Upgrade: websocket\r\n"
    static let connection = "Connection: Upgrade\r\n"
    static let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    static let version = "Sec-WebSocket-Version: 13\r\n"

    static let legal: [(String, String)] = [
        ("as in §1.3", host + upgrade + connection + key + version), ("reversed", version + key + connection + upgrade + host),
        (
            "lower case",
            host
                + "upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n"
        ),
        ("upper case", host + "UPGRADE: WebSocket\r\nCONNECTION: UPGRADE\r\n" + key + version),
        ("a list", host + upgrade + "Connection: keep-alive, Upgrade\r\n" + key + version),
        ("two lines", host + upgrade + "Connection: keep-alive\r\nConnection: Upgrade\r\n" + key + version),
        ("empty elements", host + upgrade + "Connection: ,, upgrade,\r\n" + key + version),
        ("Upgrade as a list", host + "Upgrade: h2c, websocket\r\n" + connection + key + version),
        ("two Upgrade lines", host + "Upgrade: h2c\r\nUpgrade: websocket\r\n" + connection + key + version),
        (
            "no space after the colon",
            host + "Upgrade:websocket\r\nConnection:Upgrade\r\nSec-WebSocket-Key:dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version:13\r\n"
        ),
        (
            "tabs",
            host
                + "Upgrade:\twebsocket\t\r\nConnection: \tUpgrade\r\nSec-WebSocket-Key:\tdGhlIHNhbXBsZSBub25jZQ== \r\nSec-WebSocket-Version: 13\t\r\n"
        ),
        ("tabs in the list", host + upgrade + "Connection: keep-alive\t,\tUpgrade\r\n" + key + version),
        ("Content-Length: 0", host + upgrade + connection + key + version + "Content-Length: 0\r\n"),
        ("bad extensions", host + upgrade + connection + key + version + "Sec-WebSocket-Extensions: ;;=\r\n"),
        ("bad subprotocols", host + upgrade + connection + key + version + "Sec-WebSocket-Protocol: ,,(x)\r\n"),
    ]

    @Test("legal upgrade headers are taken, B47", arguments: legal)
    func everyLegal(name: String, fields: String) {
        #expect(judge("GET /v1/ws HTTP/1.1\r\n\(fields)\r\n") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    }

    static let illegal: [(String, String, String, String)] = [
        ("notupgrade", "GET / HTTP/1.1", upgrade + "Connection: notupgrade\r\n" + key + version, "400"),
        ("upgrade in a word", "GET / HTTP/1.1", upgrade + "Connection: keep-alive upgrade\r\n" + key + version, "400"),
        ("no Connection", "GET / HTTP/1.1", upgrade + key + version, "400"),
        ("no Upgrade", "GET / HTTP/1.1", connection + key + version, "426"),
        ("another Upgrade", "GET / HTTP/1.1", "Upgrade: websockets\r\n" + connection + key + version, "400"),
        ("a plain GET", "GET / HTTP/1.1", "", "426"),
        ("no key", "GET / HTTP/1.1", upgrade + connection + version, "400"),
        ("an empty key", "GET / HTTP/1.1", upgrade + connection + version + "Sec-WebSocket-Key:\r\n", "400"),
        ("15 bytes", "GET / HTTP/1.1", upgrade + connection + version + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j\r\n", "400"),
        ("17 bytes", "GET / HTTP/1.1", upgrade + connection + version + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZWU=\r\n", "400"),
        (
            "24 bytes", "GET / HTTP/1.1",
            upgrade + connection + version + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==dGhlIHNhbXBsZSBub25jZQ==\r\n", "400"
        ),
        ("no base64", "GET / HTTP/1.1", upgrade + connection + version + "Sec-WebSocket-Key: dGhlIHNhbXBsZS*ub25jZQ==\r\n", "400"),
        ("no padding", "GET / HTTP/1.1", upgrade + connection + version + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQaa\r\n", "400"),
        ("two keys", "GET / HTTP/1.1", upgrade + connection + version + key + "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n", "400"),
        ("version 8", "GET / HTTP/1.1", upgrade + connection + key + "Sec-WebSocket-Version: 8\r\n", "426"),
        ("version 130", "GET / HTTP/1.1", upgrade + connection + key + "Sec-WebSocket-Version: 130\r\n", "426"),
        ("no version", "GET / HTTP/1.1", upgrade + connection + key, "400"),
        ("two versions", "GET / HTTP/1.1", upgrade + connection + key + version + "Sec-WebSocket-Version: 8\r\n", "400"),
        ("HTTP/1.0", "GET / HTTP/1.0", upgrade + connection + key + version, "400"),
        ("POST", "POST / HTTP/1.1", upgrade + connection + key + version, "405"),
        ("chunked", "GET / HTTP/1.1", upgrade + connection + key + version + "Transfer-Encoding: chunked\r\n", "400"),
    ]

    @Test("illegal ones are refused with a 4xx, and the connection closes, B47", arguments: illegal)
    func everyIllegal(name: String, line: String, fields: String, status: String) {
        #expect(judge("\(line)\r\nHost: h\r\n\(fields)\r\n") == status)
    }

    @Test("a body with the GET is refused, B47")
    func body() {
        let head = "GET / HTTP/1.1\r\nHost: h\r\n" + Self.upgrade + Self.connection + Self.key + Self.version
        #expect(judge(head + "Content-Length: 4\r\n\r\nbody") == "400")
        // Also when it hasn't come, or nobody waited for it.
        #expect(judge(head + "Content-Length: 4\r\n\r\n") == "400")
        #expect(judge(head + "Content-Length: 00\r\n\r\n")?.count == 28)
    }

    @Test("another version is told ours, §4.4; a plain GET what to upgrade to, RFC 9110 §15.5.22")
    func supportedVersion() {
        for fields in ["Sec-WebSocket-Version: 8\r\n" + Self.upgrade + Self.connection + Self.key, ""] {
            let headers = withRequest("GET / HTTP/1.1\r\nHost: h\r\n\(fields)\r\n") { request -> [String] in
                guard case .refuse(let response) = OpeningHandshake.judge(request) else { return [] }
                return response.headers.map { "\($0.name): \($0.value)" }
            }
            #expect(headers?.contains("Sec-WebSocket-Version: 13") == true)
            #expect(headers?.contains("Upgrade: websocket") == true)
        }
    }

    @Test("the frame glued to the GET is left to the frame decoder, wherever the bytes are cut, B37")
    func gluedFrame() {
        let head = Array(("GET /v1/ws HTTP/1.1\r\n" + Self.host + Self.upgrade + Self.connection + Self.key + Self.version + "\r\n").utf8)
        let bytes = head + WireFrame(0x81, #"{"type":"connect"}"#).bytes + WireFrame(0x81, #"{"type":"subscribe"}"#).bytes
        for cut in bytes.indices {
            var parser = HTTPHeadParser()
            var driver = FrameDriver()
            var found = parser.receive(bytes[..<cut], limits: NetLimits())
            if let length = found.found?.headLength {
                driver.receive(bytes[length..<cut])
                driver.receive(bytes[cut...])
            } else {
                found = parser.receive(bytes[...], limits: NetLimits())
                driver.receive(bytes[(found.found?.headLength ?? 0)...])
            }
            if found.found?.isUpgrade != true || found.found?.headLength != head.count
                || driver.events != [.text(#"{"type":"connect"}"#), .text(#"{"type":"subscribe"}"#)]
            {
                Issue.record("cut at \(cut): \(found), \(driver.events)")
            }
        }
    }

    @Test("the 101 on the wire, §4.2.2")
    func switchingProtocols() {
        let accept = WebSocketKey(nonce: (0, 0)).acceptKey
        let offer = "GET / HTTP/1.1\r\nHost: h\r\nSec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=12\r\n\r\n"
        let agreement = withRequest(offer) { DeflateAgreement.negotiate($0, DeflateOptions()) } ?? nil
        func write(_ subprotocol: StaticString?, _ agreement: DeflateAgreement?) -> String {
            var out = ByteBuffer(capacity: 16)
            OpeningHandshake.write101(accept, subprotocol: subprotocol, deflate: agreement, into: &out)
            return String(decoding: out.copyBytes(), as: UTF8.self)
        }
        let head =
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n"
        #expect(write(nil, nil) == head + "\r\n")
        #expect(write("hub.v1.json", nil) == head + "Sec-WebSocket-Protocol: hub.v1.json\r\n\r\n")
        #expect(
            write("hub.v1.json", agreement)
                == head
                + "Sec-WebSocket-Protocol: hub.v1.json\r\nSec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=12\r\n\r\n"
        )
    }
}
