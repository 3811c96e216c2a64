import Glibc
import HubBase
import HubNet
import Testing

@Suite struct ClosingTests {
    @Test(
        "the peer's close comes back with its code, then the stream ends, RFC 6455 §5.5.1", arguments: [1000, 1001, 3000, 4999] as [UInt16])
    func peerCloses(code: UInt16) throws {
        let fixture = try LoopFixture()
        let (client, _) = try fixture.join()
        client.send(RawClient.text("before") + RawClient.frame(0x88, [UInt8(code >> 8), UInt8(code & 255)]) + RawClient.text("after"))
        #expect(try client.readFrame().text == "before")
        let close = try client.readFrame()
        #expect(close.opcode == 8 && close.code == code)
        #expect(client.readEnd() == .endOfStream)
        #expect(fixture.ends.wait(for: 1) == [.peer(code: code)])
    }

    @Test("a close without a code is answered without one, and told as 1005")
    func closeWithoutCode() throws {
        let fixture = try LoopFixture()
        let (client, _) = try fixture.join()
        client.send(RawClient.frame(0x88, []))
        #expect(try client.readFrame() == RawClient.Frame(first: 0x88, payload: []))
        #expect(fixture.ends.wait(for: 1) == [.peer(code: nil)])
    }

    @Test("our close leaves after what was queued; messages that come meanwhile are dropped; then it's told once")
    func weClose() throws {
        let fixture = try LoopFixture()
        let (client, id) = try fixture.join()
        fixture.perform { loop, _ in
            loop.sendMessage(.text, to: id, as: .reply) { $0.append("last words") }
            loop.close(id, code: 1012, reason: "2500")
            loop.close(id, code: 1000, reason: "again")
            #expect(!loop.isOpen(id))
        }
        #expect(try client.readFrame().text == "last words")
        let close = try client.readFrame()
        #expect(close.code == 1012 && close.payload[2...].elementsEqual("2500".utf8))
        #expect(fixture.ends.all.isEmpty, "not over before the peer has answered")
        client.sendText("too late")
        client.sendClose(1012)
        #expect(client.readEnd() == .endOfStream)
        #expect(fixture.ends.wait(for: 1) == [.us(code: 1012)])
        #expect(fixture.counters.messagesIn == 0)
    }

    @Test("who is shut out hears why, and not a byte of it is read any more, whatever it sends; then the socket goes")
    func shutOut() throws {
        var limits = NetLimits()
        limits.closeDeadline = .milliseconds(500)
        let fixture = try LoopFixture(limits) { handler in
            handler.onMessage = { _, _, id in
                handler.loop.sendMessage(.text, to: id, as: .reply) { $0.append("last words") }
                handler.loop.shutOut(id, code: 4009, reason: "10000 too fast")
            }
        }
        let (client, _) = try fixture.join()
        client.send(RawClient.text("first") + RawClient.text("second"))
        #expect(try client.readFrame().text == "last words")
        let close = try client.readFrame()
        #expect(close.code == 4009 && close.payload[2...].elementsEqual("10000 too fast".utf8))
        #expect(fixture.ends.wait(for: 1) == [.us(code: 4009)])
        let read = fixture.counters.bytesIn
        for _ in 0..<20 { client.sendText(String(repeating: "x", count: 10_000)) }
        #expect(fixture.counters.bytesIn == read && fixture.counters.messagesIn == 1)
        #expect(client.readEnd() != .deadline)
        var open = 1
        for _ in 0..<1000 where open > 0 {
            usleep(10_000)
            open = fixture.perform { loop, _ in loop.connectionCount }
        }
        #expect(open == 0)
    }

    @Test("a peer that doesn't answer our close is dropped after the deadline")
    func closeDeadline() throws {
        var limits = NetLimits()
        limits.closeDeadline = .milliseconds(60)
        let fixture = try LoopFixture(limits)
        let (client, id) = try fixture.join()
        fixture.perform { loop, _ in loop.close(id, code: 4003, reason: "away with you") }
        #expect(fixture.ends.wait(for: 1) == [.us(code: 4003)])
        #expect(try client.readFrame().code == 4003)
        #expect(client.readEnd() != .deadline)
    }

