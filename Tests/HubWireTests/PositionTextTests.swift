import HubBase
import HubWire
import Testing

/// A position's text, `epoch.offset.tag`: opaque to clients, strict for us.
@Suite struct PositionTextTests {
    private func read(_ text: String) -> Position? { bytes(text).withUnsafeBytes { Position(text: $0) } }

    private func mark(_ text: String) -> Mark { Mark(text)! }

    @Test("a position is written and read back")
    func roundTrip() {
        let cases: [(Position, String)] = [
            (.start, ".0."),
            (.origin(mark("hgfedcba")), ".0.hgfedcba"),
            (Position(epoch: mark("abcdefgh"), offset: 17, tag: mark("q3q3q3q3")), "abcdefgh.17.q3q3q3q3"),
            (Position(epoch: mark("abcdefgh"), offset: 0, tag: .none), "abcdefgh.0."),
            (Position(epoch: .none, offset: 5, tag: mark("22222222")), ".5.22222222"),
            (Position(epoch: mark("00000000"), offset: (1 << 53) - 1, tag: mark("99999999")), "00000000.9007199254740991.99999999"),
        ]
        for (position, text) in cases {
            #expect(written { position.append(to: &$0) } == text)
            #expect(read(text) == position)
            #expect(text.utf8.count <= Position.textLengthMax)
        }
    }

    @Test(
        "anything else is no position",
        arguments: [
            "", ".", "..", "...", ".0", "0.", "0", ".00.", ".01.", ".-1.", ".+1.", ".1e3.", ".0.5.", ".9007199254740992.",
            ".99999999999999999999.",
            "abcdefg.1.", "abcdefghi.1.", "Abcdefgh.1.", "abcdefg\u{e9}.1.", ".1.abcdefg", ".1.abcdefghi", "abcdefgh..abcdefgh",
            "abcdefgh1.abcdefgh",
            "abcdefgh.1abcdefgh", " .0.", ".0. ", ".0.\u{0}", "x7.17.q3", "abcdefgh.abcdefgh", "........", ".........",
            "..................",
            "abcdefgh.17.q3q3q3q3.", "abcdefgh.1 7.q3q3q3q3",
        ])
    func refused(text: String) {
        #expect(read(text) == nil)
    }

    @Test("no damage to a position's text traps, and what is still read writes the same text")
    func damage() {
        var chance = Chance(seed: 5)
        let alphabet = Array("abz029.AZ-+ \u{0}".utf8)
        for _ in 0..<20_000 {
            var text = bytes("abcdefgh.17.q3q3q3q3")
            for _ in 0..<Int.random(in: 1...4, using: &chance) {
                let place = Int.random(in: 0...text.count, using: &chance)
                switch Int.random(in: 0..<3, using: &chance) {
                case 0: text.insert(alphabet.randomElement(using: &chance)!, at: place)
                case 1: if place < text.count { text.remove(at: place) }
                default: if place < text.count { text[place] = alphabet.randomElement(using: &chance)! }
                }
            }
            guard let position = text.withUnsafeBytes({ Position(text: $0) }) else { continue }
            #expect(written { position.append(to: &$0) } == String(decoding: text, as: UTF8.self))
        }
    }
}
