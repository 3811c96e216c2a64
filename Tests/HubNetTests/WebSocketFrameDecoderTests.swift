import HubBase
import HubNet
import Testing

@Suite("frame decoder: what is allowed, RFC 6455 §5")
struct WebSocketFrameDecoderTests {
    @Test("a masked text message is unmasked in place, §5.7")
    func maskedText() {
        let bytes: [UInt8] = [0x81, 0x85, 0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58]
        #expect(decodeEveryWay(bytes) == [.text("Hello")])
    }

    @Test("an unmasked text message of a server, §5.7")
    func unmaskedText() {
        let bytes: [UInt8] = [0x81, 0x05, 0x48, 0x65, 0x6C, 0x6C, 0x6F]
        #expect(decodeEveryWay(bytes, role: .client) == [.text("Hello")])
    }

    @Test("a fragmented text message comes in parts, the kind with the first one, §5.4")
    func fragments() {
        let bytes: [UInt8] = [0x01, 0x03, 0x48, 0x65, 0x6C, 0x80, 0x02, 0x6C, 0x6F]
        #expect(
            decodeEveryWay(bytes, role: .client) == [
                .fragment(.text, Array("Hel".utf8), isFinal: false, compressed: false),
                .fragment(nil, Array("lo".utf8), isFinal: true, compressed: false),
            ])
    }

    @Test("control frames may stand between fragments, §5.4")
    func controlBetweenFragments() {
        let bytes =
            WireFrame(0x02, [1]).bytes + WireFrame(0x89, "p").bytes + WireFrame(0x00, []).bytes + WireFrame(0x8A, "q").bytes
            + WireFrame(0x80, [2]).bytes + WireFrame(0x81, "next").bytes
        #expect(
            decodeEveryWay(bytes) == [
                .fragment(.binary, [1], isFinal: false, compressed: false), .ping([0x70]),
                .fragment(nil, [], isFinal: false, compressed: false), .pong([0x71]),
                .fragment(nil, [2], isFinal: true, compressed: false), .text("next"),
            ])
    }

    @Test("every length around the borders of its three forms, §5.2", arguments: [0, 1, 7, 8, 9, 124, 125, 126, 127, 65535, 65536])
    func lengths(count: Int) {
        let payload = (0..<count).map { UInt8($0 % 251) }
        for key: [UInt8]? in [nil, [0xFF, 0, 0x80, 1]] {
            let bytes = WireFrame(0x82, payload, key: key).bytes
            let role: WebSocketRole = key == nil ? .client : .server
            #expect(decode(bytes, role: role) == [.message(.binary, payload, compressed: false)])
            var single = FrameDriver(role: role)
            for index in bytes.indices { single.receive(bytes[index...index]) }
            #expect(single.events == [.message(.binary, payload, compressed: false)])
        }
    }

    @Test("what is missing is told: the header first, then the whole frame")
    func needMore() {
        let bytes = WireFrame(0x82, [UInt8](repeating: 7, count: 300)).bytes
        let expected = [0: 2, 1: 2, 2: 8, 3: 8, 4: 308, 7: 308, 100: 308, 307: 308]
        for (count, wanted) in expected {
            var driver = FrameDriver()
            driver.receive(bytes[..<count])
            #expect(driver.wanted == wanted, "after \(count) bytes")
        }
    }

    @Test("many frames in one read come out in their order")
    func manyFrames() {
        var bytes: [UInt8] = []
        var expected: [FrameEvent] = []
        for index in 0..<100 {
            bytes += WireFrame(0x81, "message \(index)").bytes
            expected.append(.text("message \(index)"))
        }
        #expect(decode(bytes) == expected)
    }

    @Test("a message of exactly the limit is taken, in one frame and in fragments")
    func exactlyTheLimit() {
        let limits = FrameLimits(messageBytes: 300, fragments: 10)
        let whole = [UInt8](repeating: 0x61, count: 300)
        #expect(decode(WireFrame(0x81, whole).bytes, limits: limits) == [.message(.text, whole, compressed: false)])
        let parts = WireFrame(0x01, Array(whole[..<299])).bytes + WireFrame(0x80, [0x61]).bytes
        #expect(decode(parts, limits: limits).last == .fragment(nil, [0x61], isFinal: true, compressed: false))
    }

    @Test("the state of a connection's decoder stays within 32 bytes")
    func size() { #expect(MemoryLayout<FrameDecoder>.size <= 32) }

    @Test("a message under way is known, so that what was collected is kept")
    func isInMessage() {
        var driver = FrameDriver()
        driver.receive(WireFrame(0x01, "a").bytes[...])
        #expect(driver.decoder.isInMessage)
        driver.receive(WireFrame(0x80, "b").bytes[...])
        #expect(!driver.decoder.isInMessage)
    }

    @Test("limits from a loop's settings: a larger message may have more fragments")
    func limits() {
        let plain = FrameLimits(NetLimits())
        #expect(plain.messageBytes == 65536 && plain.fragments == 1024)
        let echo = FrameLimits(NetLimits(), messageBytes: 16 << 20)
        #expect(echo.messageBytes == 16 << 20 && echo.fragments == 262_144)
        let absurd = FrameLimits(messageBytes: .max, fragments: .max)
        #expect(absurd.messageBytes == 1 << 30 && absurd.fragments == 1 << 30)
        #expect(FrameLimits(messageBytes: -1, fragments: -1).messageBytes == 0)
    }
}
