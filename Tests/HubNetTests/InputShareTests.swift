import HubBase
import HubNet
import Testing

/// Counts, not times: the loop is held up while the bytes come, so that all of them lie in the kernel when it goes on.
@Suite("one connection's share of a turn")
struct InputShareTests {
    static let share = 64
    static let burst = (0..<1000).map { "\($0)" }

    struct Seen: Sendable, Equatable {
        var id: ConnectionID
        var turn: Int
        var text: String
    }

    /// A loop whose handler notes messages; "wait" holds it up until the gate opens, and so does the text `holding`, after saying so.
    struct Stage {
        let fixture: LoopFixture
        let seen = Watch<Seen>()
        let gate = Watch<Int>()
        let reached = Watch<Int>()

        init(
            _ tls: TLSContext? = nil, holding: String = "",
            _ act: @escaping @Sendable (NetLoop, String, ConnectionID) -> Void = { _, _, _ in }
        )
            throws
        {
            let (seen, gate, reached) = (seen, gate, reached)
            fixture = try LoopFixture(tls: tls) { handler in
                var turn = 0
                let loop = handler.loop
                handler.onTurnEnding = { turn += 1 }
                handler.onMessage = { bytes, _, id in
                    let text = bytes.count > 20 ? "\(bytes.count)" : String(decoding: bytes, as: UTF8.self)
                    seen.note(Seen(id: id, turn: turn, text: text))
                    if text == "wait" { gate.wait(for: 1) }
                    if text == holding {
                        reached.note(1)
                        gate.wait(for: 2)
                    }
                    act(loop, text, id)
                }
            }
        }

        /// Holds up the loop until `go`.
        func hold(by client: RawClient) {
            client.sendText("wait")
            seen.wait { $0.contains { $0.text == "wait" } }
        }

        func go() { gate.note(1) }

        /// What came of one connection, once it's `count`.
        func texts(of id: ConnectionID, count: Int) -> [String] {
            seen.wait { $0.count { $0.id == id } >= count }.filter { $0.id == id }.map(\.text)
        }

        /// The most that a connection got in one turn.
        func most(of id: ConnectionID) -> Int {
            var counts: [Int: Int] = [:]
            for one in seen.all where one.id == id { counts[one.turn, default: 0] += 1 }
            return counts.values.max() ?? 0
        }
    }

    @Test("a burst is worked off in shares, in order, without another byte from its socket, and another client's message comes between")
    func burst() throws {
        let stage = try Stage()
        let (holder, _) = try stage.fixture.join()
        let (loud, loudId) = try stage.fixture.join()
        let (quiet, quietId) = try stage.fixture.join()
        stage.hold(by: holder)
        loud.send(Self.burst.flatMap(RawClient.text))
        quiet.sendText("hello")
        stage.go()
        #expect(stage.texts(of: loudId, count: 1000) == Self.burst)
        #expect(stage.most(of: loudId) == Self.share)
        let order = stage.seen.all
        let place = try #require(order.firstIndex { $0.id == quietId })
        #expect(order[..<place].count { $0.id == loudId } <= 2 * Self.share)
    }

    @Test("large messages take their share in bytes: a fifth of 60 KB is one turn's last")
    func bytes() throws {
        let stage = try Stage()
        let (holder, _) = try stage.fixture.join()
        let (loud, loudId) = try stage.fixture.join()
        stage.hold(by: holder)
        stage.go()
        let message = RawClient.frame(0x82, [UInt8](repeating: 7, count: 60_000))
        for _ in 0..<40 { loud.send(message) }
        #expect(stage.texts(of: loudId, count: 40) == [String](repeating: "60000", count: 40))
        #expect(stage.most(of: loudId) <= 5)
    }

    @Test("fragments count as messages do")
    func fragments() throws {
        let stage = try Stage()
        let (holder, _) = try stage.fixture.join()
        let (loud, loudId) = try stage.fixture.join()
        stage.hold(by: holder)
        let parts: [[UInt8]] = [RawClient.frame(0x01, [0x61]), RawClient.frame(0x00, []), RawClient.frame(0x80, [0x62])]
        let message: [UInt8] = parts.flatMap { $0 }
        loud.send([[UInt8]](repeating: message, count: 200).flatMap { $0 })
        stage.go()
        #expect(stage.texts(of: loudId, count: 200) == [String](repeating: "ab", count: 200))
        #expect(stage.most(of: loudId) <= Self.share / 3 + 1)
    }

    @Test("a frame that is cut off behind a burst goes on when its rest comes")
    func cutOff() throws {
        let stage = try Stage()
        let (holder, _) = try stage.fixture.join()
        let (loud, loudId) = try stage.fixture.join()
        stage.hold(by: holder)
        let last = RawClient.text("the last one")
        loud.send(Self.burst.flatMap(RawClient.text) + last[..<5])
        stage.go()
        #expect(stage.texts(of: loudId, count: 1000) == Self.burst)
        loud.send([UInt8](last[5...]) + RawClient.text("more"))
        #expect(stage.texts(of: loudId, count: 1002).suffix(2) == ["the last one", "more"])
    }

    @Test(
        "who hangs up behind a burst has said all of it: by the end of its stream, by a reset, and under TLS by its goodbye",
        arguments: 0..<3)
    func hungUp(way: Int) throws {
        let stage = try Stage(way == 2 ? TLSTests.context() : nil, holding: "10")
        let (holder, _) = way == 2 ? try stage.fixture.joinSecurely() : try stage.fixture.join()
        let loud = RawClient(port: stage.fixture.port)
        let layer = way == 2 ? try loud.secure() : nil
        try loud.upgrade()
        let loudId = stage.fixture.opens.wait(for: 2)[1]
        stage.hold(by: holder)
        let bytes = Self.burst.flatMap(RawClient.text)
        if let layer {
            loud.sendRaw(layer.encrypt(bytes) + layer.goodbye())
        } else {
            loud.send(bytes)
        }
        stage.go()
        stage.reached.wait(for: 1)
        if way == 0 { loud.finishSending() }
        if way == 1 { loud.reset() }
        stage.gate.note(2)
        #expect(stage.texts(of: loudId, count: 1000) == Self.burst)
        guard case .lost = try #require(stage.fixture.ends.wait(for: 1).first) else {
            Issue.record("it ended otherwise: \(stage.fixture.ends.all)")
            return
        }
        #expect(stage.most(of: loudId) == Self.share)
    }

    @Test("nothing of a burst is handed on once its connection was closed, shut out or aborted amid a later share", arguments: 0..<3)
    func closed(way: Int) throws {
        let stage = try Stage { loop, text, id in
            guard text == "100" else { return }
            switch way {
            case 0: loop.close(id, code: 4001, reason: "enough")
            case 1: loop.shutOut(id, code: 4009, reason: "enough")
            default: loop.abort(id)
            }
        }
        let (holder, _) = try stage.fixture.join()
        let (loud, loudId) = try stage.fixture.join()
        stage.hold(by: holder)
        loud.send(Self.burst.flatMap(RawClient.text))
        stage.go()
        if way < 2 { #expect(try loud.readFrame().code == (way == 0 ? 4001 : 4009)) }
        if way == 0 { loud.sendClose(4001) }
        #expect(stage.fixture.ends.wait(for: 1).count == 1)
        // Another client is served, and by then it would have got the rest.
        let (other, otherId) = try stage.fixture.join()
        other.sendText("hello")
        #expect(stage.texts(of: otherId, count: 1) == ["hello"])
        #expect(stage.texts(of: loudId, count: 101) == [String](Self.burst[...100]))
    }
}
