import HubBase
import HubNet
import Testing

@Suite("frame decoder under random input")
struct WebSocketMutationTests {
    @Test("no mutation traps, and cuts change nothing", arguments: 0..<8 as Range<UInt64>)
    func mutations(seed: UInt64) {
        var chance = Chance(seed: seed)
        let limits = FrameLimits(messageBytes: 400, fragments: 5)
        for round in 0..<2000 {
            var bytes = WebSocketMutationTests.stream(&chance)
            for _ in 0..<chance.roll(4) where !bytes.isEmpty {
                switch chance.roll(4) {
                case 0: bytes[chance.roll(bytes.count)] ^= 1 << UInt8(chance.roll(8))
                case 1: bytes[chance.roll(bytes.count)] = UInt8(chance.roll(256))
                case 2: bytes.remove(at: chance.roll(bytes.count))
                default: bytes.insert(UInt8(chance.roll(256)), at: chance.roll(bytes.count))
                }
            }
            let role: WebSocketRole = chance.roll(8) == 0 ? .client : .server
            let allowsCompression = chance.roll(2) == 0
            let whole = decode(bytes, role: role, allowsCompression: allowsCompression, limits: limits)
            var pieces = FrameDriver(role: role, allowsCompression: allowsCompression, limits: limits)
            var place = 0
            while place < bytes.count {
                let next = min(place + 1 + chance.roll(chance.roll(4) == 0 ? 40 : 3), bytes.count)
                pieces.receive(bytes[place..<next])
                place = next
            }
            if pieces.events != whole { Issue.record("seed \(seed), round \(round): \(bytes)") }
        }
    }

    /// Some frames, valid for the most part.
    private static func stream(_ chance: inout Chance) -> [UInt8] {
        var bytes: [UInt8] = []
        var isOpen = false
        for _ in 0..<(1 + chance.roll(6)) {
            var first: UInt8 = [0x81, 0x82, 0x01, 0x02, 0x89, 0x8A, 0xC1, 0x41][chance.roll(8)]
            if isOpen && first & 0x0F < 3 { first &= 0x80 }
            if first & 0x08 == 0 { isOpen = first & 0x80 == 0 }
            if chance.roll(20) == 0 { first = 0x88 }
            let count = chance.roll(5) == 0 ? chance.roll(200) : chance.roll(12)
            let text = ["a", "é", "世", "😀"][chance.roll(4)]
            let payload =
                first & 0x0F == 8
                ? [0x03, 0xE8] : Array(String(repeating: text, count: count).utf8.prefix(chance.roll(3) == 0 ? count : 125))
            let key = (0..<4).map { _ in UInt8(chance.roll(256)) }
            bytes += WireFrame(first, first & 0x08 != 0 ? Array(payload.prefix(125)) : payload, key: key).bytes
        }
        return bytes
    }
}
