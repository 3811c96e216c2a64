import HubBase
import HubNet
import Testing

@Suite("frame encoder, RFC 6455 §5.2")
struct WebSocketFrameEncoderTests {
    @Test("a header is as short as its length allows", arguments: [0, 1, 125, 126, 65535, 65536, 1 << 24])
    func headers(count: Int) {
        for key: [UInt8]? in [nil, [0x37, 0xFA, 0x21, 0x3D]] {
            // The header alone: the twin's first bytes up to the payload.
            let twin = WireFrame(0x81, [UInt8](repeating: 0, count: count), key: key).bytes
            let expected = Array(twin.dropLast(count))
            var place = [UInt8](repeating: 0xEE, count: FrameEncoder.headerBytesMax)
            let length = place.withUnsafeMutableBytes { bytes in
                FrameEncoder.writeHeader(
                    before: bytes.baseAddress! + bytes.count, .text, payloadBytes: count, maskingKey: key.map(native))
            }
            #expect(Array(place.suffix(length)) == expected)
        }
    }

    @Test("RSV1 says that the message is compressed, RFC 7692 §6.1")
    func compressed() {
        var place = [UInt8](repeating: 0, count: 14)
        let length = place.withUnsafeMutableBytes {
            FrameEncoder.writeHeader(before: $0.baseAddress! + 14, .binary, payloadBytes: 3, compressed: true)
        }
        #expect(Array(place.suffix(length)) == [0xC2, 0x03])
    }

    @Test("a ping or pong carries its payload")
    func control() {
        #expect(control(.ping, "Hello", nil) == [0x89, 0x05, 0x48, 0x65, 0x6C, 0x6C, 0x6F])
        #expect(control(.pong, "Hello", [0x37, 0xFA, 0x21, 0x3D]) == [0x8A, 0x85, 0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58])
        #expect(control(.ping, "", nil) == [0x89, 0x00])
    }

    @Test("a close frame carries code and reason, or neither")
    func close() {
        #expect(close(1001, "bye", nil) == [0x88, 0x05, 0x03, 0xE9, 0x62, 0x79, 0x65])
        #expect(close(nil, "ignored", nil) == [0x88, 0x00])
        #expect(decode(close(4008, "slow", [1, 2, 3, 4])) == [.close(4008, Array("slow".utf8))])
    }

    @Test("a reason is cut to 123 bytes, at a character's border, §5.5")
    func longReason() {
        #expect(close(1000, String(repeating: "x", count: 200), nil).count == 2 + 125)
        // 41 characters of three bytes are 123; with one byte in front the last one doesn't fit.
        #expect(close(1000, String(repeating: "世", count: 50), nil).count == 2 + 125)
        let cut = close(1000, "x" + String(repeating: "世", count: 50), nil)
        #expect(cut.count == 2 + 2 + 1 + 40 * 3)
        #expect(cut.withUnsafeBytes { UTF8Check.isValid(UnsafeRawBufferPointer(rebasing: $0[4...])) })
    }

    private func native(_ key: [UInt8]) -> UInt32 { key.withUnsafeBytes { $0.loadUnaligned(as: UInt32.self) } }

    private func control(_ opcode: Opcode, _ text: String, _ key: [UInt8]?) -> [UInt8] {
        var out = ByteBuffer(capacity: 16)
        Array(text.utf8).withUnsafeBytes { FrameEncoder.appendControl(opcode, $0, maskingKey: key.map(native), into: &out) }
        return out.copyBytes()
    }

    private func close(_ code: UInt16?, _ reason: String, _ key: [UInt8]?) -> [UInt8] {
        var out = ByteBuffer(capacity: 16)
        Array(reason.utf8).withUnsafeBytes { FrameEncoder.appendClose(code: code, reason: $0, maskingKey: key.map(native), into: &out) }
        return out.copyBytes()
    }
}
