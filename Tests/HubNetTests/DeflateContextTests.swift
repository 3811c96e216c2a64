import HubBase
import HubNet
import Testing

@Suite("contexts that go on from message to message, within a budget, RFC 7692 §7.1.1 and §7.2.3.2")
struct DeflateContextTests {
    private static let chat = "the deploy is done, can you look at this when you have time? I think we should merge it today"

    private func limits(_ budget: Int) -> NetLimits {
        var limits = NetLimits()
        limits.deflate.contexts = ContextBudget(limit: budget)
        limits.deflate.minimumBytes = 32
        return limits
    }

    private func offer(_ fixture: LoopFixture, _ offer: String = "permessage-deflate") throws -> (RawClient, ConnectionID, String?) {
        let before = fixture.opens.all.count
        let client = RawClient(port: fixture.port)
        let agreed = try client.upgrade(offering: offer)
        return (client, fixture.opens.wait(for: before + 1)[before], agreed)
    }

    @Test("until the budget is spent connections own contexts, then they don't, and what one gives back another gets")
    func budget() throws {
        let limits = limits(800_000)
        let fixture = try LoopFixture(limits)
        var owners: [(RawClient, ConnectionID, String?)] = []
        while true {
            let (client, id, agreed) = try offer(fixture)
            guard agreed == "permessage-deflate" else {
                #expect(agreed == "permessage-deflate; server_no_context_takeover; client_no_context_takeover")
                break
            }
            owners.append((client, id, agreed))
            try #require(owners.count < 10)
        }
        #expect(owners.count == 2)
        #expect(limits.deflate.contexts.inUse > 500_000 && limits.deflate.contexts.inUse <= 800_000)
        owners.removeLast()
        fixture.ends.wait(for: 2)
        let next = try offer(fixture)
        #expect(next.2 == "permessage-deflate")
        owners.append(next)
        let declining = try offer(fixture, "permessage-deflate; server_no_context_takeover; client_no_context_takeover")
        #expect(declining.2 == "permessage-deflate; server_no_context_takeover; client_no_context_takeover")
        fixture.stop()
        #expect(limits.deflate.contexts.inUse == 0)
    }

    @Test("messages refer to those before them, both ways, and plain ones between them change nothing, B33")
    func takesOver() throws {
        let fixture = try LoopFixture(limits(10_000_000))
        let (client, id, _) = try offer(fixture)
        let peer = DeflatePeer()
        var sizes: [Int] = []
        for number in 0..<6 {
            let text = "\(number): \(Self.chat)"
            client.sendCompressed(peer.deflate([UInt8](text.utf8), takesOver: true))
            let frame = try client.readFrame()
            #expect(frame.first == 0xC1)
            #expect(peer.inflate(frame.payload, takesOver: true) == [UInt8](text.utf8))
            sizes.append(frame.payload.count)
            client.sendText("short")
            #expect(try client.readFrame() == RawClient.Frame(first: 0x81, payload: Array("short".utf8)))
        }
        #expect(sizes.dropFirst().allSatisfy { $0 < sizes[0] / 3 })
        fixture.perform { loop, _ in #expect(loop.isOpen(id)) }
    }

    @Test("a second Hello is f2 00 11 00 00, §7.2.3.2")
    func secondHello() throws {
        let fixture = try LoopFixture(limits(10_000_000))
        let (client, _, _) = try offer(fixture)
        client.sendCompressed([0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00])
        client.sendCompressed([0xF2, 0x00, 0x11, 0x00, 0x00])
        client.sendCompressed([0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x00])
        client.sendCompressed([0xF2, 0x00, 0x11, 0x00, 0x00])
        for _ in 0..<4 { #expect(try client.readFrame().text == "Hello") }
    }

    @Test("a broadcast to owners is compressed for each, in its own order, beside the shared form of the others")
    func broadcast() throws {
        let fixture = try LoopFixture(limits(10_000_000))
        let owners = try (0..<5).map { _ in try offer(fixture) }
        let sharers = try (0..<5).map { _ in
            try offer(fixture, "permessage-deflate; server_no_context_takeover; client_no_context_takeover")
        }
        let plain = try fixture.join()
        let ids = zip(owners, sharers).flatMap { [$0.1, plain.1, $1.1, $0.1] }
        let before = fixture.counters
        fixture.perform { loop, _ in
            for number in 0..<3 {
                let frame = loop.makeFrame(.text) { $0.append([UInt8]("\(number): \(Self.chat)".utf8)) }
                ids.map(\.index).withUnsafeBufferPointer { loop.broadcast(frame, to: $0, as: .publication) }
            }
        }
        for (client, _, _) in owners {
            let peer = DeflatePeer()
            for number in 0..<6 {
                #expect(peer.inflate(try client.readFrame().payload, takesOver: true) == [UInt8]("\(number / 2): \(Self.chat)".utf8))
            }
        }
        for (client, _, _) in sharers {
            for number in 0..<3 {
                #expect(DeflatePeer().inflate(try client.readFrame().payload) == [UInt8]("\(number): \(Self.chat)".utf8))
            }
        }
        for number in 0..<15 { #expect(try plain.0.readFrame().text == "\(number / 5): \(Self.chat)") }
        #expect(fixture.counters.deflated - before.deflated == 3 * (10 + 1))
    }

    @Test("what can't be compressed goes out as it is, and what follows still inflates")
    func incompressible() throws {
        let fixture = try LoopFixture(limits(10_000_000))
        let (client, id, _) = try offer(fixture)
        var chance = Chance(seed: 3)
        let noise = (0..<5000).map { _ in UInt8(truncatingIfNeeded: chance.next() >> 13) }
        let text = [UInt8](Self.chat.utf8)
        fixture.perform { loop, _ in
            for message in [text, noise, text, text] { loop.sendMessage(.binary, to: id, as: .reply) { $0.append(message) } }
        }
        let peer = DeflatePeer()
        #expect(peer.inflate(try client.readFrame().payload, takesOver: true) == text)
        #expect(try client.readFrame() == RawClient.Frame(first: 0x82, payload: noise))
        for _ in 0..<2 { #expect(peer.inflate(try client.readFrame().payload, takesOver: true) == text) }
    }

    @Test("a small window either way is kept by contexts too, and costs less of the budget")
    func smallWindows() throws {
        let limits = limits(10_000_000)
        let fixture = try LoopFixture(limits)
        let (client, _, agreed) = try offer(fixture, "permessage-deflate; server_max_window_bits=9; client_max_window_bits=9")
        #expect(agreed == "permessage-deflate; server_max_window_bits=9; client_max_window_bits=9")
        #expect(limits.deflate.contexts.inUse < 160_000)
        let peer = DeflatePeer(windowBits: 9)
        for number in 0..<20 {
            let text = [UInt8]("\(number): \(Self.chat)\(Self.chat)".utf8)
            client.sendCompressed(peer.deflate(text, takesOver: true))
            #expect(peer.inflate(try client.readFrame().payload, takesOver: true) == text)
        }
    }
}
