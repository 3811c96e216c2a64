import HubBase
import HubNet
import Testing

@Suite("a connection whose reading is held back")
struct HoldReadingTests {
    /// "hold" holds its sender back.
    static func fixture(_ seen: Watch<String>, _ limits: NetLimits = NetLimits()) throws -> LoopFixture {
        try LoopFixture(limits) { handler in
            let loop = handler.loop
            handler.onMessage = { bytes, _, id in
                let text = String(decoding: bytes, as: UTF8.self)
                seen.note(text)
                if text == "hold" { loop.holdReading(id) }
            }
        }
    }

    @Test("nothing behind it is handed on, in the same bytes and in later ones, until it goes on; then all of it, in order")
    func inOrder() throws {
        let seen = Watch<String>()
        let fixture = try Self.fixture(seen)
        let (client, id) = try fixture.join()
        let (other, _) = try fixture.join()
        client.send(RawClient.text("a") + RawClient.text("hold") + RawClient.text("b") + RawClient.text("c"))
        seen.wait(for: 2)
        client.sendText("d")
        other.sendText("x")
        #expect(seen.wait { $0.contains("x") } == ["a", "hold", "x"])
        // Going on twice, or where nothing is held, is going on.
        fixture.perform { loop, _ in
            loop.goOnReading(id)
            loop.goOnReading(id)
        }
        #expect(seen.wait(for: 6) == ["a", "hold", "x", "b", "c", "d"])
        client.sendText("hold")
        seen.wait(for: 7)
        client.sendText("e")
        fixture.perform { loop, _ in loop.goOnReading(id) }
        #expect(seen.wait(for: 8).last == "e")
    }

    @Test("it's held back within a burst that had its share, and again at once when it goes on")
    func withinBurst() throws {
        let seen = Watch<String>()
        let fixture = try Self.fixture(seen)
        let (client, id) = try fixture.join()
        let texts = (0..<300).map { $0 == 100 || $0 == 101 ? "hold" : "\($0)" }
        client.send(texts.flatMap(RawClient.text))
        #expect(seen.wait(for: 101).count == 101)
        fixture.perform { loop, _ in loop.goOnReading(id) }
        #expect(seen.wait(for: 102).count == 102)
        fixture.perform { loop, _ in loop.goOnReading(id) }
        #expect(seen.wait(for: 300) == texts)
    }

    @Test("a close of ours while it's held takes the peer's answer, and what was behind is dropped")
    func closedWhileHeld() throws {
        let seen = Watch<String>()
        let fixture = try Self.fixture(seen)
        let (client, id) = try fixture.join()
        client.send(RawClient.text("hold") + RawClient.text("behind"))
        seen.wait(for: 1)
        fixture.perform { loop, _ in loop.close(id, code: 4003, reason: "ended") }
        #expect(try client.readFrame().code == 4003)
        client.sendClose(4003)
        #expect(client.readEnd() == .endOfStream)
        #expect(fixture.ends.wait(for: 1) == [.us(code: 4003)])
        #expect(seen.all == ["hold"])
    }

    @Test("its life isn't judged while its pongs lie unread, and is afterwards")
    func liveness() throws {
        var limits = NetLimits()
        limits.ping = .milliseconds(100)
        limits.pong = .milliseconds(50)
        let seen = Watch<String>()
        let fixture = try Self.fixture(seen, limits)
        let (client, id) = try fixture.join()
        client.sendText("hold")
        seen.wait(for: 1)
        // Several times as long as a silent peer has.
        StallClock.pass(milliseconds: 600)
        #expect(fixture.perform { loop, _ in loop.isOpen(id) })
        fixture.perform { loop, _ in loop.goOnReading(id) }
        // It answers no ping.
        guard case .silent = try #require(fixture.ends.wait(for: 1).first) else {
            Issue.record("it ended otherwise: \(fixture.ends.all)")
            return
        }
    }
}
