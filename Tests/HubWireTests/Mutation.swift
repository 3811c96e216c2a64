import HubBase

/// Damage done by chance, so that most results are near what is valid.
enum Mutation {
    private static let jsonSpice = Array("{}[]\",:\\ \t\n\r0123456789-+.eEtrufalsn/bx\u{0}\u{1f}".utf8) + [0x7F, 0x80, 0xC3, 0xFF]
    private static let packedSpice: [UInt8] = [
        0x00, 0x01, 0x7F, 0x80, 0x81, 0x82, 0x90, 0x91, 0x92, 0xA0, 0xA1, 0xA2, 0xC0, 0xC1, 0xC2, 0xC3, 0xC4, 0xC5, 0xC6, 0xC7, 0xCA, 0xCB,
        0xCC, 0xCD, 0xCE, 0xCF, 0xD0, 0xD1, 0xD2, 0xD3, 0xD4, 0xD6, 0xD9, 0xDA, 0xDB, 0xDC, 0xDD, 0xDE, 0xDF, 0xE0, 0xFF, 0x22, 0x61,
    ]

    static func json(_ original: [UInt8], _ chance: inout Chance) -> [UInt8] { damaged(original, jsonSpice, &chance) }
    static func messagePack(_ original: [UInt8], _ chance: inout Chance) -> [UInt8] { damaged(original, packedSpice, &chance) }

    private static func damaged(_ original: [UInt8], _ spice: [UInt8], _ chance: inout Chance) -> [UInt8] {
        var text = original
        for _ in 0..<Int.random(in: 1...3, using: &chance) {
            let place = Int.random(in: 0...text.count, using: &chance)
            let byte = spice.randomElement(using: &chance)!
            switch Int.random(in: 0..<5, using: &chance) {
            case 0: text.insert(byte, at: place)
            case 1: if place < text.count { text.remove(at: place) }
            case 2: if place < text.count { text[place] = byte }
            case 3:
                let end = min(text.count, place + Int.random(in: 0...8, using: &chance))
                text.insert(contentsOf: text[place..<end], at: Int.random(in: 0...text.count, using: &chance))
            default: if place < text.count { text.swapAt(place, Int.random(in: 0..<text.count, using: &chance)) }
            }
        }
        return text
    }
}
