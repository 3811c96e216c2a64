import HubBase
import HubNet
import Testing

/// Bytes that a server must refuse, and how.
struct FrameFault: CustomTestStringConvertible, Sendable {
    var name: String
    var bytes: [UInt8]
    var code: UInt16
    var allowsCompression = false
    var testDescription: String { name }
}

@Suite("frame decoder: what is refused, RFC 6455 §5, §7")
struct WebSocketFrameFaultTests {
    static let key: [UInt8] = [0x01, 0x02, 0x03, 0x04]

    static let reserved: [FrameFault] = [
        FrameFault(name: "RSV1 without an extension", bytes: [0xC1, 0x80] + key, code: 1002),
        FrameFault(name: "RSV2", bytes: [0xA1, 0x80] + key, code: 1002, allowsCompression: true),
        FrameFault(name: "RSV3", bytes: [0x91, 0x80] + key, code: 1002, allowsCompression: true),
        FrameFault(name: "all of RSV", bytes: [0xF1, 0x80] + key, code: 1002, allowsCompression: true),
        FrameFault(
            name: "RSV1 on a continuation of a plain message", bytes: WireFrame(0x01, "a").bytes + [0xC0, 0x80] + key, code: 1002,
            allowsCompression: true),
        FrameFault(
            name: "RSV1 on a continuation of a compressed message", bytes: WireFrame(0x41, "a").bytes + [0xC0, 0x80] + key, code: 1002,
            allowsCompression: true),
        FrameFault(name: "RSV1 on a ping", bytes: [0xC9, 0x80] + key, code: 1002, allowsCompression: true),
        FrameFault(name: "RSV1 on a pong", bytes: [0xCA, 0x80] + key, code: 1002, allowsCompression: true),
        FrameFault(name: "RSV1 on a close", bytes: [0xC8, 0x80] + key, code: 1002, allowsCompression: true),
        FrameFault(name: "RSV2 on a continuation", bytes: WireFrame(0x01, "a").bytes + [0xA0, 0x80] + key, code: 1002),
    ]

    static let opcodes: [FrameFault] = [0x3, 0x4, 0x5, 0x6, 0x7, 0xB, 0xC, 0xD, 0xE, 0xF].map {
        FrameFault(name: "opcode \($0)", bytes: [0x80 | $0, 0x80] + key, code: 1002)
    }

    static let sequence: [FrameFault] = [
        FrameFault(name: "a final continuation without a message", bytes: [0x80, 0x80] + key, code: 1002),
        FrameFault(name: "a continuation without a message", bytes: [0x00, 0x80] + key, code: 1002),
        FrameFault(name: "a continuation after a whole message", bytes: WireFrame(0x81, "a").bytes + [0x80, 0x80] + key, code: 1002),
        FrameFault(name: "text inside a text", bytes: WireFrame(0x01, "a").bytes + [0x81, 0x80] + key, code: 1002),
        FrameFault(name: "binary inside a text", bytes: WireFrame(0x01, "a").bytes + [0x02, 0x80] + key, code: 1002),
        FrameFault(name: "a fragmented ping", bytes: [0x09, 0x80] + key, code: 1002),
        FrameFault(name: "a fragmented pong", bytes: [0x0A, 0x80] + key, code: 1002),
        FrameFault(name: "a fragmented close", bytes: [0x08, 0x80] + key, code: 1002),
        FrameFault(name: "an unmasked frame", bytes: [0x81, 0x00], code: 1002),
        FrameFault(name: "an unmasked ping", bytes: [0x89, 0x00], code: 1002),
        FrameFault(name: "a ping of 126 bytes", bytes: [0x89, 0xFE, 0x00, 0x7E] + key, code: 1002),
        FrameFault(name: "a close of 126 bytes", bytes: [0x88, 0xFE, 0x00, 0x7E] + key, code: 1002),
        FrameFault(name: "a pong with a 64-bit length", bytes: [0x8A, 0xFF, 0, 0, 0, 0, 0, 1, 0, 0] + key, code: 1002),
    ]

    static let lengths: [FrameFault] = [
        FrameFault(name: "2^63 - 1", bytes: [0x82, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF] + key, code: 1009),
        FrameFault(name: "2^63", bytes: [0x82, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0] + key, code: 1002),
        FrameFault(name: "2^64 - 1", bytes: [0x82, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF] + key, code: 1002),
        FrameFault(name: "2^64 - 4", bytes: [0x82, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFC] + key, code: 1002),
        FrameFault(name: "2^32", bytes: [0x82, 0xFF, 0, 0, 0, 1, 0, 0, 0, 0] + key, code: 1009),
        FrameFault(name: "one byte over the limit", bytes: [0x82, 0xFF, 0, 0, 0, 0, 0, 1, 0, 1] + key, code: 1009),
        FrameFault(name: "0 in 16 bits", bytes: [0x82, 0xFE, 0, 0] + key, code: 1002),
        FrameFault(name: "125 in 16 bits", bytes: [0x82, 0xFE, 0, 125] + key, code: 1002),
        FrameFault(name: "0 in 64 bits", bytes: [0x82, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0] + key, code: 1002),
        FrameFault(name: "65535 in 64 bits", bytes: [0x82, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF] + key, code: 1002),
    ]

    @Test("RSV bits fail with 1002 wherever no extension gave them a meaning, §5.2, B33", arguments: reserved)
    func reservedBits(fault: FrameFault) { expectFailure(fault) }

