import HubBase
import HubNet
import Testing

/// A handshake's answer that waits for the first message. Counted in writes, so that no clock decides.
@Suite struct WithheldTests {
    /// `withheld`: as soon as it's open; the test sends what follows.
    private static func fixture(_ limits: NetLimits = NetLimits()) throws -> LoopFixture {
        try LoopFixture(limits) { handler in
            handler.onOpened = { handler.loop.withhold($0) }
        }
    }

    private static func ask(_ fixture: LoopFixture) -> (RawClient, ConnectionID) {
        let before = fixture.opens.all.count
        let client = RawClient(port: fixture.port)
        client.send(RawClient.get())
        return (client, fixture.opens.wait(for: before + 1)[before])
    }

    @Test("it leaves with what follows it, in one write and in its order")
    func together() throws {
        let fixture = try LoopFixture { handler in
            handler.onOpened = { id in
                handler.loop.withhold(id)
                // From the next turn on, as a backend's answer would.
                handler.onWoken = {
                    handler.onWoken = nil
                    handler.loop.sendMessage(.text, to: id, as: .reply) { $0.append("welcome") }
                }
                handler.loop.wake()
            }
        }
        // A stalled machine may let the time pass: of many one is enough to show it.
        for attempt in 1...50 {
            let before = fixture.counters.writes
            let client = RawClient(port: fixture.port)
            client.send(RawClient.get())
            #expect(try client.readHead().hasPrefix("HTTP/1.1 101"))
            #expect(try client.readFrame().text == "welcome")
            if fixture.counters.writes == before + 1 { return }
            #expect(attempt < 50)
        }
    }

    @Test("it leaves alone when nothing follows in time")
    func alone() throws {
        let fixture = try Self.fixture()
        let (client, id) = Self.ask(fixture)
        #expect(try client.readHead().hasPrefix("HTTP/1.1 101"))
        fixture.perform { loop, _ in loop.sendMessage(.text, to: id, as: .reply) { $0.append("later") } }
        #expect(try client.readFrame().text == "later")
        #expect(fixture.counters.writes == 2)
    }

    @Test("a client that doesn't wait for it is answered behind it")
    func eager() throws {
        let fixture = try Self.fixture()
        let client = RawClient(port: fixture.port)
        client.send([UInt8](RawClient.get().utf8) + RawClient.text("glued"))
        #expect(try client.readHead().hasPrefix("HTTP/1.1 101"))
        #expect(try client.readFrame().text == "glued")
    }

    @Test("it goes before a close frame, and before an answer to a broken frame, RFC 6455 §7.1.7", arguments: [true, false])
    func closing(isOurs: Bool) throws {
        let fixture = try Self.fixture()
        let (client, id) = Self.ask(fixture)
        if isOurs {
            fixture.perform { loop, _ in loop.close(id, code: 4000, reason: "no") }
        } else {
            client.send([0xFF, 0x80, 0, 0, 0, 0])
        }
        #expect(try client.readHead().hasPrefix("HTTP/1.1 101"))
        #expect(try client.readFrame().code == (isOurs ? 4000 : 1002))
    }

    @Test("a client that leaves before it leaves nothing behind")
    func gone() throws {
        let fixture = try Self.fixture()
        for _ in 0..<20 {
            let (client, _) = Self.ask(fixture)
            client.reset()
        }
        #expect(fixture.ends.wait(for: 20).count == 20)
        let (client, _) = Self.ask(fixture)
        #expect(try client.readHead().hasPrefix("HTTP/1.1 101"))
        #expect(fixture.eventually { $0.connectionCount == 1 })
    }

    @Test("a connection that is open already withholds nothing")
    func late() throws {
        let fixture = try LoopFixture()
        let (client, id) = try fixture.join()
        fixture.perform { loop, _ in
            loop.withhold(id)
            loop.sendMessage(.text, to: id, as: .reply) { $0.append("now") }
        }
        #expect(try client.readFrame().text == "now")
    }
}
