import HubBase
import HubNet
import Testing

@Suite("opening handshake, the client's side, RFC 6455 §4.1")
struct WebSocketClientHandshakeTests {
    /// The nonce of §1.3: "the sample nonce".
    static let nonce: (UInt64, UInt64) = "the sample nonce".utf8.withContiguousStorageIfAvailable { bytes in
        let raw = UnsafeRawBufferPointer(bytes)
        return (raw.loadUnaligned(as: UInt64.self), raw.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
    }!

    private let opening = ClientOpening(host: "h:80", target: "/v1/ws?user=a", subprotocols: ["hub.v1.json", "hub.v1.msgpack"])

    private func request(_ opening: ClientOpening) throws -> String {
        var out = ByteBuffer(capacity: 16)
        try ClientHandshake(key: WebSocketKey(nonce: Self.nonce)).writeRequest(opening, into: &out)
        return String(decoding: out.copyBytes(), as: UTF8.self)
    }

    @Test("the request on the wire; our own server takes it")
    func request() throws {
        var opening = opening
        opening.headers = [("Authorization", "Bearer x")]
        let text = try request(opening)
        #expect(
            text
                == "GET /v1/ws?user=a HTTP/1.1\r\nHost: h:80\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: hub.v1.json, hub.v1.msgpack\r\nAuthorization: Bearer x\r\n\r\n"
        )
        let isAccepted = withRequest(text) { if case .accept = OpeningHandshake.judge($0) { true } else { false } }
        #expect(isAccepted == true)
    }

    static let unwritable: [ClientOpening] = [
        ClientOpening(host: "h", target: "", subprotocols: []), ClientOpening(host: "h", target: "v1", subprotocols: []),
        ClientOpening(host: "h", target: "/a b", subprotocols: []),
        ClientOpening(host: "h", target: "/a\r\nX: y", subprotocols: []), ClientOpening(host: "h", target: "/é", subprotocols: []),
        ClientOpening(host: "h", target: "/#a", subprotocols: []),
        ClientOpening(host: "", target: "/", subprotocols: []), ClientOpening(host: "h\r\nX: y", target: "/", subprotocols: []),
        ClientOpening(host: "h", target: "/", subprotocols: ["a,b"]),
        ClientOpening(host: "h", target: "/", subprotocols: [""]),
        ClientOpening(host: "h", target: "/", subprotocols: [], headers: [("X y", "z")]),
        ClientOpening(host: "h", target: "/", subprotocols: [], headers: [("X", "a\r\nb")]),
        ClientOpening(host: "h", target: "/", subprotocols: [], headers: [("X", "a\u{0}")]),
    ]

