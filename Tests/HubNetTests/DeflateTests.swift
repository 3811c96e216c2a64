import HubBase
import HubNet
import Testing

@Suite("compressed messages out, RFC 7692 §7.2.1")
struct DeflateTests {
    static let chat = String(repeating: #"{"type":"chat","channel":"room:42","payload":{"text":"the deploy is done"}}"#, count: 12)

    private static func broadcast(_ loop: NetLoop, _ text: String, to ids: [ConnectionID]) {
        let frame = loop.makeFrame(.text) { $0.append([UInt8](text.utf8)) }
        ids.map(\.index).withUnsafeBufferPointer { loop.broadcast(frame, to: $0, as: .publication) }
    }

    /// The message of a frame, which must be as short as its form promises.
    private func text(_ frame: RawClient.Frame, windowBits: Int32 = 15) -> String? {
        if frame.first == 0x81 { return frame.text }
        guard frame.first == 0xC1 else { return nil }
        return DeflatePeer(windowBits: windowBits).inflate(frame.payload).map { String(decoding: $0, as: UTF8.self) }
    }

    @Test("a broadcast is compressed once for each window in use, however many get it, and in whatever order they stand, B28")
    func once() throws {
        let fixture = try LoopFixture()
        var members: [(client: RawClient, id: ConnectionID, windowBits: Int32?)] = []
        for number in 0..<60 {
            let offers: [(String?, Int32?)] = [
                (nil, nil), ("permessage-deflate", 15), ("permessage-deflate; server_max_window_bits=9", 9),
                ("permessage-deflate; server_max_window_bits=12", 12), ("permessage-deflate; server_max_window_bits=8", nil),
            ]
            let (offer, windowBits) = offers[number * 7 % 5]
            let (client, id) = try offer.map { try fixture.joinDeflating($0) } ?? fixture.join()
            members.append((client, id, windowBits))
        }
        let ids = members.map(\.id)
        let before = fixture.counters
        fixture.perform { loop, _ in
            for number in 0..<4 { Self.broadcast(loop, "\(number) \(Self.chat)", to: ids) }
        }
        for member in members {
            for number in 0..<4 {
                let frame = try member.client.readFrame()
                #expect((frame.first == 0xC1) == (member.windowBits != nil))
                #expect(text(frame, windowBits: member.windowBits ?? 15) == "\(number) \(Self.chat)")
                if member.windowBits != nil { #expect(frame.payload.count < Self.chat.utf8.count / 5) }
            }
        }
        let after = fixture.counters
        #expect(after.deflated - before.deflated == 4 * 3)
        #expect(after.writes - before.writes == 60)
        #expect(after.framesOut - before.framesOut == 240)
        #expect(after.deflateBytesOut - before.deflateBytesOut < (after.deflateBytesIn - before.deflateBytesIn) / 5)
    }

    @Test("a frame that is sent to one after the other, and in pieces of a list, is compressed once")
    func onceBySend() throws {
        let fixture = try LoopFixture()
        let members = try (0..<10).map { _ in try fixture.joinDeflating() }
        let ids = members.map(\.1)
        let before = fixture.counters.deflated
        fixture.perform { loop, _ in
            let first = loop.makeFrame(.text) { $0.append([UInt8]("1 \(Self.chat)".utf8)) }
            let second = loop.makeFrame(.text) { $0.append([UInt8]("2 \(Self.chat)".utf8)) }
            for id in ids {
                loop.send(second, to: id, as: .system)
                loop.send(first, to: id, as: .system)
            }
            ids[..<5].map(\.index).withUnsafeBufferPointer { loop.broadcast(second, to: $0, as: .publication) }
            ids[5...].map(\.index).withUnsafeBufferPointer { loop.broadcast(second, to: $0, as: .publication) }
        }
        for (client, _) in members {
            for number in [2, 1, 2] { #expect(text(try client.readFrame()) == "\(number) \(Self.chat)") }
        }
        #expect(fixture.counters.deflated - before == 2)
    }

    @Test("compressed, plain and control frames of one turn leave in one write, in order")
    func oneWrite() throws {
        let fixture = try LoopFixture()
        let (client, id) = try fixture.joinDeflating()
        let before = fixture.counters
        fixture.perform { loop, _ in
            for number in 0..<30 {
                Self.broadcast(loop, "\(number) \(Self.chat)", to: [id])
                loop.sendMessage(.text, to: id, as: .reply) { $0.append([UInt8]("ack \(number)".utf8)) }
                loop.sendMessage(.text, to: id, as: .reply) { $0.append([UInt8]("reply \(number) \(Self.chat)\(Self.chat)".utf8)) }
                loop.ping(id)
            }
        }
        for number in 0..<30 {
            #expect(text(try client.readFrame()) == "\(number) \(Self.chat)")
            #expect(try client.readFrame().text == "ack \(number)")
            let reply = try client.readFrame()
            #expect(reply.first == 0xC1 && text(reply) == "reply \(number) \(Self.chat)\(Self.chat)")
            #expect(try client.readFrame().first == 0x89)
        }
        #expect(fixture.counters.writes - before.writes == 1)
    }

    @Test("short messages, and what can't be compressed, go out as they are; the frames around them aren't touched by it")
    func asTheyAre() throws {
        var limits = NetLimits()
        limits.deflate.minimumBytes = 64
        let fixture = try LoopFixture(limits)
        let (client, id) = try fixture.joinDeflating()
        var chance = Chance(seed: 99)
        let noise = (0..<5000).map { _ in UInt8(truncatingIfNeeded: chance.next() >> 11) }
        fixture.perform { loop, _ in
            for count in [10, 63, 64, 2000] {
                let frame = loop.makeFrame(.binary) { $0.append([UInt8](repeating: 0x61, count: count)) }
                loop.send(frame, to: id, as: .publication)
                let rough = loop.makeFrame(.binary) { $0.append(noise) }
                loop.send(rough, to: id, as: .publication)
            }
            loop.sendMessage(.binary, to: id, as: .reply) { $0.append(noise) }
            loop.sendMessage(.binary, to: id, as: .reply) { $0.append([UInt8](repeating: 0x62, count: 1000)) }
        }
        for (count, first) in [(10, 0x82), (63, 0x82), (64, 0xC2), (2000, 0xC2)] as [(Int, UInt8)] {
            let frame = try client.readFrame()
            #expect(frame.first == first)
            let bytes = first == 0xC2 ? DeflatePeer().inflate(frame.payload) : frame.payload
            #expect(bytes == [UInt8](repeating: 0x61, count: count))
            #expect(try client.readFrame() == RawClient.Frame(first: 0x82, payload: noise))
        }
        #expect(try client.readFrame() == RawClient.Frame(first: 0x82, payload: noise))
        #expect(try DeflatePeer().inflate(client.readFrame().payload) == [UInt8](repeating: 0x62, count: 1000))
    }

    @Test("every compressed length around the header's borders arrives as it was, several in a turn")
    func headerBorders() throws {
        var limits = NetLimits()
        limits.deflate.minimumBytes = 0
        let fixture = try LoopFixture(limits)
        let (client, id) = try fixture.joinDeflating()
        var chance = Chance(seed: 6455)
        // Of 64 characters a byte holds six bits: what's compressed is about three quarters; of 16 about half and the code's description.
        let large = [1000, 82_000, 84_000, 86_000, 87_000, 87_500, 88_000, 120_000].map { ($0, UInt64(64)) }
        let small = stride(from: 130, through: 260, by: 5).map { ($0, UInt64(16)) }
        let messages = (small + large + small).map { count, letters in (0..<count).map { _ in UInt8(0x30 + chance.next() % letters) } }
        fixture.perform { loop, _ in
            for message in messages { loop.send(loop.makeFrame(.binary) { $0.append(message) }, to: id, as: .publication) }
        }
        var lengths: [Int] = []
        for message in messages {
            let frame = try client.readFrame()
            #expect(frame.first == 0xC2 && DeflatePeer().inflate(frame.payload) == message)
            lengths.append(frame.payload.count)
        }
        #expect(lengths.contains { $0 < 126 } && lengths.contains { 126...65_535 ~= $0 } && lengths.contains { $0 > 65_535 })
    }

    @Test("a window of 2^9 is kept: what repeats at a distance above 512 inflates in an inflater that has no more, B30")
    func strictWindow() throws {
        let fixture = try LoopFixture()
        var chance = Chance(seed: 9)
        let block = (0..<700).map { _ in UInt8(0x20 + chance.next() % 64) }
        let message = block + block + block
        for bits in 9...15 {
            let (client, id) = try fixture.joinDeflating("permessage-deflate; server_max_window_bits=\(bits)")
            fixture.perform { loop, _ in
                loop.send(loop.makeFrame(.binary) { $0.append(message) }, to: id, as: .publication)
                loop.sendMessage(.binary, to: id, as: .reply) { $0.append(message) }
            }
            for _ in 0..<2 {
                let frame = try client.readFrame()
                #expect(frame.first == 0xC2 && DeflatePeer(windowBits: Int32(bits)).inflate(frame.payload) == message)
                // With 2^15 it's found again at a distance of 700: this test can fail.
                #expect((frame.payload.count < 900) == (bits >= 10))
                if bits == 15 { #expect(DeflatePeer(windowBits: 9).inflate(frame.payload) == nil) }
            }
        }
    }

    @Test("a slow reader of compressed frames is cut between two of them")
    func slowReader() throws {
        var limits = NetLimits()
        limits.outboundBytes = 64 * 1024
        limits.ping = .seconds(600)
        let fixture = try LoopFixture(limits)
        let (slow, id) = try fixture.joinDeflating(receiveBuffer: 4096)
        var chance = Chance(seed: 4008)
        let noise = (0..<30_000).map { _ in UInt8(0x30 + chance.next() % 64) }
        for round in 0..<4000 {
            let isOpen = fixture.perform { loop, _ in
                let frame = loop.makeFrame(.text) { $0.append([UInt8]("\(round) ".utf8) + noise) }
                [id.index].withUnsafeBufferPointer { loop.broadcast(frame, to: $0, as: .publication) }
                return loop.isOpen(id)
            }
            if !isOpen { break }
        }
        #expect(fixture.counters.closedTooSlow == 1)
        var expected = 0
        while true {
            let frame = try slow.readFrame()
            if frame.opcode == 8 {
                #expect(frame.code == 4008)
                break
            }
            #expect(DeflatePeer().inflate(frame.payload) == [UInt8]("\(expected) ".utf8) + noise)
            expected += 1
        }
        #expect(expected > 0)
    }

    @Test("a connection that may receive larger messages is answered with as large ones, beyond the queue's limit for others")
    func largeAnswer() throws {
        var limits = NetLimits()
        limits.outboundBytes = 64 * 1024
        let fixture = try LoopFixture(limits) { handler in
            let loop = handler.loop
            handler.onOpened = { loop.allow($0, messageBytes: 16 * 1024 * 1024) }
        }
        let client = RawClient(port: fixture.port, receiveBuffer: 4096)
        try client.upgrade()
        let message = [UInt8](repeating: 0x7A, count: 16 * 1024 * 1024)
        client.send(RawClient.frame(0x82, message))
        #expect(try client.readFrame() == RawClient.Frame(first: 0x82, payload: message))
        client.send(RawClient.frame(0x82, message + [0]))
        #expect(try client.readFrame().code == 1009)
    }
}
