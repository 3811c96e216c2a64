import HubBase
import HubNet
import Testing

@Suite struct OutboundTests {
    private static func broadcast(_ loop: NetLoop, _ text: String, to ids: [ConnectionID]) {
        let frame = loop.makeFrame(.text) { $0.append([UInt8](text.utf8)) }
        ids.map(\.index).withUnsafeBufferPointer { loop.broadcast(frame, to: $0, as: .publication) }
    }

    @Test("16 frames to one connection in one turn are one write")
    func oneWrite() throws {
        let fixture = try LoopFixture()
        let (client, id) = try fixture.join()
        let before = fixture.counters
        fixture.perform { loop, _ in
            for number in 0..<16 { Self.broadcast(loop, "\(number)", to: [id]) }
        }
        for number in 0..<16 { #expect(try client.readFrame().text == "\(number)") }
        let after = fixture.counters
        #expect(after.writes - before.writes == 1)
        #expect(after.framesOut - before.framesOut == 16)
    }

    @Test("frames of one channel and of another, replies and pongs in one turn: still one write each, in order")
    func mixedPieces() throws {
        let fixture = try LoopFixture()
        let (first, firstID) = try fixture.join()
        let (second, secondID) = try fixture.join()
        let before = fixture.counters
        fixture.perform { loop, _ in
            for number in 0..<50 {
                Self.broadcast(loop, "both \(number)", to: [firstID, secondID])
                loop.sendMessage(.text, to: firstID, as: .reply) { $0.append([UInt8]("only \(number)".utf8)) }
            }
        }
        for number in 0..<50 {
            #expect(try first.readFrame().text == "both \(number)")
            #expect(try first.readFrame().text == "only \(number)")
            #expect(try second.readFrame().text == "both \(number)")
        }
        #expect(fixture.counters.writes - before.writes == 2)
    }

    @Test("what comes while a turn is about to write to many leaves in the same writes")
    func gathers() throws {
        let fixture = try LoopFixture()
        let (publisher, _) = try fixture.join()
        let readers = try (0..<40).map { _ in try fixture.join() }
        let ids = readers.map(\.1)
        let descriptor = publisher.descriptor
        // A turn looks again for as long as writes may take: where the machine stands still for longer, it doesn't. Of many one is enough.
        for attempt in 1...50 {
            fixture.perform { loop, handler in
                handler.onMessage = { bytes, _, _ in Self.broadcast(loop, String(decoding: bytes, as: UTF8.self), to: ids) }
                // The first message is queued for all, and nothing is written yet: now the second one comes.
                handler.onTurnEnding = {
                    guard loop.queuedInTurn > 0 else { return }
                    handler.onTurnEnding = nil
                    #expect(RawClient.send(descriptor, RawClient.text("second")))
                }
            }
            let before = fixture.counters
            #expect(publisher.sendText("first"))
            for (client, _) in readers {
                #expect(try client.readFrame().text == "first")
                #expect(try client.readFrame().text == "second")
            }
            let writes = fixture.counters.writes - before.writes
            if writes == 40 { return }
            #expect(writes > 40 && writes <= 80)
            #expect(attempt < 50)
        }
    }

    @Test("a broadcast skips those who have gone, and reaches the rest")
    func skipsTheGone() throws {
        let fixture = try LoopFixture()
        let (_, goneID) = try fixture.join()
        fixture.perform { loop, _ in loop.abort(goneID) }
        let (client, id) = try fixture.join()
        let wasSent = fixture.perform { loop, _ in
            Self.broadcast(loop, "hello", to: [ConnectionID(index: 77_777, generation: 1), goneID, id])
            return loop.send(loop.makeFrame(.text) { _ in }, to: goneID, as: .reply)
        }
        #expect(!wasSent)
        #expect(try client.readFrame().text == "hello")
    }

    @Test("every payload length around the header's borders arrives as it was, several in a turn")
    func headerBorders() throws {
        let fixture = try LoopFixture()
        let (client, id) = try fixture.join()
        let counts = [0, 1, 124, 125, 126, 127, 128, 65534, 65535, 65536, 65537, 100_000, 3]
        fixture.perform { loop, _ in
            for count in counts {
                let frame = loop.makeFrame(.binary) { $0.append((0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) }) }
                loop.send(frame, to: id, as: .reply)
            }
        }
        for count in counts {
            let frame = try client.readFrame()
            #expect(frame.first == 0x82 && frame.payload == (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) })
        }
    }

    @Test("a slow reader is cut at the limit with 4008, and the others get everything, B40")
    func slowReader() throws {
        var limits = NetLimits()
        limits.outboundBytes = 256 * 1024
        let fixture = try LoopFixture(limits)
        let (slow, slowID) = try fixture.join(receiveBuffer: 4096)
        let (quick, quickID) = try fixture.join()
        let text = String(repeating: "x", count: 8000)
        let rounds = 2000
        for round in 0..<rounds {
            let isOpen = fixture.perform { loop, _ in
                Self.broadcast(loop, "\(round) \(text)", to: [slowID, quickID])
                #expect(loop.queuedBytes(slowID) <= 256 * 1024)
                return loop.isOpen(slowID)
            }
            #expect(try quick.readFrame().text.hasPrefix("\(round) "))
            if !isOpen { break }
        }
        let counters = fixture.counters
        #expect(counters.closedTooSlow == 1)
        #expect(counters.framesDropped > 0)
        // What reaches the slow one is whole frames without a hole, then the close frame.
        var expected = 0
        while true {
            let frame = try slow.readFrame()
            if frame.opcode == 8 {
                #expect(frame.code == 4008)
                break
            }
            #expect(frame.text == "\(expected) \(text)")
            expected += 1
        }
        slow.sendClose(4008)
        #expect(slow.readEnd() == .endOfStream)
        #expect(fixture.ends.wait(for: 1) == [.us(code: 4008)])
        #expect(fixture.perform { loop, _ in loop.queuedBytes(slowID) } == 0)
    }

