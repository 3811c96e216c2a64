import HubNet
import Testing

@Suite("masking, RFC 6455 §5.3")
struct WebSocketMaskingTests {
    @Test("words and bytes agree for every alignment, offset and length 0 to 70")
    func againstBytes() {
        let keyBytes: [UInt8] = [0x9A, 0x01, 0xF0, 0x7E]
        let key = keyBytes.withUnsafeBytes { $0.loadUnaligned(as: UInt32.self) }
        for alignment in 0..<16 {
            for offset in 0..<8 {
                for count in 0...70 {
                    var bytes = (0..<(alignment + count + 16)).map { UInt8($0 * 7 & 0xFF) }
                    var expected = bytes
                    for index in 0..<count { expected[alignment + index] ^= keyBytes[(offset + index) % 4] }
                    bytes.withUnsafeMutableBytes {
                        Masking.apply(key, to: UnsafeMutableRawBufferPointer(rebasing: $0[alignment..<(alignment + count)]), offset: offset)
                    }
                    if bytes != expected { Issue.record("alignment \(alignment), offset \(offset), count \(count)") }
                }
            }
        }
    }

    @Test("masking twice gives the bytes back, in whatever pieces")
    func twice() {
        let plain = (0..<1000).map { UInt8($0 & 0xFF) }
        var bytes = plain
        bytes.withUnsafeMutableBytes { all in
            Masking.apply(0xDEAD_BEEF, to: all)
            var place = 0
            for piece in [1, 2, 3, 5, 8, 13, 100, 868] {
                Masking.apply(0xDEAD_BEEF, to: UnsafeMutableRawBufferPointer(rebasing: all[place..<(place + piece)]), offset: place)
                place += piece
            }
        }
        #expect(bytes == plain)
    }

    @Test("no bytes are no bytes")
    func empty() { Masking.apply(1, to: UnsafeMutableRawBufferPointer(start: nil, count: 0)) }
}
