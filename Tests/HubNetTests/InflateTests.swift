import HubBase
import HubNet
import Testing

@Suite("compressed messages in, RFC 7692 §7.2.2")
struct InflateTests {
    static let hello: [(String, [UInt8])] = [
        ("one block, §7.2.3.1", [0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00]),
        ("a block without compression, §7.2.3.3", [0x00, 0x05, 0x00, 0xFA, 0xFF, 0x48, 0x65, 0x6C, 0x6C, 0x6F, 0x00]),
        ("a final block, §7.2.3.4", [0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x00]),
        ("a final block and nothing after it", [0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00]),
        ("two blocks, §7.2.3.5", [0xF2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xFF, 0xFF, 0xCA, 0xC9, 0xC9, 0x07, 0x00]),
        ("the flush's end left on", [0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x00, 0x00, 0xFF, 0xFF]),
        ("a final block, then one that refers back to it", [0xF3, 0x48, 0xCD, 0x01, 0x00, 0xC2, 0xC9, 0x07, 0x00]),
    ]

    @Test(
        "every way to compress \"Hello\" that the RFC shows arrives as Hello, whole and cut in two at each place",
        arguments: hello.dropLast())
    func vectors(name: String, payload: [UInt8]) throws {
        let fixture = try LoopFixture()
        let (client, _) = try fixture.joinDeflating()
        client.sendCompressed(payload)
        #expect(try client.readFrame() == RawClient.Frame(first: 0x81, payload: Array("Hello".utf8)))
        for cut in 0...payload.count {
            client.send(
                RawClient.frame(0x41, [UInt8](payload[..<cut])) + RawClient.frame(0x89, [7])
                    + RawClient.frame(0x80, [UInt8](payload[cut...])))
            #expect(try client.readFrame() == RawClient.Frame(first: 0x8A, payload: [7]))
            #expect(try client.readFrame().text == "Hello")
        }
    }

    @Test("an empty message is an empty message, with and without its one byte, §7.2.3.6")
    func empty() throws {
        let fixture = try LoopFixture()
        let (client, _) = try fixture.joinDeflating()
        for payload: [UInt8] in [[0x00], [], [0x02, 0x00]] {
            client.sendCompressed(payload)
            #expect(try client.readFrame() == RawClient.Frame(first: 0x81, payload: []))
            client.send(RawClient.frame(0x42, []) + RawClient.frame(0x00, payload) + RawClient.frame(0x80, []))
            #expect(try client.readFrame() == RawClient.Frame(first: 0x82, payload: []))
        }
    }

    static let malformed: [(String, [UInt8])] = [
        ("a reserved block type", [0x06]), ("all ones", [0xFF, 0xFF, 0xFF, 0xFF]), ("text", Array("Hello, this isn't deflate".utf8)),
        ("cut off in a block", [0xF2, 0x48, 0xCD]), ("cut off in a stored block", [0x00, 0x05, 0x00, 0xFA, 0xFF, 0x48, 0x65]),
        ("a stored block's length and its complement differ", [0x00, 0x05, 0x00, 0x00, 0x00, 0x48]),
        ("a distance before the start", [0x02, 0x02, 0x00, 0x00]),
        ("a second Hello without the first", [0xF2, 0x00, 0x11, 0x00, 0x00]),
        ("a final block, then rubbish", [0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x07]),
        ("zlib's header", [0x78, 0x9C, 0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00]),
        ("gzip's header", [0x1F, 0x8B, 0x08, 0, 0, 0, 0, 0, 0, 3]),
    ]

    @Test("what isn't deflate is closed with 1007, and the next connection's messages aren't touched by it", arguments: malformed)
    func rubbish(name: String, payload: [UInt8]) throws {
        let fixture = try LoopFixture()
        let (client, _) = try fixture.joinDeflating()
        let (other, _) = try fixture.joinDeflating()
        client.sendCompressed(payload, 0xC2)
        let close = try client.readFrame()
        #expect(close.opcode == 8 && close.code == 1007)
        #expect(fixture.ends.wait(for: 1) == [.us(code: 1007)])
        #expect(fixture.counters.inflateRefused == 1)
        other.sendCompressed(Self.hello[0].1)
        #expect(try other.readFrame().text == "Hello")
    }

