import HubBase
import HubNet
import Testing

@Suite struct ServerTests {
    @Test(
        "a message comes back whatever its length, in the form that RFC 6455 §5.2 gives it", arguments: [0, 1, 125, 126, 127, 65535, 65536])
    func echo(count: Int) throws {
        let fixture = try LoopFixture()
        let (client, _) = try fixture.join()
        let payload = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
        client.send(RawClient.frame(0x82, payload))
        let frame = try client.readFrame()
        #expect(frame == RawClient.Frame(first: 0x82, payload: payload))
        client.send(RawClient.frame(0x81, [UInt8](repeating: 0x61, count: count)))
        #expect(try client.readFrame().first == 0x81)
    }

    @Test("a GET and a frame in one write, cut at every byte: the frame is answered, B37")
    func everySplit() throws {
        let fixture = try LoopFixture()
        let bytes = [UInt8](RawClient.get().utf8) + RawClient.text("glued") + RawClient.text("second")
        for cut in 0...bytes.count {
            let client = RawClient(port: fixture.port)
            client.send([UInt8](bytes[..<cut]))
            if cut % 8 == 3 { _ = fixture.counters }  // now and then both pieces come in turns of their own for certain
            client.send([UInt8](bytes[cut...]))
            #expect(try client.readHead().hasPrefix("HTTP/1.1 101"), "cut at \(cut)")
            #expect(try client.readFrame().text == "glued", "cut at \(cut)")
            #expect(try client.readFrame().text == "second", "cut at \(cut)")
        }
    }

