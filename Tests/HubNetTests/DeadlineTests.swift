import HubBase
import HubNet
import Testing

@Suite struct DeadlineTests {
    @Test("a connection that sends nothing, or a head byte by byte, ends by the head's deadline, B56")
    func headDeadline() throws {
        var limits = NetLimits()
        limits.headDeadline = .milliseconds(1500)
        let fixture = try LoopFixture(limits)
        let silent = RawClient(port: fixture.port)
        #expect(silent.readEnd() == .endOfStream)
        let slow = RawClient(port: fixture.port)
        // Bytes don't prolong it: this goes on until the connection is gone, or until 10 s have passed.
        slow.send("GET / HTTP/1.1\r\nX: ")
        let head = try slow.readHead()
        #expect(head.hasPrefix("HTTP/1.1 408"))
        #expect(slow.readEnd() == .endOfStream)
    }

    @Test("a body that doesn't come ends by the deadline")
    func bodyDeadline() throws {
        var limits = NetLimits()
        limits.headDeadline = .milliseconds(1500)
        let fixture = try LoopFixture(limits)
        let client = RawClient(port: fixture.port)
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
        #expect(try client.readHead().hasPrefix("HTTP/1.1 408"))
    }

    @Test("an idle keep-alive connection ends after its time, an unanswered request gets 503")
    func keepAlive() throws {
        var limits = NetLimits()
        limits.keepAlive = .milliseconds(80)
        limits.answerDeadline = .milliseconds(80)
        let fixture = try LoopFixture(limits) { handler in
            handler.onRequest = { request, _ in request.path.count == 1 ? .respond(HTTPResponse(status: 200)) : .pending }
        }
        let client = RawClient(port: fixture.port)
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(try client.readHead().hasPrefix("HTTP/1.1 200"))
        #expect(client.readEnd() == .endOfStream)
        let waiting = RawClient(port: fixture.port)
        waiting.send("GET /never HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(try waiting.readHead().hasPrefix("HTTP/1.1 503"))
        #expect(waiting.readEnd() == .endOfStream)
    }

    @Test("on hold: closed with the code although it sends messages and pings; admitted in time: kept")
    func hold() throws {
        let fixture = try LoopFixture { handler in
            let loop = handler.loop
            handler.onRequest = { _, id in
                loop.hold(id, for: .milliseconds(2000), code: 4010)
                return .upgrade(subprotocol: nil)
            }
            handler.onMessage = { bytes, kind, id in
                if bytes.elementsEqual("token".utf8) { loop.admit(id) }
                loop.sendMessage(kind, to: id, as: .reply) { $0.append(bytes) }
            }
        }
        let (held, _) = try fixture.join()
        let (admitted, _) = try fixture.join()
        admitted.sendText("token")
        #expect(try admitted.readFrame().text == "token")
        // It talks all the time until it's told off.
        var frames = 0
        while true {
            held.send(RawClient.text("hello") + (frames < 50 ? RawClient.frame(0x89, []) : []))
            let frame = try held.readFrame()
            frames += 1
            if frame.opcode == 8 {
                #expect(frame.code == 4010)
                break
            }
            StallClock.pass(milliseconds: 5)
        }
        held.sendClose(4010)
        #expect(fixture.ends.wait(for: 1) == [.us(code: 4010)])
        admitted.sendText("still here")
        #expect(try admitted.readFrame().text == "still here")
    }

    @Test("a silent peer is pinged; no pong: told 4011 and dropped; any bytes in: kept")
    func liveness() throws {
        var limits = NetLimits()
        limits.ping = .milliseconds(60)
        limits.pong = .milliseconds(1000)
        let fixture = try LoopFixture(limits)
        let (silent, silentID) = try fixture.join()
        let (alive, aliveID) = try fixture.join()
        // Answers two pings: with a message, with a pong.
        #expect(try alive.readFrame().opcode == 9)
        alive.sendText("busy")
        #expect(try alive.readFrame().text == "busy")
        #expect(try alive.readFrame().opcode == 9)
        alive.send(RawClient.frame(0x8A, []))
        #expect(try silent.readFrame().opcode == 9)
        let end = try silent.readFrame()
        #expect(end.opcode == 8 && end.code == 4011)
        #expect(silent.readEnd() == .endOfStream)
        guard case .silent(let lastHeard, let reason)? = fixture.ends.wait(for: 1).first else {
            Issue.record("the end isn't told as silence")
            return
        }
        #expect(reason.hasPrefix("silent"))
        // It was never heard after it had joined.
        let now = fixture.perform { loop, _ in loop.now }
        #expect(now.since(lastHeard) >= limits.ping + limits.pong)
        #expect(!fixture.perform { loop, _ in loop.isOpen(silentID) })
        withExtendedLifetime((alive, aliveID)) {}
    }

    @Test("after a stall of the loop what lies in the socket counts before silence is judged, B10")
    func stall() throws {
        var limits = NetLimits()
        limits.ping = .milliseconds(50)
        limits.pong = .milliseconds(1000)
        let fixture = try LoopFixture(limits)
        let (client, _) = try fixture.join()
        for round in 0..<2 {
            #expect(try client.readFrame().opcode == 9)
            // The loop's thread is held up past every deadline while the pong and a message come in.
            let isStalled = Watch<Bool>()
            let goOn = Watch<Bool>()
            let stall = try LoopThread(name: "stall") { [fixture] in
                fixture.perform { _, _ in
                    isStalled.note(true)
                    goOn.wait(for: 1)
                    StallClock.pass(milliseconds: 1200)
                }
            }
            isStalled.wait(for: 1)
            client.send(RawClient.frame(0x8A, []) + RawClient.text("round \(round)"))
            goOn.note(true)
            var text = try client.readFrame()
            while text.opcode == 9 { text = try client.readFrame() }
            #expect(text.text == "round \(round)")
            stall.join()
            client.send(RawClient.frame(0x8A, []))
            _ = fixture.counters
        }
        #expect(fixture.ends.all.isEmpty)
    }

    @Test("a flood of pings is closed with 1008; those before it are answered in order, from the 17th in a turn on with the latest, B39")
    func pingFlood() throws {
        var limits = NetLimits()
        limits.controlFramesPerSecond = 10
        let fixture = try LoopFixture(limits)
        let (client, _) = try fixture.join()
        client.send((1...20).flatMap { RawClient.frame(0x89, [UInt8($0)]) })
        for number in 1...16 { #expect(try client.readFrame() == RawClient.Frame(first: 0x8A, payload: [UInt8(number)])) }
        var pong = try client.readFrame()
        #expect(pong.opcode == 10)
        while pong.payload != [20] { pong = try client.readFrame() }
        client.send((1...200).flatMap { RawClient.frame(0x89, [UInt8($0)]) })
        var close = try client.readFrame()
        while close.opcode == 10 { close = try client.readFrame() }
        #expect(close.opcode == 8 && close.code == 1008)
        #expect(fixture.ends.wait(for: 1) == [.us(code: 1008)])
    }
}
