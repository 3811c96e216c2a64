import HubBase
import Testing

/// UTF-8 in pieces, RFC 3629 §4 and RFC 6455 §8.1, against the standard library's own judgement of the whole.
@Suite struct UTF8CheckTests {
    static let texts: [[UInt8]] = [
        [],
        Array("plain ascii, longer than eight bytes".utf8),
        Array("é€😀".utf8),
        Array("12345678é1234567€123456😀12345678".utf8),
        [0xC2, 0x80], [0xDF, 0xBF], [0xE0, 0xA0, 0x80], [0xED, 0x9F, 0xBF], [0xEE, 0x80, 0x80], [0xEF, 0xBF, 0xBF],
        [0xF0, 0x90, 0x80, 0x80], [0xF4, 0x8F, 0xBF, 0xBF], [0x00], [0x7F],
        // Overlong forms.
        [0xC0, 0x80], [0xC1, 0xBF], [0xE0, 0x80, 0x80], [0xE0, 0x9F, 0xBF], [0xF0, 0x80, 0x80, 0x80], [0xF0, 0x8F, 0xBF, 0xBF],
        // Surrogates, and beyond U+10FFFF.
        [0xED, 0xA0, 0x80], [0xED, 0xBF, 0xBF], [0xF4, 0x90, 0x80, 0x80], [0xF5, 0x80, 0x80, 0x80], [0xFF], [0xFE],
        // Alone, missing, or one too many.
        [0x80], [0xBF], [0xC2], [0xE2, 0x82], [0xF0, 0x9F, 0x98], [0xC2, 0x41], [0xE2, 0x41, 0x80], [0xE2, 0x82, 0x41], [0xC2, 0x80, 0x80],
        Array("12345678".utf8) + [0xFF] + Array("12345678".utf8),
        Array("1234567".utf8) + [0xE2, 0x82],
    ]

    private func twin(_ bytes: [UInt8]) -> Bool { String(validating: bytes, as: UTF8.self) != nil }

    private func check(_ bytes: [UInt8], cutAt cuts: [Int]) -> Bool {
        var check = UTF8Check()
        var start = 0
        for end in cuts + [bytes.count] {
            let piece = [UInt8](bytes[start..<end])
            guard piece.withUnsafeBytes({ check.consume($0) }) else { return false }
            start = end
        }
        return check.isComplete
    }

    @Test("every text is judged as a whole, whatever the pieces it came in", arguments: texts)
    func everySplit(bytes: [UInt8]) {
        let expected = twin(bytes)
        #expect(bytes.withUnsafeBytes { UTF8Check.isValid($0) } == expected)
        for first in 0...bytes.count {
            for second in first...bytes.count {
                #expect(check(bytes, cutAt: [first, second]) == expected, "cut at \(first) and \(second)")
            }
        }
        #expect(check(bytes, cutAt: Array(0...bytes.count)) == expected, "byte by byte")
    }

    @Test("all texts of two bytes, and chance's texts of up to twelve, are judged as the standard library does")
    func manyTexts() {
        for first in UInt8.min...UInt8.max {
            for second in UInt8.min...UInt8.max {
                let bytes = [first, second]
                if bytes.withUnsafeBytes({ UTF8Check.isValid($0) }) != twin(bytes) { Issue.record("\(bytes)") }
            }
        }
        var chance = Chance(seed: 3)
        let likely: [UInt8] = [
            0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xDF, 0xE0, 0xE2, 0xED, 0xEF, 0xF0, 0xF3, 0xF4, 0xF5,
        ]
        var valid = 0
        for _ in 0..<50_000 {
            let bytes = (0..<Int.random(in: 1...12, using: &chance)).map { _ in likely.randomElement(using: &chance)! }
            let expected = twin(bytes)
            valid += expected ? 1 : 0
            if check(bytes, cutAt: [Int.random(in: 0...bytes.count, using: &chance)]) != expected { Issue.record("\(bytes)") }
        }
        #expect(valid > 500, "\(valid)")
    }

    @Test("a bad byte is found as soon as it is there, RFC 6455 §8.1")
    func failFast() {
        for (bytes, bad) in [
            ([0x41, 0xFF, 0x41] as [UInt8], 1), ([0xE0, 0x9F], 1), ([0xED, 0xA0], 1), ([0xF4, 0x90], 1), ([0xE2, 0x82, 0x41], 2),
            ([0xC0], 0),
        ] {
            var check = UTF8Check()
            for place in 0..<bytes.count where place <= bad {
                let isGood = [bytes[place]].withUnsafeBytes { check.consume($0) }
                #expect(isGood == (place < bad))
            }
        }
    }

    @Test("a check's state is three bytes, because each connection has one")
    func size() {
        #expect(MemoryLayout<UTF8Check>.size == 3)
    }
}
