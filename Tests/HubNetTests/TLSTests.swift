import COpenSSL
import HubBase
import HubNet
import Testing

@Suite struct TLSTests {
    static let plain = TestCertificate.make(["localhost"], commonName: "first")
    static let second = TestCertificate.make(["b.example", "exact.c.example"], commonName: "second")
    static let third = TestCertificate.make(["*.c.example"], kind: .rsa(bits: 2048), commonName: "third")

    static func context(_ certificates: [TestCertificate] = [plain], tickets: TicketKeys = TicketKeys()) throws -> TLSContext {
        try TLSContext(certificates.map { try $0.load() }, tickets: tickets)
    }

    static func fixture(_ limits: NetLimits = NetLimits(), _ script: @escaping @Sendable (LoopFixture.Handler) -> Void = { _ in }) throws
        -> LoopFixture
    {
        try LoopFixture(limits, tls: try context(), script)
    }

    // MARK: Versions and offers

    @Test("TLS 1.2 and 1.3 are spoken", arguments: [(TLS1_2_VERSION, "TLSv1.2"), (TLS1_3_VERSION, "TLSv1.3")])
    func versions(version: Int32, name: String) throws {
        let fixture = try Self.fixture()
        let client = RawClient(port: fixture.port)
        let layer = try client.secure(TLSLayer.Offer(versions: version...version))
        #expect(layer.version == name)
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(try client.readResponse().body == "/a")
        try client.upgrade()
        client.sendText("over TLS")
        #expect(try client.readFrame().text == "over TLS")
        #expect(fixture.counters.tlsHandshakes == 1)
    }