    @Test("a message larger than the queue's limit closes with 4008 too")
    func oneTooLarge() throws {
        var limits = NetLimits()
        limits.outboundBytes = 64 * 1024
        let fixture = try LoopFixture(limits)
        let (client, id) = try fixture.join(receiveBuffer: 4096)
        fixture.perform { loop, _ in
            let frame = loop.makeFrame(.binary) { $0.append([UInt8](repeating: 1, count: 20_000_000)) }
            #expect(loop.send(frame, to: id, as: .reply))
        }
        #expect(fixture.ends.wait(for: 1) == [.us(code: 4008)])
        #expect(client.readEnd() != .deadline)
    }

    @Test("a blocked connection goes on when its reader does, and nothing is lost or reordered")
    func blockedGoesOn() throws {
        var limits = NetLimits()
        limits.outboundBytes = 64 * 1024 * 1024
        let fixture = try LoopFixture(limits)
        let (client, id) = try fixture.join(receiveBuffer: 4096)
        for round in 0..<300 {
            fixture.perform { loop, _ in
                for part in 0..<4 {
                    let count = part % 2 == 0 ? 20 : 20_000
                    loop.sendMessage(.text, to: id, as: .reply) {
                        $0.append([UInt8]("\(round).\(part) ".utf8) + [UInt8](repeating: 0x79, count: count))
                    }
                }
            }
        }
        #expect(fixture.perform { loop, _ in loop.queuedBytes(id) } > 0)
        for round in 0..<300 {
            for part in 0..<4 {
                let frame = try client.readFrame()
                #expect(frame.text.hasPrefix("\(round).\(part) y"))
            }
        }
        client.sendText("done")
        #expect(try client.readFrame().text == "done")
        #expect(fixture.perform { loop, _ in loop.queuedBytes(id) } == 0)
    }

    @Test("20 bytes and 60 KB in turn, sent without waiting: the echoes come in order, B27")
    func alternating() throws {
        var limits = NetLimits()
        limits.outboundBytes = 512 * 1024 * 1024
        let fixture = try LoopFixture(limits)
        let (client, _) = try fixture.join()
        let small = String(repeating: "s", count: 20), large = String(repeating: "l", count: 60_000)
        let count = 1000
        let writer = try LoopThread(name: "writer") { [descriptor = client.descriptor] in
            var bytes: [UInt8] = []
            for number in 0..<count {
                bytes += RawClient.text("\(number) " + (number % 2 == 0 ? small : large))
                if number % 50 == 49 {
                    RawClient.send(descriptor, bytes)
                    bytes.removeAll()
                }
            }
        }
        for number in 0..<count {
            let text = try client.readFrame().text
            #expect(text.hasPrefix("\(number) ") && text.utf8.count > (number % 2 == 0 ? 20 : 60_000))
        }
        writer.join()
    }

    @Test("resets during a broadcast hurt nobody else, and each is told once, B70")
    func resets() throws {
        let fixture = try LoopFixture()
        var joined: [(RawClient, ConnectionID)] = []
        for _ in 0..<60 { joined.append(try fixture.join()) }
        let ids = joined.map(\.1)
        for (place, member) in joined.enumerated() where place % 2 == 0 { member.0.reset() }
        for round in 0..<20 {
            fixture.perform { loop, _ in Self.broadcast(loop, "round \(round)", to: ids) }
        }
        for (place, member) in joined.enumerated() where place % 2 == 1 {
            for round in 0..<20 { #expect(try member.0.readFrame().text == "round \(round)") }
        }
        let ends = fixture.ends.wait(for: 30)
        #expect(ends.count == 30)
        #expect(ends.allSatisfy { if case .lost = $0 { true } else { false } })
        #expect(fixture.perform { loop, _ in loop.connectionCount } == 30)
    }

    @Test("a turn beyond the arena's size for one turn is split, and nothing is lost")
    func hugeTurn() throws {
        var limits = NetLimits()
        limits.outboundBytes = 512 * 1024 * 1024
        let fixture = try LoopFixture(limits)
        let (client, id) = try fixture.join()
        let size = 50_000
        fixture.perform { loop, _ in
            for number in 0..<400 {
                loop.sendMessage(.binary, to: id, as: .reply) { $0.append([UInt8](repeating: UInt8(number % 251), count: size)) }
                if loop.queuedInTurn > 1_000_000 { loop.flushEarly() }
            }
        }
        for number in 0..<400 { #expect(try client.readFrame().payload == [UInt8](repeating: UInt8(number % 251), count: size)) }
    }
}