    @Test(
        "compressed text is judged as UTF-8, whole and in fragments, RFC 6455 §8.1",
        arguments: [[0xC3] as [UInt8], [0x61, 0xFF, 0x62], [0xED, 0xA0, 0x80]])
    func notUTF8(text: [UInt8]) throws {
        let fixture = try LoopFixture()
        let payload = DeflatePeer().deflate(text)
        for isWhole in [true, false] {
            let (client, _) = try fixture.joinDeflating()
            if isWhole {
                client.sendCompressed(payload)
            } else {
                client.send(RawClient.frame(0x41, [UInt8](payload.prefix(1))) + RawClient.frame(0x80, [UInt8](payload.dropFirst())))
            }
            #expect(try client.readFrame().code == 1007)
        }
        let (client, _) = try fixture.joinDeflating()
        client.sendCompressed(payload, 0xC2)
        #expect(try client.readFrame().payload == text)
    }

    @Test("exactly the limit is taken, one byte more is closed with 1009, whole and in fragments, B31")
    func limit() throws {
        var limits = NetLimits()
        limits.messageBytes = 10_000
        let fixture = try LoopFixture(limits)
        let peer = DeflatePeer()
        func send(_ client: RawClient, _ payload: [UInt8], _ pieces: Int) {
            if pieces == 1 { return client.sendCompressed(payload, 0xC2) }
            for piece in 0..<pieces {
                let part = payload[(payload.count * piece / pieces)..<(payload.count * (piece + 1) / pieces)]
                client.send(RawClient.frame((piece == 0 ? 0x42 : 0) | (piece == pieces - 1 ? 0x80 : 0), [UInt8](part)))
            }
        }
        for pieces in [1, 3, 50] {
            for makes in [{ (_: Int) in UInt8(0x61) }, { (place: Int) in UInt8(truncatingIfNeeded: place &* place &* 31 >> 3) }] {
                let (client, _) = try fixture.joinDeflating()
                let exact = (0..<10_000).map(makes)
                send(client, peer.deflate(exact), pieces)
                let frame = try client.readFrame()
                #expect(frame.opcode == 2)
                #expect((frame.first & 0x40 == 0 ? frame.payload : peer.inflate(frame.payload)) == exact)
                send(client, peer.deflate((0..<10_001).map(makes)), pieces)
                #expect(try client.readFrame().code == 1009)
            }
        }
        #expect(fixture.counters.inflateRefused == 6)
    }

    @Test("64 KB that would inflate to 64 MB stops at the limit, as one frame and as 100 fragments, B31")
    func bomb() throws {
        let fixture = try LoopFixture()
        let limit = NetLimits().messageBytes
        let bomb = DeflatePeer().deflate([UInt8](repeating: 0, count: 64_000_000))
        #expect(bomb.count < 65_536)
        for pieces in [1, 100] {
            let before = fixture.counters
            let (client, _) = try fixture.joinDeflating()
            for piece in 0..<pieces {
                let part = bomb[(bomb.count * piece / pieces)..<(bomb.count * (piece + 1) / pieces)]
                client.send(RawClient.frame((piece == 0 ? 0x41 : 0) | (piece == pieces - 1 ? 0x80 : 0), [UInt8](part)))
            }
            #expect(try client.readFrame().code == 1009)
            #expect(fixture.counters.inflateBytesOut - before.inflateBytesOut == UInt64(limit + 1))
        }
    }

    @Test("compressed bytes above what any message of the limit needs are refused by the header alone")
    func announcedTooMuch() throws {
        let fixture = try LoopFixture()
        let (client, _) = try fixture.joinDeflating()
        client.send([0xC2, 0xFF, 0, 0, 0, 0, 0, 2, 0, 0, 1, 2, 3, 4])
        #expect(try client.readFrame().code == 1009)
    }

