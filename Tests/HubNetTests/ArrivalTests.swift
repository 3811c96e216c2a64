import HubBase
import HubNet
import Testing

@Suite struct ArrivalTests {
    static func trusting(_ ranges: String..., sendsHeader: Bool = true, header: TrustedProxies.Header = .xForwardedFor) -> TrustedProxies {
        TrustedProxies(ranges: ranges.compactMap { AddressRange($0) }, sendsHeader: sendsHeader, header: header)
    }

    /// Answers with who the client is.
    static func fixture(_ proxies: TrustedProxies?, _ limits: NetLimits = NetLimits(), tls: TLSContext? = nil) throws -> LoopFixture {
        try LoopFixture(limits, tls: tls, proxies: proxies) { handler in
            handler.onRequest = { request, id in
                String(decoding: request.path.bytes(in: request.head), as: UTF8.self) == "/ws"
                    ? .upgrade(subprotocol: nil) : .respond(HTTPResponse(status: 200, body: [UInt8](handler.loop.peer(id).utf8)))
            }
        }
    }

    static let header = ProxyHeaderTests.header(0x21, 0x11, ProxyHeaderTests.v4)
    static let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

    @Test("a trusted proxy's header names the client, cut at every byte")
    func cuts() throws {
        let fixture = try Self.fixture(Self.trusting("127.0.0.0/8"))
        let bytes = Self.header + [UInt8](Self.get.utf8)
        for cut in 0...bytes.count {
            let client = RawClient(port: fixture.port)
            client.send([UInt8](bytes[..<cut]))
            if cut % 8 == 3 { _ = fixture.counters }
            client.send([UInt8](bytes[cut...]))
            #expect(try client.readResponse().body == "192.0.2.7:51000", "cut at \(cut)")
        }
    }

    @Test("TLS follows the header, in the same packet or byte by byte", arguments: [1, 7, 1000])
    func thenTLS(pieceBytes: Int) throws {
        let fixture = try Self.fixture(Self.trusting("127.0.0.1"), tls: try TLSTests.context())
        let client = RawClient(port: fixture.port)
        let layer = TLSLayer(TLSLayer.Offer())
        _ = try layer.shakeHands()
        let bytes = Self.header + layer.takeOutput()
        for start in stride(from: 0, to: bytes.count, by: pieceBytes) {
            client.send([UInt8](bytes[start..<min(start + pieceBytes, bytes.count)]))
        }
        while true {
            layer.offer(try client.receive())
            let isDone = try layer.shakeHands()
            client.sendRaw(layer.takeOutput())
            if isDone { break }
        }
        client.take(layer)
        client.send(Self.get)
        #expect(try client.readResponse().body == "192.0.2.7:51000")
        try client.upgrade()
        client.sendText("through both")
        #expect(try client.readFrame().text == "through both")
    }

    @Test("the proxy's own connections (LOCAL) keep its address")
    func local() throws {
        let fixture = try Self.fixture(Self.trusting("127.0.0.1"))
        let client = RawClient(port: fixture.port)
        client.send(ProxyHeaderTests.header(0x20, 0x00, []) + [UInt8](Self.get.utf8))
        #expect(try client.readResponse().body.hasPrefix("127.0.0.1:"))
    }

    @Test(
        "a trusted proxy that sends no header, or a wrong one, is cut off", arguments: [get, "PROXY TCP4 192.0.2.7 1.1.1.1 1 2\r\n" + get])
    func missing(text: String) throws {
        let fixture = try Self.fixture(Self.trusting("127.0.0.1"))
        let client = RawClient(port: fixture.port)
        client.send(text)
        #expect(client.readEnd() != .deadline)
        #expect(fixture.counters.arrivalsFailed == 1)
    }

    @Test("others need no header, and theirs isn't believed")
    func untrusted() throws {
        let fixture = try Self.fixture(Self.trusting("10.0.0.0/8"))
        let client = RawClient(port: fixture.port)
        client.send(Self.get)
        #expect(try client.readResponse().body.hasPrefix("127.0.0.1:"))
        let liar = RawClient(port: fixture.port)
        liar.send(Self.header + [UInt8](Self.get.utf8))
        #expect(try liar.readHead().hasPrefix("HTTP/1.1 400"))
    }

    @Test("half a header is cut at the deadline", arguments: [0, 5, 20])
    func slow(count: Int) throws {
        var limits = NetLimits()
        limits.tlsDeadline = .milliseconds(200)
        let fixture = try Self.fixture(Self.trusting("127.0.0.1"), limits)
        let client = RawClient(port: fixture.port)
        client.send([UInt8](Self.header[..<count]))
        #expect(client.readEnd() != .deadline)
        #expect(fixture.counters.arrivalsFailed == 1)
    }

    @Test("each request of a proxy's connection may be another client's, and one without the header is the proxy's own")
    func forwarded() throws {
        let fixture = try Self.fixture(Self.trusting("127.0.0.1", sendsHeader: false))
        let client = RawClient(port: fixture.port)
        for address in ["203.0.113.9", "2001:db8::9"] {
            client.send("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: \(address)\r\n\r\n")
            #expect(try client.readResponse().body == (address.contains(":") ? "[\(address)]:0" : "\(address):0"))
        }
        client.send(Self.get)
        #expect(try client.readResponse().body.hasPrefix("127.0.0.1:"))
    }

    @Test("behind two proxies the header counts from the one that the PROXY header names")
    func both() throws {
        let fixture = try Self.fixture(Self.trusting("127.0.0.1", "192.0.2.0/24"))
        let client = RawClient(port: fixture.port)
        client.send(Self.header + [UInt8]("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.1.1.1, 203.0.113.9\r\n\r\n".utf8))
        #expect(try client.readResponse().body == "203.0.113.9:0")
        let other = try Self.fixture(Self.trusting("127.0.0.1"))
        let direct = RawClient(port: other.port)
        direct.send(Self.header + [UInt8]("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n".utf8))
        #expect(try direct.readResponse().body == "192.0.2.7:51000", "the client that the balancer names isn't a proxy of ours")
    }

    @Test("without trusted proxies nobody's word counts")
    func nobody() throws {
        let fixture = try Self.fixture(nil)
        let client = RawClient(port: fixture.port)
        client.send("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.9\r\nForwarded: for=203.0.113.9\r\n\r\n")
        #expect(try client.readResponse().body.hasPrefix("127.0.0.1:"))
    }
}
