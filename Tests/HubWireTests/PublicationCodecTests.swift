import HubBase
import HubWire
import Testing

/// How a publication travels between nodes. What comes back from Redis is outside input: others may write there.
@Suite struct PublicationCodecTests {
    static let chat = Publication(
        messageClass: .chat, user: "alice", device: "phone", messageId: "m1", time: 1_796_011_158_488, payload: bytes(#"{"text":"hi"}"#))

    private func encoded(_ publication: Publication) -> [UInt8] {
        var buffer = ByteBuffer(capacity: 16)
        PublicationCodec.encode(publication, into: &buffer)
        return buffer.copyBytes()
    }

    private func decoded(_ bytes: [UInt8]) -> Publication? { bytes.withUnsafeBytes { PublicationCodec.decode($0) } }

    @Test("the layout: version, class, three names with their lengths, the time in eight bytes, the payload")
    func layout() {
        let wire: [UInt8] =
            [1, 0, 5] + bytes("alice") + [5] + bytes("phone") + [2] + bytes("m1") + [0x98, 0x70, 0x95, 0x2A, 0xA2, 0x01, 0, 0]
            + bytes(#"{"text":"hi"}"#)
        var publication = Self.chat
        publication.time = 0x01A2_2A95_7098
        #expect(encoded(publication) == wire)
        #expect(decoded(wire) == publication)
    }

    @Test("every class comes back as it went", arguments: MessageClass.allCases)
    func roundTrip(messageClass: MessageClass) {
        var publication = Self.chat
        publication.messageClass = messageClass
        if !messageClass.isDurable { publication.messageId = .empty }
        #expect(decoded(encoded(publication)) == publication)
        publication.user = .empty
        publication.device = .empty
        publication.payload = bytes(" [ 1.50 , \"\\u00e9é\" ] ")
        #expect(decoded(encoded(publication)) == publication, "the payload byte for byte")
    }

    @Test("a MessagePack payload sets the class byte's highest bit, and nothing else changes", arguments: MessageClass.allCases)
    func format(messageClass: MessageClass) {
        var publication = Self.chat
        publication.messageClass = messageClass
        if !messageClass.isDurable { publication.messageId = .empty }
        publication.payload = [0x81, 0xA4] + bytes("text") + [0xA2] + bytes("hi")
        publication.payloadFormat = .messagePack
        let wire = encoded(publication)
        #expect(wire[1] == 0x80 | messageClass.rawValue)
        #expect(decoded(wire) == publication)
        for length in 0..<wire.count { #expect(decoded([UInt8](wire.prefix(length))) == nil) }
        var asJSON = wire
        asJSON[1] &= 0x7F
        #expect(decoded(asJSON) == nil, "these bytes aren't JSON")
        asJSON[1] = 0xFF
        #expect(decoded(asJSON) == nil)
        publication.payload = [0xD4, 1, 0]
        #expect(decoded(encoded(publication)) == nil, "what JSON can't carry would reach JSON's subscribers")
    }

    @Test("the same bytes in another format are another content")
    func content() {
        var packed = Self.chat
        packed.payloadFormat = .messagePack
        #expect(packed.contentByte != Self.chat.contentByte)
        #expect(packed != Self.chat)
    }

    @Test("names of the greatest length come back")
    func longest() {
        var publication = Self.chat
        publication.user = Name(trusted: [UInt8](repeating: 0x61, count: 255))
        publication.device = Name(trusted: [UInt8](repeating: 0x62, count: 255))
        publication.messageId = Name(trusted: [UInt8](repeating: 0x63, count: 255))
        #expect(decoded(encoded(publication)) == publication, "limits.deviceBytes and limits.messageIdBytes may be set as high")
    }

    @Test("every truncation is refused")
    func truncations() {
        let whole = encoded(Self.chat)
        for length in 0..<whole.count { #expect(decoded([UInt8](whole.prefix(length))) == nil) }
    }

    @Test("what isn't ours is refused: version, class, names, time, payload")
    func refused() {
        let whole = encoded(Self.chat)
        func with(_ place: Int, _ byte: UInt8) -> Publication? {
            var bytes = whole
            bytes[place] = byte
            return decoded(bytes)
        }
        #expect(with(0, 0) == nil && with(0, 2) == nil && with(0, 0x7B) == nil)
        #expect(with(1, 4) == nil && with(1, 255) == nil)
        #expect(with(1, MessageClass.typing.rawValue) == nil, "a typing has no id")
        #expect(with(2, 255) == nil, "a length beyond the bytes")
        #expect(with(3, 0xFF) == nil && with(3, 0x0A) == nil, "names are validated again")
        #expect(decoded(whole + [0x7D]) == nil, "the payload is one JSON value, or it would break the envelope around it")
        #expect(decoded(whole.dropLast(13) + bytes("1,\"type\":2")) == nil)
        #expect(decoded(whole.dropLast(13) + [0x22, 0xFF, 0x22]) == nil, "and UTF-8")
        var late = Self.chat
        late.time = 1 << 53
        #expect(decoded(encoded(late)) == nil)
        var anonymous = Self.chat
        anonymous.messageId = .empty
        #expect(decoded(encoded(anonymous)) == nil, "a chat without id")
    }

    @Test("no damage traps, and whatever is taken encodes to the same bytes")
    func damage() {
        var chance = Chance(seed: 99)
        let whole = encoded(Self.chat)
        var taken = 0
        for _ in 0..<20_000 {
            var bytes = whole
            for _ in 0..<Int.random(in: 1...3, using: &chance) {
                switch Int.random(in: 0..<3, using: &chance) {
                case 0: bytes[Int.random(in: 0..<bytes.count, using: &chance)] = UInt8.random(in: 0...255, using: &chance)
                case 1: bytes.remove(at: Int.random(in: 0..<bytes.count, using: &chance))
                default: bytes.insert(UInt8.random(in: 0...255, using: &chance), at: Int.random(in: 0...bytes.count, using: &chance))
                }
            }
            guard let publication = decoded(bytes) else { continue }
            taken += 1
            #expect(encoded(publication) == bytes)
        }
        #expect(taken > 500)
    }
}
