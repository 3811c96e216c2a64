import HubBase
import HubNet
import Testing

@Suite("frame decoder: text and close frames, RFC 6455 §5.5.1, §5.6, §7.4, §8.1")
struct WebSocketTextTests {
    static let valid = [
        "", "Hello-µ@ßöäüàá-UTF-8!!", "κόσμε", "\u{0}\u{7F}\u{80}\u{7FF}\u{800}\u{FFFF}", "\u{D7FF}\u{E000}\u{FFFD}", "\u{10000}\u{10FFFF}",
        "👋🏽 мир 世界",
    ]

    @Test("text with every kind of character is taken, wherever it's cut", arguments: valid)
    func validText(text: String) {
        #expect(decodeEveryWay(WireFrame(0x81, text).bytes) == [.text(text)])
        // And in fragments at every byte: a character may be cut by one.
        let payload = Array(text.utf8)
        for cut in 0...payload.count {
            let bytes = WireFrame(0x01, Array(payload[..<cut])).bytes + WireFrame(0x80, Array(payload[cut...])).bytes
            let events = decode(bytes)
            #expect(events.count == 2 && events.last?.failureCode == nil)
        }
    }

    static let invalid: [[UInt8]] = [
        [0x80], [0xBF], [0xC0, 0xAF], [0xC1, 0xBF], [0xC2], [0xC2, 0x41], [0xE0, 0x80, 0xAF], [0xE0, 0x9F, 0xBF], [0xED, 0xA0, 0x80],
        [0xED, 0xBF, 0xBF], [0xF0, 0x80, 0x80, 0x80], [0xF0, 0x8F, 0xBF, 0xBF], [0xF4, 0x90, 0x80, 0x80], [0xF5, 0x80, 0x80, 0x80], [0xFE],
        [0xFF],
        [0xF0, 0x9F, 0x98], [0x41, 0x42, 0xFF, 0x43],
    ]

    @Test("invalid UTF-8 fails with 1007, wherever it's cut, §8.1", arguments: invalid)
    func invalidText(payload: [UInt8]) {
        #expect(decodeEveryWay(WireFrame(0x81, payload).bytes)?.last?.failureCode == 1007)
        for cut in 0...payload.count {
            let bytes = WireFrame(0x01, Array(payload[..<cut])).bytes + WireFrame(0x80, Array(payload[cut...])).bytes
            #expect(decode(bytes).last?.failureCode == 1007)
        }
        // Binary isn't looked at.
        #expect(decode(WireFrame(0x82, payload).bytes) == [.message(.binary, payload, compressed: false)])
    }

    @Test("a bad byte is found when it comes, not when the frame is complete")
    func failsFast() {
        var driver = FrameDriver()
        let bytes = WireFrame(0x81, [0xCE, 0xBA, 0xF4, 0x90] + [UInt8](repeating: 0x61, count: 1000)).bytes
        driver.receive(bytes[..<11])
        #expect(driver.events.isEmpty)
        driver.receive(bytes[11..<12])
        #expect(driver.events.last?.failureCode == 1007)
    }

    @Test("a bad byte in a fragment is found before the message ends")
    func failsFastInFragments() {
        #expect(decode(WireFrame(0x01, [0x61, 0xFF]).bytes).last?.failureCode == 1007)
    }

    @Test("what an earlier message left open doesn't reach the next one")
    func startsAnew() {
        let bytes = WireFrame(0x02, [0xC3]).bytes + WireFrame(0x80, [0xC3]).bytes + WireFrame(0x81, "a").bytes
        #expect(decodeEveryWay(bytes)?.last == .text("a"))
    }

    @Test("compressed text is left to the inflater; every part says that it's compressed, RFC 7692 §6.2")
    func compressedText() {
        let bytes =
            WireFrame(0xC1, [0xFF, 0xFE]).bytes + WireFrame(0x41, [0xFF]).bytes + WireFrame(0x89, []).bytes + WireFrame(0x80, [0xFE]).bytes
            + WireFrame(0x81, "plain").bytes + WireFrame(0xC2, [1]).bytes
        #expect(
            decodeEveryWay(bytes, allowsCompression: true) == [
                .message(.text, [0xFF, 0xFE], compressed: true), .fragment(.text, [0xFF], isFinal: false, compressed: true), .ping([]),
                .fragment(nil, [0xFE], isFinal: true, compressed: true), .text("plain"), .message(.binary, [1], compressed: true),
            ])
    }

    @Test("a close frame's code and reason come out")
    func close() {
        #expect(decodeEveryWay([0x88, 0x80, 1, 2, 3, 4]) == [.close(nil, [])])
        #expect(decodeEveryWay(WireFrame(0x88, [0x03, 0xE8]).bytes) == [.close(1000, [])])
        #expect(decodeEveryWay(WireFrame(0x88, [0x0F, 0xA1] + Array("späť".utf8)).bytes) == [.close(4001, Array("späť".utf8))])
        #expect(decodeEveryWay(WireFrame(0x01, "a").bytes + WireFrame(0x88, []).bytes)?.last == .close(nil, []))
    }

    @Test("codes that may travel do, all others fail with 1002, §7.4")
    func closeCodes() {
        for code in UInt16.min...UInt16.max {
            let payload = [UInt8(code >> 8), UInt8(code & 0xFF)]
            let mayTravel = (1000...1003).contains(code) || (1007...1014).contains(code) || (3000...4999).contains(code)
            let event = decode(WireFrame(0x88, payload).bytes).last
            if mayTravel ? event != .close(code, []) : event?.failureCode != 1002 { Issue.record("close code \(code): \(event as Any)") }
        }
    }

    @Test("half a code fails with 1002, a reason that isn't UTF-8 with 1007, §5.5.1, §8.1")
    func closeFaults() {
        #expect(decodeEveryWay(WireFrame(0x88, [0x03]).bytes)?.last?.failureCode == 1002)
        #expect(decodeEveryWay(WireFrame(0x88, [0x03, 0xE8, 0xCE]).bytes)?.last?.failureCode == 1007)
        #expect(
            decodeEveryWay(WireFrame(0x88, [0x03, 0xE8] + [UInt8](repeating: 0x2A, count: 123)).bytes)?.last
                == .close(1000, [UInt8](repeating: 0x2A, count: 123)))
    }
}