    @Test("what can't stand in a request is an error, and nothing is written", arguments: unwritable.indices)
    func everyUnwritable(index: Int) {
        var out = ByteBuffer(capacity: 16)
        #expect(throws: NetError.self) {
            try ClientHandshake(key: WebSocketKey(nonce: (1, 2))).writeRequest(Self.unwritable[index], into: &out)
        }
        let written = out.count
        #expect(written == 0)
    }

    @Test("the value of a header isn't shown: it may be a token, B52")
    func redacted() throws {
        let opening = ClientOpening(host: "h", target: "/", subprotocols: [], headers: [("Authorization", "Bearer secret\n")])
        do {
            _ = try request(opening)
            Issue.record("it was written")
        } catch { #expect("\(error)".contains("Authorization") && !"\(error)".contains("secret")) }
    }

    /// "open LENGTH SUBPROTOCOL", "need more", or "STATUS TEXT", the same however the answer is cut; else "differs".
    private func judge(_ text: String, _ opening: ClientOpening? = nil) -> String {
        let bytes = Array(text.utf8)
        func run(_ counts: [Int]) -> String {
            var handshake = ClientHandshake(key: WebSocketKey(nonce: Self.nonce))
            for count in counts {
                let step: String? = bytes[..<count].withUnsafeBytes { bytes in
                    switch handshake.judge(bytes, opening ?? self.opening, limits: NetLimits()) {
                    case .needMore: nil
                    case .open(let length, let subprotocol, let deflates):
                        "open \(length) \(subprotocol.isPresent ? String(decoding: subprotocol.bytes(in: bytes), as: UTF8.self) : "none")"
                            + (deflates ? " deflated" : "")
                    case .failed(let status, let reason): "\(status) \(reason)"
                    }
                }
                if let step { return step }
            }
            return "need more"
        }
        let whole = run([bytes.count])
        if run(Array(0...bytes.count)) != whole { return "differs byte by byte" }
        for cut in 0...bytes.count where run([cut, bytes.count]) != whole { return "differs at \(cut)" }
        return whole
    }

    static let accept = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
    static let status = "HTTP/1.1 101 Switching Protocols\r\n"
    static let upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\n"

    static let legal: [(String, String)] = [
        (status + upgrade + accept + "\r\n", "none"),
        (status + accept + upgrade + "Sec-WebSocket-Protocol: hub.v1.json\r\n\r\n", "hub.v1.json"),
        (
            "HTTP/1.1 101\r\nupgrade:WEBSOCKET\r\nCONNECTION: keep-alive,\tupgrade\r\nsec-websocket-accept:s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\t\r\n\r\n",
            "none"
        ),
        (
            "HTTP/1.1 101 \r\nConnection: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + accept
                + "Sec-WebSocket-Extensions:\r\n\r\n", "none"
        ),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + status + upgrade + accept
                + "sec-websocket-protocol: hub.v1.msgpack\r\n\r\n", "hub.v1.msgpack"
        ),
    ]

    @Test("the freedoms that a server has in its 101 are taken, B47; frames behind it stay", arguments: legal)
    func everyLegal(text: String, subprotocol: String) {
        #expect(judge(text) == "open \(text.utf8.count) \(subprotocol)")
        #expect(judge(text + "\u{1}\u{0}\n") == "open \(text.utf8.count) \(subprotocol)")
    }

    static let illegal: [(String, String)] = [
        (status + upgrade + "\r\n", "101 the server's 101 doesn't answer our key"),
        (status + upgrade + "Sec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n\r\n", "101 the server's 101 doesn't answer our key"),
        (status + upgrade + accept + accept + "\r\n", "101 the server's 101 doesn't answer our key"),
        (status + "Connection: Upgrade\r\n" + accept + "\r\n", "101 the server's 101 doesn't upgrade to websocket"),
        (status + "Upgrade: websocket\r\nConnection: close\r\n" + accept + "\r\n", "101 the server's 101 has no Connection: Upgrade"),
        (
            status + upgrade + accept + "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
            "101 the server's 101 has an extension that wasn't offered"
        ),
        (status + upgrade + accept + "Sec-WebSocket-Protocol: other\r\n\r\n", "101 the server's 101 has a subprotocol that wasn't offered"),
        (
            status + upgrade + accept + "Sec-WebSocket-Protocol: hub.v1.json\r\nSec-WebSocket-Protocol: hub.v1.json\r\n\r\n",
            "101 the server's 101 has a subprotocol that wasn't offered"
        ),
        (status + upgrade + accept + "X : y\r\n\r\n", "101 the server's 101 has white space before a header's colon"),
        ("HTTP/1.1 401 Unauthorized\r\n\r\n", "401 the server answered 401 instead of opening a WebSocket"),
        ("HTTP/1.0 503 x\r\n\r\n", "503 the server answered 503 instead of opening a WebSocket"),
        ("HTTP/1.0 101 x\r\n", "0 the server's answer isn't HTTP: no status line"),
        ("SSH-2.0-x\r\n", "0 the server's answer isn't HTTP: no status line"),
        ("HTTP/1.1 1O1 x\r\n", "0 the server's answer isn't HTTP: no status line"),
        ("HTTP/1.1 200 OK\n", "0 the server's answer isn't HTTP: a line ends with LF alone"),
        ("\u{15}\u{3}\u{1}", "0 the server's answer isn't HTTP: a control character in the head"), (status + upgrade + accept, "need more"),
        ("", "need more"),
        (status + String(repeating: "x", count: 9000), "0 the server's answer isn't HTTP: the head is too long"),
    ]

    @Test("what a client has to check is checked, §4.1", arguments: illegal)
    func everyIllegal(text: String, outcome: String) { #expect(judge(text) == outcome) }

    static let deflate = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"

    static let extensions: [(String, String)] = [
        ("\(deflate)", "open"), ("permessage-deflate; server_no_context_takeover", "open"),
        ("\(deflate); server_max_window_bits=12", "open"), ("permessage-deflate", "101"), ("\(deflate); x", "101"),
        ("\(deflate); client_max_window_bits=12", "101"), ("\(deflate), \(deflate)", "101"), ("x-webkit-deflate-frame", "101"),
        (";", "101"),
    ]

    @Test("deflate is taken as it was offered, and nothing else, RFC 7692 §7.1", arguments: extensions)
    func deflateAnswer(extensions: String, outcome: String) {
        var opening = opening
        let text = Self.status + Self.upgrade + Self.accept + "Sec-WebSocket-Extensions: " + extensions + "\r\n\r\n"
        // Without the offer it's an answer to nothing.
        #expect(judge(text, opening).hasPrefix("101 "))
        opening.offersDeflate = true
        #expect(judge(text, opening).hasPrefix(outcome + " "))
        #expect(judge(text, opening).hasSuffix("deflated") == (outcome == "open"))
    }

    @Test("the offer on the wire; a server of ours takes it")
    func deflateOffer() throws {
        var opening = opening
        opening.offersDeflate = true
        let text = try request(opening)
        #expect(text.contains("\r\nSec-WebSocket-Extensions: " + Self.deflate + "\r\n"))
    }

    @Test("a subprotocol is refused when none was offered")
    func unofferedSubprotocol() {
        let text = Self.status + Self.upgrade + Self.accept + "Sec-WebSocket-Protocol: hub.v1.json\r\n\r\n"
        #expect(judge(text, ClientOpening(host: "h", target: "/", subprotocols: [])).hasPrefix("101 "))
    }
}