    @Test("many messages of the limit in a few bytes, sent in one go: all arrive in order, and another client is served meanwhile")
    func manyLargeOnes() throws {
        let fixture = try LoopFixture { handler in
            let loop = handler.loop
            handler.onMessage = { bytes, _, id in
                loop.sendMessage(.text, to: id, as: .reply) { $0.append("\(bytes.count) \(bytes[0])".utf8.map { $0 }) }
            }
        }
        let (client, _) = try fixture.joinDeflating()
        let (other, _) = try fixture.join()
        let peer = DeflatePeer()
        let messages = (0..<200).map { number in peer.deflate([UInt8](repeating: UInt8(number), count: 65_536 - number)) }
        client.send(messages.flatMap { RawClient.frame(0xC2, $0) })
        other.sendText("x")
        #expect(try other.readFrame().text == "1 120")
        for number in 0..<200 { #expect(try client.readFrame().text == "\(65_536 - number) \(number)") }
    }

    @Test("a plain message between two compressed ones is taken, and control frames between compressed fragments are, B33")
    func mixed() throws {
        let fixture = try LoopFixture()
        let (client, _) = try fixture.joinDeflating()
        client.sendCompressed(Self.hello[0].1)
        client.sendText("plain")
        client.sendCompressed(Self.hello[0].1)
        for text in ["Hello", "plain", "Hello"] { #expect(try client.readFrame().text == text) }
    }

    static let misplaced: [(String, String?, [UInt8])] = [
        ("nothing agreed", nil, RawClient.frame(0xC1, hello[0].1)),
        ("on a continuation", "permessage-deflate", RawClient.frame(0x41, [0xF2]) + RawClient.frame(0xC0, [0x48])),
        ("on a ping", "permessage-deflate", RawClient.frame(0xC9, [])), ("on a close", "permessage-deflate", RawClient.frame(0xC8, [])),
        ("RSV2", "permessage-deflate", RawClient.frame(0xA1, [])), ("RSV3", "permessage-deflate", RawClient.frame(0x91, [])),
        ("offer declined", "permessage-deflate; server_max_window_bits=8", RawClient.frame(0xC1, hello[0].1)),
    ]

    @Test("RSV1 where it mustn't be is closed with 1002, B33", arguments: misplaced)
    func misplacedBit(name: String, offer: String?, bytes: [UInt8]) throws {
        let fixture = try LoopFixture()
        let client = try offer.map { try fixture.joinDeflating($0).0 } ?? fixture.join().0
        client.send(bytes)
        #expect(try client.readFrame().code == 1002)
    }

    @Test("bytes at random, compressed or not, never take more than the limit, and never harm the next connection")
    func random() throws {
        let fixture = try LoopFixture()
        var chance = Chance(seed: 1951)
        let peer = DeflatePeer()
        for round in 0..<300 {
            let (client, _) = try fixture.joinDeflating()
            var payload = peer.deflate((0..<Int(chance.next() % 3000)).map { _ in UInt8(chance.next() % 7) })
            for _ in 0..<(1 + Int(chance.next() % 4)) where !payload.isEmpty {
                payload[Int(chance.next() % UInt64(payload.count))] ^= UInt8(truncatingIfNeeded: 1 << (chance.next() % 8))
            }
            if round % 3 == 0 { payload = (0..<Int(chance.next() % 200)).map { _ in UInt8(truncatingIfNeeded: chance.next()) } }
            client.sendCompressed(payload, 0xC2)
            let frame = try client.readFrame()
            #expect(frame.opcode == 2 || [1007, 1009].contains(frame.code))
        }
        let (client, _) = try fixture.joinDeflating()
        client.sendCompressed(Self.hello[0].1)
        #expect(try client.readFrame().text == "Hello")
    }
}