    @Test("reserved opcodes fail with 1002, §5.2", arguments: opcodes)
    func reservedOpcodes(fault: FrameFault) { expectFailure(fault) }

    @Test("frames out of their order or form fail with 1002, §5.1, §5.4, §5.5", arguments: sequence)
    func outOfOrder(fault: FrameFault) { expectFailure(fault) }

    @Test("hostile lengths fail from the header alone, B35", arguments: lengths)
    func hostileLengths(fault: FrameFault) {
        expectFailure(fault)
        // After a valid fragment, as a continuation.
        var later = fault
        later.bytes[0] = 0x80
        later.bytes = WireFrame(0x02, [1]).bytes + later.bytes
        expectFailure(later)
        // The same from a server, unmasked, where the mask bit isn't what fails.
        var bytes = Array(fault.bytes.dropLast(4))
        bytes[1] &= 0x7F
        #expect(decodeEveryWay(bytes, role: .client)?.last?.failureCode == fault.code)
    }

    @Test("a masked frame of a server fails with 1002, §5.1")
    func maskedServerFrame() {
        #expect(decodeEveryWay([0x81, 0x80, 1, 2, 3, 4], role: .client)?.last?.failureCode == 1002)
    }

    @Test("a fault is told by the first byte that holds it")
    func promptly() {
        for (bytes, code): ([UInt8], UInt16) in [([0x83], 1002), ([0x80], 1002), ([0xC1], 1002), ([0x09], 1002), ([0x81, 0x05], 1002)] {
            #expect(decode(bytes).last?.failureCode == code)
        }
    }

    @Test("a sum of fragments over the limit fails with 1009 from the header alone")
    func sumOfFragments() {
        let limits = FrameLimits(messageBytes: 100, fragments: 10)
        let bytes = WireFrame(0x02, [UInt8](repeating: 0, count: 60)).bytes + [0x80, 0x80 | 41] + Self.key
        #expect(decodeEveryWay(bytes, limits: limits)?.last?.failureCode == 1009)
    }

    @Test("fragments are counted, empty ones and single bytes alike: 1008 at the limit, B39", arguments: [[], [0x61]] as [[UInt8]])
    func fragmentCount(part: [UInt8]) {
        var driver = FrameDriver(limits: FrameLimits(messageBytes: 64 * 1024, fragments: 1000))
        driver.receive(WireFrame(0x01, "a").bytes[...])
        let continuation = WireFrame(0x00, part).bytes
        for _ in 0..<200_000 where driver.events.last?.failureCode == nil { driver.receive(continuation[...]) }
        #expect(driver.events.count == 1001)
        #expect(driver.events.last?.failureCode == 1008)
    }

    @Test("as many fragments as the limit are a message; the next one counts anew")
    func fragmentsAtTheLimit() {
        var driver = FrameDriver(limits: FrameLimits(messageBytes: 1000, fragments: 3))
        for _ in 0..<5 {
            for first: UInt8 in [0x01, 0x00, 0x80] { driver.receive(WireFrame(first, "x").bytes[...]) }
        }
        #expect(driver.events.count == 15)
        #expect(driver.events.allSatisfy { $0.failureCode == nil })
    }

    @Test("the next message's bytes are counted anew")
    func bytesAnew() {
        var driver = FrameDriver(limits: FrameLimits(messageBytes: 100, fragments: 10))
        for _ in 0..<5 {
            driver.receive(WireFrame(0x02, [UInt8](repeating: 1, count: 60)).bytes[...])
            driver.receive(WireFrame(0x80, [UInt8](repeating: 1, count: 40)).bytes[...])
        }
        #expect(driver.events.count == 10)
        #expect(driver.events.allSatisfy { $0.failureCode == nil })
    }

    @Test("nothing is looked at after a failure or a close frame, §7.1.6")
    func over() {
        var failed = FrameDriver()
        failed.receive([0x83] + WireFrame(0x81, "later").bytes[...])
        failed.receive(WireFrame(0x81, "later").bytes[...])
        #expect(failed.events.count == 1)
        #expect(failed.wanted == 0)
        var closed = FrameDriver()
        closed.receive((WireFrame(0x88, [0x03, 0xE8]).bytes + WireFrame(0x81, "later").bytes)[...])
        #expect(closed.events == [.close(1000, [])])
        #expect(closed.wanted == 0)
    }

    @Test("limits that were lowered in mid-message are a fault, not a trap")
    func loweredLimits() {
        var driver = FrameDriver(limits: FrameLimits(messageBytes: 1000, fragments: 10))
        driver.receive(WireFrame(0x02, [UInt8](repeating: 1, count: 900)).bytes[...])
        driver.limits = FrameLimits(messageBytes: 10, fragments: 10)
        driver.receive(WireFrame(0x80, [1]).bytes[...])
        #expect(driver.events.last?.failureCode == 1009)
    }

    private func expectFailure(_ fault: FrameFault) {
        let events = decodeEveryWay(fault.bytes, allowsCompression: fault.allowsCompression)
        #expect(events?.last?.failureCode == fault.code, "\(events.map { "\($0)" } ?? "different when cut differently")")
        // Whatever follows changes nothing.
        let followed = decode(fault.bytes + [UInt8](repeating: 0xFF, count: 64), allowsCompression: fault.allowsCompression)
        #expect(followed == events)
    }
}
