import HubBase
import HubNet
import Testing

/// Streams over TLS. The other end is a server of ours, which answers HTTP.
@Suite struct TLSStreamTests {
    private final class Owner: StreamHandler {
        let events: Watch<String>
        var received: [UInt8] = []
        /// How many bytes are to be told as one.
        var wanted = 0
        var stream: ByteStream?

        init(_ events: Watch<String>) { self.events = events }

        func streamOpened(_ stream: ByteStream) { events.note("opened") }

        func streamReceived(_ stream: ByteStream, _ bytes: UnsafeRawBufferPointer) {
            received += bytes
            if received.count >= wanted { events.note("received") }
        }

        func streamEnded(_ stream: ByteStream, _ reason: NetError) { events.note(reason.description) }
    }

    /// The stream and its owner live on the loop, until it goes.
    private static func open(
        _ fixture: LoopFixture, _ address: SocketAddress, _ peer: TLSPeer?, _ events: Watch<String>, wanted: Int = 1,
        deadline: Span = .seconds(10), _ setUp: @escaping @Sendable (ByteStream) -> Void = { _ in }
    ) {
        fixture.perform { loop, handler in
            let owner = Owner(events)
            owner.wanted = wanted
            let stream = loop.openStream(to: address, connectDeadline: deadline, tls: peer, handler: owner)
            owner.stream = stream
            setUp(stream)
            let before = handler.onTimer
            handler.onTimer = { kind, value in
                before?(kind, value)
                withExtendedLifetime(owner) {}
            }
        }
    }

    private static func peer(_ name: String = "localhost") throws -> TLSPeer { TLSPeer(try TLSClientTests.trusting(), name: name) }
    private static func address(_ fixture: LoopFixture) -> SocketAddress { SocketAddress("127.0.0.1:\(fixture.port)")! }
    private static let request = Array("GET /over-tls HTTP/1.1\r\nHost: a\r\n\r\n".utf8)

    @Test("bytes go both ways; what is written before the handshake leaves after it")
    func bothWays() throws {
        let server = try TLSClientTests.server()
        let client = try LoopFixture()
        let events = Watch<String>()
        Self.open(client, Self.address(server), try Self.peer(), events) { stream in
            Self.request.withUnsafeBytes { stream.write($0) }
            #expect(stream.state == .connecting && stream.queuedBytes == Self.request.count)
        }
        #expect(events.wait(for: 2) == ["opened", "received"])
        #expect(server.counters.tlsHandshakes == 1)
    }

    @Test("40,000 requests in one write and their answers arrive whole, with the server standing still at first")
    func blocks() throws {
        let server = try TLSClientTests.server()
        let client = try LoopFixture()
        let count = 40_000
        let probe = RawClient(port: server.port)
        try probe.secure()
        probe.send(Self.request)
        let (head, body) = try probe.readResponse()
        let all = Watch<String>()
        let sent = Watch<Int>()
        Self.open(client, Self.address(server), try Self.peer(), all, wanted: (head.utf8.count + body.utf8.count) * count) { stream in
            for _ in 0..<count { Self.request.withUnsafeBytes { stream.write($0) } }
            sent.note(stream.queuedBytes)
        }
        server.perform { _, _ in StallClock.pass(milliseconds: 200) }
        #expect(all.wait(for: 2) == ["opened", "received"])
        #expect(sent.all == [Self.request.count * count])
    }

    @Test("a server that isn't believed ends the stream with why, and nothing has been told to it")
    func distrust() throws {
        let server = try TLSClientTests.server()
        let client = try LoopFixture()
        let events = Watch<String>()
        let address = Self.address(server)
        Self.open(client, address, try Self.peer("other.example"), events) { stream in Self.request.withUnsafeBytes { stream.write($0) } }
        #expect(
            events.wait(for: 1) == [
                "TLS with \(address): the server's certificate stands for localhost, *.hub.example, not for other.example: "
                    + "use a name that it stands for"
            ])
        #expect(server.counters.messagesIn == 0 && server.counters.bytesIn == 0)
    }

    @Test("one deadline for the connection and for TLS on it; an end in between says that it may be no TLS")
    func deadline() throws {
        let silent = try ListenSocket.open(SocketAddress("127.0.0.1:0")!, count: 1)
        let client = try LoopFixture()
        let events = Watch<String>()
        Self.open(client, silent[0].address, try Self.peer(), events, deadline: .milliseconds(100))
        #expect(events.wait(for: 1) == ["connect \(silent[0].address): no TLS handshake within the deadline; does it speak TLS there?"])
        let plain = try LoopFixture()
        Self.open(client, Self.address(plain), try Self.peer(), events)
        #expect(events.wait(for: 2).last == "TLS with \(Self.address(plain)): the other end doesn't speak TLS there")
    }

    @Test("the server's goodbye ends the stream; ours reaches the server")
    func goodbyes() throws {
        let server = try TLSClientTests.server()
        let client = try LoopFixture()
        let events = Watch<String>()
        let address = Self.address(server)
        Self.open(client, address, try Self.peer(), events) { stream in
            Array("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".utf8).withUnsafeBytes { stream.write($0) }
        }
        #expect(events.wait(for: 3) == ["opened", "received", "\(address): end of stream"])
        let others = Watch<String>()
        Self.open(client, address, try Self.peer(), others)
        others.wait(for: 1)
        #expect(server.eventually { $0.connectionCount == 1 })
        client.stop()
        #expect(server.eventually { $0.connectionCount == 0 })
    }
}