    @Test("a fragmented message with a ping inside is one message, and the ping is answered, RFC 6455 §5.4")
    func fragments() throws {
        let fixture = try LoopFixture()
        let (client, _) = try fixture.join()
        client.send(
            RawClient.frame(0x01, [UInt8]("one ".utf8)) + RawClient.frame(0x89, [1, 2, 3]) + RawClient.frame(0x00, [])
                + RawClient.frame(0x80, [UInt8]("two".utf8)))
        var frames = [try client.readFrame(), try client.readFrame()]
        frames.sort { $0.opcode < $1.opcode }
        #expect(
            frames == [RawClient.Frame(first: 0x81, payload: [UInt8]("one two".utf8)), RawClient.Frame(first: 0x8A, payload: [1, 2, 3])])
    }

    @Test("requests on one connection are answered in order, pipelined ones too, RFC 9112 §9.3.2")
    func pipelining() throws {
        let fixture = try LoopFixture()
        let client = RawClient(port: fixture.port)
        client.send((0..<200).map { "GET /\($0) HTTP/1.1\r\nHost: a\r\n\r\n" }.joined())
        for number in 0..<200 {
            let response = try client.readResponse()
            #expect(response.head.hasPrefix("HTTP/1.1 200") && response.body == "/\(number)")
        }
    }

    @Test("large answers to pipelined requests wait for the reader, and none is lost")
    func largePipeline() throws {
        let fixture = try LoopFixture { handler in
            handler.onRequest = { _, _ in .respond(HTTPResponse(status: 200, body: [UInt8](repeating: 0x78, count: 300_000))) }
        }
        let client = RawClient(port: fixture.port, receiveBuffer: 8192)
        client.send((0..<20).map { _ in "GET / HTTP/1.1\r\nHost: a\r\n\r\n" }.joined())
        for _ in 0..<20 { #expect(try client.readResponse().body.utf8.count == 300_000) }
    }

    @Test(
        "a body comes whole to the handler: by length, in chunks, in one write or byte by byte, RFC 9112 §6",
        arguments: [
            "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello world",
            "POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n",
        ], [false, true])
    func bodies(request: String, isSlow: Bool) throws {
        let fixture = try LoopFixture()
        let client = RawClient(port: fixture.port)
        if isSlow {
            for byte in request.utf8 { client.send([byte]) }
        } else {
            client.send(request)
        }
        #expect(try client.readResponse().body == "/bhello world")
        client.send(request)
        #expect(try client.readResponse().body == "/bhello world", "the connection is kept")
    }

    @Test("100-continue is sent before the body, RFC 9110 §10.1.1")
    func continues() throws {
        let fixture = try LoopFixture()
        let client = RawClient(port: fixture.port)
        client.send("POST /c HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        #expect(try client.readHead().hasPrefix("HTTP/1.1 100"))
        client.send("abc")
        #expect(try client.readResponse().body == "/cabc")
    }

    @Test("a pending request is answered later; the next one waits for it")
    func pending() throws {
        let asked = Watch<ConnectionID>()
        let fixture = try LoopFixture { handler in
            handler.onRequest = { request, id in
                guard request.path.count == 5 else { return .respond(HTTPResponse(status: 200, body: [0x6E])) }
                asked.note(id)
                return .pending
            }
        }
        let client = RawClient(port: fixture.port)
        client.send("GET /late HTTP/1.1\r\nHost: a\r\n\r\nGET /n HTTP/1.1\r\nHost: a\r\n\r\n")
        let id = asked.wait(for: 1)[0]
        fixture.perform { loop, _ in loop.respond(HTTPResponse(status: 201, body: [0x6C]), to: id) }
        let first = try client.readResponse()
        #expect(first.head.hasPrefix("HTTP/1.1 201") && first.body == "l")
        #expect(try client.readResponse().body == "n")
        // Again, twice, and to one that has gone: ignored.
        fixture.perform { loop, _ in
            loop.respond(HTTPResponse(status: 500), to: id)
            loop.respond(HTTPResponse(status: 500), to: ConnectionID(index: 4000, generation: 1))
        }
        client.send("GET /n HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(try client.readResponse().body == "n")
    }

    @Test("a refused request is answered, and the connection ends after it", arguments: ["GET / HTTP/2.0\r\n\r\n", "nonsense\r\n\r\n"])
    func refused(request: String) throws {
        let fixture = try LoopFixture()
        let client = RawClient(port: fixture.port)
        // More than the answer waits for: unread input must not turn the answer into a reset.
        client.send(request + String(repeating: "x", count: 100_000))
        let head = try client.readHead()
        #expect(head.hasPrefix("HTTP/1.1 4") || head.hasPrefix("HTTP/1.1 5"), "\(head)")
        client.finishSending()
        #expect(client.readEnd() == .endOfStream)
        #expect(fixture.ends.all.isEmpty, "closed is for WebSockets")
    }

    @Test("a client that ends its side after the request gets the answer")
    func halfClose() throws {
        let fixture = try LoopFixture()
        let client = RawClient(port: fixture.port)
        client.send("GET /half HTTP/1.1\r\nHost: a\r\n\r\n")
        client.finishSending()
        #expect(try client.readResponse().body == "/half")
        #expect(client.readEnd() == .endOfStream)
    }

    @Test("a failed opening handshake gets its 4xx, RFC 6455 §4.2.2")
    func refusedUpgrade() throws {
        let fixture = try LoopFixture()
        let client = RawClient(port: fixture.port)
        client.send(
            "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 8\r\nSec-WebSocket-Key: \(RawClient.key)\r\n\r\n"
        )
        #expect(try client.readHead().hasPrefix("HTTP/1.1 426"))
        #expect(fixture.opens.all.isEmpty)
    }

    @Test("over the connection limit: short requests are answered on a few places more, WebSockets get 503, the rest is turned away")
    func budget() throws {
        var limits = NetLimits()
        limits.connections = ConnectionBudget(limit: 2)
        let fixture = try LoopFixture(limits)
        var (first, _): (RawClient?, ConnectionID) = try fixture.join()
        let (second, _) = try fixture.join()
        let third = RawClient(port: fixture.port)
        third.send(RawClient.get())
        let refusal = try third.readHead()
        #expect(refusal.hasPrefix("HTTP/1.1 503") && refusal.contains("Retry-After: ") && refusal.contains("Connection: close"))
        let probe = RawClient(port: fixture.port)
        probe.send("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        let answer = try probe.readResponse()
        #expect(answer.head.hasPrefix("HTTP/1.1 200") && answer.head.contains("Connection: close"))
        #expect(third.readEnd() == .endOfStream && probe.readEnd() == .endOfStream)
        _ = first?.sendText("still here")
        #expect(try first?.readFrame().text == "still here")
        first = nil
        fixture.ends.wait(for: 1)
        let (fourth, _) = try fixture.join()
        fourth.sendText("in")
        #expect(try fourth.readFrame().text == "in")
        // All of the places more are taken by clients that say nothing, or leave their connection open.
        let silent = (0..<ConnectionBudget.reserve).map { _ in RawClient(port: fixture.port) }
        let last = RawClient(port: fixture.port)
        #expect(try last.readHead().hasPrefix("HTTP/1.1 503"))
        #expect(fixture.counters.refused >= 1)
        withExtendedLifetime((second, third, probe, silent)) {}
    }

    @Test("whoever stays on one of those places, silent or refused, is dropped soon, so that probes come through")
    func stayers() throws {
        var limits = NetLimits()
        limits.connections = ConnectionBudget(limit: 1)
        limits.closeDeadline = .seconds(300)
        let fixture = try LoopFixture(limits)
        let (first, _) = try fixture.join()
        let stayers = (0..<ConnectionBudget.reserve).map { number in
            let stayer = RawClient(port: fixture.port)
            if number % 2 == 0 { stayer.send(RawClient.get()) }
            return stayer
        }
        var isAnswered = false
        for _ in 0..<300 where !isAnswered {
            let probe = RawClient(port: fixture.port)
            probe.send("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            isAnswered = (try? probe.readHead().hasPrefix("HTTP/1.1 200")) == true
            if !isAnswered { StallClock.pass(milliseconds: 100) }
        }
        #expect(isAnswered)
        withExtendedLifetime((first, stayers)) {}
    }

    @Test("connections of one address are counted: the limit is taken, one more is 429, and a place that becomes free is taken")
    func perAddress() throws {
        var limits = NetLimits()
        limits.connectionsPerAddress = 2
        let addresses = limits.addresses
        let fixture = try LoopFixture(limits)
        let (first, firstID) = try fixture.join()
        var second: RawClient? = try fixture.join().0
        #expect(try RawClient(port: fixture.port).readHead().hasPrefix("HTTP/1.1 429"))
        #expect(fixture.counters.refusedByAddress == 1 && fixture.counters.refused == 1)
        second = nil
        fixture.ends.wait(for: 1)
        let (third, thirdID) = try fixture.join()
        // A proxy's word: the third one is somebody else, the next two aren't.
        let other = SocketAddress("203.0.113.7:1000")!
        #expect(fixture.perform { loop, _ in loop.recount(thirdID, as: other) })
        #expect(addresses.count == 2)
        let (fourth, fourthID) = try fixture.join()
        #expect(fixture.perform { loop, _ in loop.recount(firstID, as: other) })
        #expect(!fixture.perform { loop, _ in loop.recount(fourthID, as: other) })
        fixture.stop()
        #expect(addresses.count == 0)
        withExtendedLifetime((first, second, third, fourth)) {}
    }

    @Test("one client: an IPv4 address, also in its mapped form, or a /64 of IPv6")
    func clientKeys() throws {
        func key(_ text: String) throws -> UInt64 { try #require(SocketAddress(text)).clientKey }
        #expect(try key("192.0.2.1:1") == key("192.0.2.1:2"))
        #expect(try key("192.0.2.1:1") == key("[::ffff:192.0.2.1]:1"))
        #expect(try key("192.0.2.1:1") != key("192.0.2.2:1"))
        #expect(try key("[2001:db8:0:1::1]:1") == key("[2001:db8:0:1:ffff::2]:1"))
        #expect(try key("[2001:db8:0:1::1]:1") != key("[2001:db8:0:2::1]:1"))
        #expect(try key("[::1]:1") != 0 && key("127.0.0.1:1") != 0)
        #expect(SocketAddress(unixPath: "/tmp/s").clientKey == 0)
    }

    @Test("a taken port is an error although listeners share ports among loops")
    func takenPort() throws {
        let boxes = try ListenSocket.open(SocketAddress("127.0.0.1:0")!, count: 3)
        #expect(Set(boxes.map(\.address)).count == 1)
        #expect(throws: NetError.self) { _ = try ListenSocket.open(boxes[0].address, count: 2) }
        do { _ = try ListenSocket.open(boxes[0].address, count: 1) } catch {
            #expect(error.description == "bind \(boxes[0].address): Address already in use")
        }
    }
}