    @Test("TLS 1.0 and 1.1 are refused with an alert, RFC 8996", arguments: [TLS1_VERSION, TLS1_1_VERSION])
    func oldVersions(version: Int32) throws {
        let fixture = try Self.fixture()
        let client = RawClient(port: fixture.port)
        #expect(throws: TLSLayer.Failure.self) {
            try client.secure(TLSLayer.Offer(versions: version...version, ciphers: "ALL:@SECLEVEL=0"))
        }
        #expect(client.readEnd() == .endOfStream)
        #expect(fixture.counters.arrivalsFailed == 1)
    }

    @Test("what has no forward secrecy is refused", arguments: ["AES128-SHA", "AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA"])
    func oldCiphers(cipher: String) throws {
        let fixture = try Self.fixture()
        let client = RawClient(port: fixture.port)
        #expect(throws: TLSLayer.Failure.self) {
            try client.secure(TLSLayer.Offer(versions: TLS1_2_VERSION...TLS1_2_VERSION, ciphers: cipher))
        }
        #expect(fixture.counters.arrivalsFailed == 1)
    }

    @Test("http/1.1 is chosen from what the client offers, RFC 7301 §3.2")
    func protocols() throws {
        let fixture = try Self.fixture()
        #expect(try RawClient(port: fixture.port).secure(TLSLayer.Offer(protocols: ["h2", "http/1.1"])).chosenProtocol == "http/1.1")
        #expect(try RawClient(port: fixture.port).secure().chosenProtocol == "")
        #expect(throws: TLSLayer.Failure.self) { try RawClient(port: fixture.port).secure(TLSLayer.Offer(protocols: ["h2"])) }
        #expect(fixture.counters.tlsHandshakes == 2)
    }

    // MARK: Certificates

    @Test(
        "the certificate is the one of the name asked for; the first where there's none, RFC 6066 §3",
        arguments: [
            (nil, "first"), ("localhost", "first"), ("unknown.example", "first"), ("b.example", "second"), ("B.Example", "second"),
            ("x.c.example", "third"), ("x.y.c.example", "first"), ("c.example", "first"), ("exact.c.example", "second"),
        ])
    func names(host: String?, expected: String) throws {
        let fixture = try LoopFixture(tls: try Self.context([Self.plain, Self.second, Self.third]))
        for version in [TLS1_2_VERSION, TLS1_3_VERSION] {
            let client = RawClient(port: fixture.port)
            #expect(try client.secure(TLSLayer.Offer(host: host, versions: version...version)).serverName == expected)
            client.send("GET /sni HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try client.readResponse().body == "/sni")
        }
    }

    @Test("new certificates serve new connections; those that are open stay as they are")
    func reload() throws {
        let fixture = try Self.fixture()
        let (before, _) = try fixture.joinSecurely()
        let halfway = RawClient(port: fixture.port)
        let layer = TLSLayer(TLSLayer.Offer())
        #expect(try !layer.shakeHands())
        let hello = layer.takeOutput()
        halfway.sendRaw([UInt8](hello[..<40]))
        let next = try Self.context([.make(["localhost"], commonName: "next")])
        fixture.perform { loop, _ in loop.tls = next }
        let after = RawClient(port: fixture.port)
        #expect(try after.secure().serverName == "next")
        before.sendText("still here")
        #expect(try before.readFrame().text == "still here")
        #expect(before.layer?.serverName == "first")
        // Who was in the middle of its handshake goes on with what it began with.
        halfway.sendRaw([UInt8](hello[40...]))
        #expect(try !halfway.receive().isEmpty)
    }

    // MARK: Resumption

    @Test("a session is resumed by its ticket, RFC 8446 §2.2, RFC 5077 §3", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func resumption(version: Int32) throws {
        let fixture = try Self.fixture()
        let session = try Self.session(fixture, version)
        let second = RawClient(port: fixture.port)
        #expect(try second.secure(TLSLayer.Offer(versions: version...version, session: session)).isResumed)
        second.send("GET /again HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(try second.readResponse().body == "/again")
        #expect(fixture.counters.tlsResumptions == 1)
    }

    @Test("nodes with one secret resume each other's sessions; others shake hands anew", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func sharedTickets(version: Int32) throws {
        let secret = Secret([UInt8](repeating: 7, count: 32))
        let nodes = try (0..<2).map { _ in try LoopFixture(tls: try Self.context(tickets: TicketKeys(secret: secret))) }
        let stranger = try Self.fixture()
        let session = try Self.session(nodes[0], version)
        #expect(try RawClient(port: nodes[1].port).secure(TLSLayer.Offer(versions: version...version, session: session)).isResumed)
        #expect(try !RawClient(port: stranger.port).secure(TLSLayer.Offer(versions: version...version, session: session)).isResumed)
        withExtendedLifetime((nodes, stranger)) {}
    }

    @Test("a reload with the same ticket keys keeps sessions resumable")
    func ticketsOutliveReload() throws {
        let tickets = TicketKeys()
        let fixture = try LoopFixture(tls: try Self.context(tickets: tickets))
        let session = try Self.session(fixture, TLS1_3_VERSION)
        let next = try Self.context(tickets: tickets)
        fixture.perform { loop, _ in loop.tls = next }
        #expect(try RawClient(port: fixture.port).secure(TLSLayer.Offer(session: session)).isResumed)
        withExtendedLifetime(fixture) {}
    }

    private static func session(_ fixture: LoopFixture, _ version: Int32) throws -> TLSLayer.Session? {
        let first = RawClient(port: fixture.port)
        #expect(try !first.secure(TLSLayer.Offer(versions: version...version)).isResumed)
        // With TLS 1.3 the ticket comes after the handshake: with the first answer at the latest.
        first.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        _ = try first.readResponse()
        return first.layer?.session
    }

    // MARK: Bytes

    @Test(
        "a message comes back whole whatever its length",
        arguments: [0, 125, 126, 16_383, 16_384, 16_385, 65_535, 65_536, 16 * 1024 * 1024])
    func echo(count: Int) throws {
        var limits = NetLimits()
        limits.messageBytes = 16 * 1024 * 1024
        limits.outboundBytes = 20 * 1024 * 1024
        let fixture = try Self.fixture(limits)
        let (client, _) = try fixture.joinSecurely()
        let payload = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let writer = Writer(client, RawClient.frame(0x82, payload))
        let frame = try client.readFrame()
        #expect(frame.first == 0x82 && frame.payload == payload)
        writer.wait()
    }

    @Test("one byte a packet, through handshake and frames")
    func byteByByte() throws {
        let fixture = try Self.fixture()
        let client = RawClient(port: fixture.port)
        let layer = try client.secure(pieceBytes: 1)
        for byte in layer.encrypt([UInt8](RawClient.get().utf8)) { client.sendRaw([byte]) }
        #expect(try client.readHead().hasPrefix("HTTP/1.1 101"))
        for byte in layer.encrypt(RawClient.text("slowly")) { client.sendRaw([byte]) }
        #expect(try client.readFrame().text == "slowly")
        // And one byte a record.
        for byte in RawClient.text("in records") { client.send([byte]) }
        #expect(try client.readFrame().text == "in records")
    }

    @Test("frames of one turn leave in one write")
    func oneWrite() throws {
        let fixture = try Self.fixture()
        let (client, id) = try fixture.joinSecurely()
        let before = fixture.counters.writes
        fixture.perform { loop, _ in
            for number in 0..<100 { loop.sendMessage(.text, to: id, as: .reply) { $0.append([UInt8]("message \(number)".utf8)) } }
        }
        for number in 0..<100 { #expect(try client.readFrame().text == "message \(number)") }
        #expect(fixture.counters.writes == before + 1)
    }

    @Test("a reader that stops costs its queue's limit and no more, and is closed as too slow")
    func slowReader() throws {
        var limits = NetLimits()
        limits.outboundBytes = 256 * 1024
        let fixture = try Self.fixture(limits)
        let (client, id) = try fixture.joinSecurely(receiveBuffer: 4096)
        var rounds = 0
        while fixture.perform({ loop, _ in loop.isOpen(id) }), rounds < 1000 {
            fixture.perform { loop, _ in
                for _ in 0..<8 {
                    loop.sendMessage(.binary, to: id, as: .publication) { $0.append([UInt8](repeating: 0x5A, count: 8192)) }
                }
            }
            rounds += 1
        }
        #expect(rounds < 1000)
        // What was begun is whole, and the close frame follows it.
        var frame = try client.readFrame()
        while frame.opcode == 2 {
            #expect(frame.payload.count == 8192 && frame.payload.allSatisfy { $0 == 0x5A })
            frame = try client.readFrame()
        }
        #expect(frame.opcode == 8 && frame.code == 4008)
        client.sendClose(4008)
        #expect(client.readEnd() == .endOfStream)
    }

    @Test(
        "ciphertext that waits counts in the node's memory for queues, until it has left or its connection has gone",
        arguments: [true, false])
    func waitingCiphertext(leaves: Bool) throws {
        let budget = SendBudget(limit: 64 * 1024 * 1024)
        var limits = NetLimits()
        limits.sendMemory = budget
        let fixture = try Self.fixture(limits)
        let (client, id) = try fixture.joinSecurely(receiveBuffer: 4096)
        // One message at a time: as soon as the socket blocks, nothing but ciphertext waits.
        var sent = 0
        while fixture.perform({ loop, _ in loop.queuedBytes(id) }) == 0, sent < 1000 {
            fixture.perform { loop, _ in
                loop.sendMessage(.binary, to: id, as: .publication) { $0.append([UInt8](repeating: 0x5A, count: 8192)) }
            }
            sent += 1
        }
        let waiting = fixture.perform { loop, _ in loop.queuedBytes(id) }
        #expect(waiting > 0 && waiting < 16 * 1024)
        #expect(budget.inUse >= waiting && budget.inUse < waiting + 16 * 1024)
        if leaves {
            for _ in 0..<sent { #expect(try client.readFrame().payload.count == 8192) }
        } else {
            fixture.perform { loop, _ in loop.abort(id) }
        }
        let isSettled = fixture.eventually { loop in budget.inUse == 0 && loop.queuedBytes(id) == 0 }
        #expect(isSettled)
    }

    @Test("ciphertext that waits counts against the queue's limit: all that waits together stays below it")
    func ciphertextAndLimit() throws {
        var limits = NetLimits()
        limits.outboundBytes = 64 * 1024
        let budget = SendBudget(limit: 64 * 1024 * 1024)
        limits.sendMemory = budget
        let fixture = try Self.fixture(limits)
        let (client, id) = try fixture.joinSecurely(receiveBuffer: 4096)
        let most = Watch<Int>()
        while fixture.perform({ loop, _ in loop.isOpen(id) }) {
            fixture.perform { loop, _ in
                loop.sendMessage(.binary, to: id, as: .publication) { $0.append([UInt8](repeating: 0x5A, count: 4096)) }
            }
            most.note(fixture.perform { loop, _ in loop.queuedBytes(id) })
        }
        // Something of the limit was used, and no more than it: before, a piece of ciphertext of the same size came on top.
        let peak = most.all.max() ?? 0
        #expect(peak > 48 * 1024 && peak <= 64 * 1024)
        #expect(fixture.counters.closedTooSlow == 1)
        withExtendedLifetime(client) {}
    }

    @Test("new keys in the middle of everything change nothing, RFC 8446 §4.6.3")
    func keyUpdates() throws {
        let fixture = try Self.fixture()
        let (client, _) = try fixture.joinSecurely()
        for round in 0..<5 {
            client.sendRaw(client.layer?.updateKeys() ?? [])
            client.sendText("round \(round)")
            #expect(try client.readFrame().text == "round \(round)")
        }
    }

    @Test("a flood of key updates ends the connection: each costs more to answer than to ask for")
    func keyUpdateFlood() throws {
        let fixture = try Self.fixture()
        let (client, _) = try fixture.joinSecurely()
        for _ in 0..<200 { client.sendRaw(client.layer?.updateKeys() ?? []) }
        #expect(fixture.ends.wait(for: 1) == [.lost("TLS: too many TLS records without data")])
    }

    @Test("renegotiation is refused with an alert")
    func renegotiation() throws {
        let fixture = try Self.fixture()
        let client = RawClient(port: fixture.port)
        let layer = try client.secure(TLSLayer.Offer(versions: TLS1_2_VERSION...TLS1_2_VERSION))
        SSL_renegotiate(layer.ssl)
        _ = SSL_do_handshake(layer.ssl)
        client.sendRaw(layer.takeOutput())
        #expect { try client.readHead() } throws: { ($0 as? TLSLayer.Failure)?.text == "no renegotiation" }
        #expect(fixture.counters.tlsHandshakes == 1)
    }

    // MARK: Ends

    @Test("the closing handshake ends with close_notify, RFC 8446 §6.1", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func close(version: Int32) throws {
        let fixture = try Self.fixture()
        let (client, _) = try fixture.joinSecurely(TLSLayer.Offer(versions: version...version))
        client.sendClose(1000)
        #expect(try client.readFrame().code == 1000)
        #expect(client.readEnd() == .endOfStream)
        #expect(client.layer?.sawGoodbye == true)
        #expect(fixture.ends.wait(for: 1) == [.peer(code: 1000)])
    }

    @Test("a client that ends its side after the request gets the answer", arguments: [true, false])
    func halfClose(withGoodbye: Bool) throws {
        let fixture = try Self.fixture()
        let client = RawClient(port: fixture.port)
        let layer = try client.secure()
        client.send("GET /half HTTP/1.1\r\nHost: a\r\n\r\n")
        if withGoodbye { client.sendRaw(layer.goodbye()) } else { client.finishSending() }
        #expect(try client.readResponse().body == "/half")
        #expect(client.readEnd() == .endOfStream)
    }

    @Test("a WebSocket that just stops, with or without close_notify, is lost", arguments: [true, false])
    func vanished(withGoodbye: Bool) throws {
        let fixture = try Self.fixture()
        let (client, _) = try fixture.joinSecurely()
        if withGoodbye { client.sendRaw(client.layer?.goodbye() ?? []) } else { client.finishSending() }
        #expect(fixture.ends.wait(for: 1) == [.lost("the peer ended the stream without a closing handshake")])
    }

    @Test("a broken record ends its connection with an alert, and no other")
    func brokenRecord() throws {
        let fixture = try Self.fixture()
        let (other, _) = try fixture.joinSecurely()
        let (client, _) = try fixture.joinSecurely()
        var record = client.layer?.encrypt(RawClient.text("x")) ?? []
        record[record.count - 1] ^= 1
        client.sendRaw(record)
        #expect(fixture.ends.wait(for: 1).count == 1)
        other.sendText("unhurt")
        #expect(try other.readFrame().text == "unhurt")
    }

    @Test("plain HTTP on a port for TLS is told so and ends")
    func plainToSecure() throws {
        let fixture = try Self.fixture()
        let client = RawClient(port: fixture.port)
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        let (head, body) = try client.readResponse()
        #expect(head.hasPrefix("HTTP/1.1 400") && body.contains("TLS"))
        #expect(client.readEnd() == .endOfStream)
    }

    @Test(
        "garbage on a port for TLS ends at once",
        arguments: [[0x00], [0x16, 0x03], [0x80, 0x2E, 0x01, 0x00, 0x02], [UInt8](repeating: 0xFF, count: 5000)])
    func garbage(bytes: [UInt8]) throws {
        var limits = NetLimits()
        limits.tlsDeadline = .milliseconds(300)
        let fixture = try Self.fixture(limits)
        let client = RawClient(port: fixture.port)
        client.send(bytes)
        #expect(client.readEnd() != .deadline)
        #expect(fixture.counters.arrivalsFailed == 1)
    }

    @Test("TLS on a plain port ends with a readable answer")
    func secureToPlain() throws {
        let fixture = try LoopFixture()
        let client = RawClient(port: fixture.port)
        #expect(throws: TLSLayer.Failure.self) { try client.secure() }
        #expect(client.readEnd() == .endOfStream)
    }

    @Test("a handshake that takes too long is cut, whatever has come of it", arguments: [0, 1, 5, 100])
    func slowHandshake(count: Int) throws {
        var limits = NetLimits()
        limits.tlsDeadline = .milliseconds(200)
        let fixture = try Self.fixture(limits)
        let client = RawClient(port: fixture.port)
        let layer = TLSLayer(TLSLayer.Offer())
        #expect(try !layer.shakeHands())
        client.sendRaw([UInt8](layer.takeOutput().prefix(count)))
        // A reset where the machine was so slow that the bytes came after the cut.
        #expect(client.readEnd() != .deadline)
        #expect(fixture.counters.arrivalsFailed == 1)
    }

    @Test("after the handshake the head has its own deadline")
    func slowHead() throws {
        var limits = NetLimits()
        limits.headDeadline = .milliseconds(200)
        let fixture = try Self.fixture(limits)
        let client = RawClient(port: fixture.port)
        try client.secure()
        client.send("GET / HT")
        #expect(try client.readHead().hasPrefix("HTTP/1.1 408"))
        #expect(client.readEnd() == .endOfStream)
    }

    @Test("a reset in the middle of a handshake or a message leaves nothing behind", arguments: [false, true])
    func resets(isOpen: Bool) throws {
        let fixture = try Self.fixture()
        for _ in 0..<20 {
            if isOpen {
                let (client, _) = try fixture.joinSecurely()
                client.sendRaw([UInt8]((client.layer?.encrypt(RawClient.text("half a record")) ?? []).prefix(10)))
                client.reset()
            } else {
                let client = RawClient(port: fixture.port)
                let layer = TLSLayer(TLSLayer.Offer())
                _ = try layer.shakeHands()
                client.sendRaw(layer.takeOutput())
                client.reset()
            }
        }
        #expect(fixture.eventually { $0.connectionCount == 0 })
    }

    @Test("a loop that stops says nothing over a handshake that is under way, and ends")
    func stop() throws {
        let fixture = try Self.fixture()
        let client = RawClient(port: fixture.port)
        client.sendRaw([0x16])
        _ = fixture.counters
        fixture.perform { loop, _ in loop.stopAccepting() }
        #expect(client.readEnd() == .endOfStream)
    }
}

/// Writes on a thread of its own, so that the test can read meanwhile: 16 MiB fit no socket's buffer.
// @unchecked: the layer encrypts before the thread starts; the thread only writes bytes to the descriptor.
private final class Writer: @unchecked Sendable {
    private let thread: LoopThread

    init(_ client: RawClient, _ bytes: [UInt8]) {
        let encrypted = client.layer?.encrypt(bytes) ?? bytes
        let descriptor = client.descriptor
        guard let thread = try? LoopThread(name: "writer", { RawClient.send(descriptor, encrypted) }) else {
            preconditionFailure("no thread")
        }
        self.thread = thread
    }

    func wait() { thread.join() }
}