    @Test(
        "a broken frame is answered with its code; unread input doesn't turn that into a reset",
        arguments: [
            ([0x81, 0x01, 0x61], 1002),  // unmasked
            ([0xC1, 0x80, 0, 0, 0, 0], 1002),  // RSV1 without an extension
            ([0x89, 0xFE, 0x00, 0x7E, 0, 0, 0, 0], 1002),  // a ping of 126 bytes
            ([0x81, 0x81, 0, 0, 0, 0, 0xFF], 1007),
            ([0x82, 0xFF, 0, 0, 0, 0, 0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0], 1009),
            ([0x82, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 1002),
        ] as [([UInt8], UInt16)])
    func failures(bytes: [UInt8], code: UInt16) throws {
        let fixture = try LoopFixture()
        let (client, _) = try fixture.join()
        client.send(bytes + [UInt8](repeating: 0x20, count: 300_000))
        let close = try client.readFrame()
        #expect(close.opcode == 8 && close.code == code)
        client.finishSending()
        #expect(client.readEnd() == .endOfStream)
        #expect(fixture.ends.wait(for: 1) == [.us(code: code)])
    }

    @Test("a reset or an end of stream without a close is told as lost")
    func lost() throws {
        let fixture = try LoopFixture()
        let (first, _) = try fixture.join()
        first.reset()
        var end = fixture.ends.wait(for: 1).first
        #expect(end == .lost("Connection reset by peer"))
        let (second, _) = try fixture.join()
        second.finishSending()
        end = fixture.ends.wait(for: 2).last
        #expect(end == .lost("the peer ended the stream without a closing handshake"))
    }

    @Test("abort drops the connection without a word, from within its own message too")
    func aborts() throws {
        let fixture = try LoopFixture { handler in
            let loop = handler.loop
            handler.onMessage = { bytes, _, id in
                loop.abort(id)
                loop.abort(id)
                // The message is still there for whoever is looking at it.
                #expect(bytes.elementsEqual("drop me".utf8) || bytes.count == 60_000)
                #expect(!loop.isOpen(id))
            }
        }
        for message in [RawClient.text("drop me"), RawClient.frame(0x82, [UInt8](repeating: 7, count: 60_000))] {
            let (client, _) = try fixture.join()
            client.send([UInt8](message[..<10]))
            _ = fixture.counters
            client.send([UInt8](message[10...]) + RawClient.text("never seen"))
            #expect(client.readEnd() != .deadline)
        }
        #expect(fixture.ends.wait(for: 2) == [.lost("aborted"), .lost("aborted")])
    }

    @Test("a handler may close, send to and abort others while it is told of an end; indexes are reused after the call only")
    func reentrancy() throws {
        let fixture = try LoopFixture { handler in
            let loop = handler.loop
            var open: [ConnectionID] = []
            handler.onOpened = { open.append($0) }
            handler.onClosed = { id, _ in
                open.removeAll { $0 == id }
                #expect(!loop.isOpen(id))
                loop.sendMessage(.text, to: id, as: .reply) { $0.append("into the void") }
                // One falls after the other.
                if let next = open.first { loop.abort(next) }
            }
        }
        var clients: [RawClient] = []
        for _ in 0..<20 { clients.append(try fixture.join().0) }
        clients[7].sendClose(1000)
        #expect(fixture.ends.wait(for: 20).count == 20)
        for client in clients { #expect(client.readEnd() != .deadline) }
        clients.removeAll()
        #expect(fixture.ends.all.count == 20)
        for _ in 0..<1000 where fixture.perform({ loop, _ in loop.connectionCount }) > 0 { StallClock.pass(milliseconds: 2) }
        #expect(fixture.perform { loop, _ in loop.connectionCount } == 0)
        let (again, id) = try fixture.join()
        #expect(id.index < 20)
        again.sendText("fine")
        #expect(try again.readFrame().text == "fine")
    }

    @Test("an old id reaches nobody once its index has a new owner")
    func staleID() throws {
        let fixture = try LoopFixture()
        let (client, id) = try fixture.join()
        client.sendClose(1000)
        #expect(client.readEnd() == .endOfStream)
        client.finishSending()
        for _ in 0..<1000 where fixture.perform({ loop, _ in loop.connectionCount }) > 0 { StallClock.pass(milliseconds: 2) }
        let (next, nextID) = try fixture.join()
        #expect(nextID.index == id.index && nextID.generation != id.generation)
        fixture.perform { loop, _ in
            loop.sendMessage(.text, to: id, as: .reply) { $0.append("stale") }
            loop.close(id, code: 1000, reason: "stale")
            loop.abort(id)
            loop.ping(id)
            loop.hold(id, for: .zero, code: 4010)
        }
        next.sendText("mine")
        #expect(try next.readFrame().text == "mine")
    }
}
