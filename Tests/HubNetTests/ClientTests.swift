import HubBase
import HubNet
import Testing

@Suite struct ClientTests {
    private static func opening(_ fixture: LoopFixture, target: String = "/ws", deadline: Span = .seconds(10)) -> ClientOpening {
        ClientOpening(host: "127.0.0.1:\(fixture.port)", target: target, subprotocols: [], deadline: deadline)
    }

    private static func endpoint(_ port: Int) -> SocketAddress { SocketAddress("127.0.0.1:\(port)")! }

    @Test("a client of ours and a server of ours talk, close, and both are told")
    func talks() throws {
        let server = try LoopFixture()
        let said = Watch<String>()
        let client = try LoopFixture { handler in
            let loop = handler.loop
            handler.onOpened = { id in
                for text in ["one", String(repeating: "2", count: 60_000), ""] {
                    loop.sendMessage(.text, to: id, as: .reply) { $0.append([UInt8](text.utf8)) }
                }
            }
            handler.onMessage = { bytes, kind, id in
                said.note(String(decoding: bytes, as: UTF8.self))
                if said.all.count == 3 { loop.close(id, code: 1000, reason: "done") }
            }
        }
        let endpoint = Self.endpoint(server.port)
        let opening = Self.opening(server)
        _ = client.perform { loop, _ in loop.connect(endpoint, opening) }
        #expect(said.wait(for: 3) == ["one", String(repeating: "2", count: 60_000), ""])
        #expect(client.ends.wait(for: 1) == [.us(code: 1000)])
        #expect(server.ends.wait(for: 1) == [.peer(code: 1000)])
        // Nobody holds on to anything: both sides' sockets go without a deadline's help.
        for fixture in [server, client] {
            for _ in 0..<1000 where fixture.perform({ loop, _ in loop.connectionCount }) > 0 { StallClock.pass(milliseconds: 2) }
            #expect(fixture.perform { loop, _ in loop.connectionCount } == 0)
        }
    }

    @Test("a greeting in the same turn as the 101 is seen, 500 times of 500, B37")
    func greeting() throws {
        let server = try LoopFixture { handler in
            let loop = handler.loop
            handler.onOpened = { id in loop.sendMessage(.text, to: id, as: .system) { $0.append("welcome") } }
        }
        let seen = Watch<Bool>()
        let client = try LoopFixture { handler in
            var isOpen = Set<ConnectionID>()
            handler.onOpened = { isOpen.insert($0) }
            handler.onMessage = { bytes, _, id in seen.note(bytes.elementsEqual("welcome".utf8) && isOpen.contains(id)) }
        }
        let endpoint = Self.endpoint(server.port)
        let opening = Self.opening(server)
        client.perform { loop, _ in
            for _ in 0..<500 { _ = loop.connect(endpoint, opening) }
        }
        let all = seen.wait(for: 500)
        #expect(all.count == 500 && all.allSatisfy { $0 })
    }

    @Test("a connect that fails is told as lost, with why, after connect has returned")
    func refused() throws {
        let client = try LoopFixture()
        let boxes = try ListenSocket.open(SocketAddress("127.0.0.1:0")!, count: 1)
        let address = boxes[0].address
        _ = boxes[0].take()
        let opening = ClientOpening(host: "x", target: "/ws", subprotocols: [])
        let wasTold = client.perform { loop, handler in
            _ = loop.connect(address, opening)
            return handler.ends.all.count
        }
        #expect(wasTold == 0)
        #expect(client.ends.wait(for: 1) == [.lost("connect \(address): Connection refused")])
        #expect(client.opens.all.isEmpty)
    }

    @Test("a server that answers with something else is told as refused, one that doesn't answer as lost")
    func notAWebSocket() throws {
        let server = try LoopFixture { handler in
            handler.onRequest = { request, _ in
                request.path.count == 2 ? .pending : .respond(HTTPResponse(status: 404))
            }
        }
        let client = try LoopFixture()
        let endpoint = Self.endpoint(server.port)
        let other = Self.opening(server, target: "/other")
        let silent = Self.opening(server, target: "/s", deadline: .milliseconds(1000))
        _ = client.perform { loop, _ in loop.connect(endpoint, other) }
        client.ends.wait(for: 1)
        _ = client.perform { loop, _ in loop.connect(endpoint, silent) }
        let ends = client.ends.wait(for: 2)
        let refused = ConnectionEnd.refused(status: 404, "the server answered 404 instead of opening a WebSocket")
        #expect(ends == [refused, .lost("no answer to the opening handshake within the deadline")])
    }

    @Test("a client's connection is closed or aborted before it's open: told once")
    func givesUp() throws {
        let server = try LoopFixture()
        let client = try LoopFixture()
        let endpoint = Self.endpoint(server.port)
        let opening = Self.opening(server)
        client.perform { loop, _ in
            let first = loop.connect(endpoint, opening)
            let second = loop.connect(endpoint, opening)
            loop.close(first, code: 1000, reason: "never mind")
            loop.abort(second)
            loop.abort(second)
        }
        #expect(client.ends.wait(for: 2) == [.us(code: 1000), .lost("aborted")])
        #expect(client.perform { loop, _ in loop.connectionCount } == 0)
    }

    @Test("a source address is used")
    func source() throws {
        let server = try LoopFixture()
        let client = try LoopFixture()
        let endpoint = Self.endpoint(server.port)
        var opening = Self.opening(server)
        opening.source = SocketAddress("127.0.0.9:0")
        let ready = opening
        _ = client.perform { loop, _ in loop.connect(endpoint, ready) }
        let id = server.opens.wait(for: 1)[0]
        #expect(server.perform { loop, _ in loop.peer(id) }.hasPrefix("127.0.0.9:"))
    }

    @Test("the server's pings are answered, masked, RFC 6455 §5.1")
    func pongs() throws {
        var limits = NetLimits()
        limits.ping = .milliseconds(30)
        limits.pong = .milliseconds(3000)
        let server = try LoopFixture(limits)
        let client = try LoopFixture()
        let endpoint = Self.endpoint(server.port)
        let opening = Self.opening(server)
        _ = client.perform { loop, _ in loop.connect(endpoint, opening) }
        let id = server.opens.wait(for: 1)[0]
        let first = server.perform { loop, _ in loop.lastInbound(id) }
        var isFresh = false
        for _ in 0..<2000 where !isFresh {
            StallClock.pass(milliseconds: 2)
            isFresh = server.perform { loop, _ in loop.lastInbound(id) } > first
        }
        #expect(isFresh)
        #expect(server.ends.all.isEmpty)
    }
}
