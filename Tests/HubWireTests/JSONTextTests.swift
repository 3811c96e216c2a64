import Foundation
import HubBase
import HubWire
import Testing

/// JSON's strings and numbers, RFC 8259 §6 and §7.
@Suite struct JSONTextTests {
    private func unescaped(_ raw: String) -> String? {
        var buffer = ByteBuffer(capacity: 4)
        buffer.append("kept")
        let isGood = bytes(raw).withUnsafeBytes { JSONText.unescape($0, into: &buffer) }
        let text = String(decoding: buffer.bytes, as: UTF8.self)
        guard isGood else {
            #expect(text == "kept", "a bad text leaves nothing behind")
            return nil
        }
        return String(text.dropFirst(4))
    }

    private func escaped(_ text: String) -> String {
        written { buffer in bytes(text).withUnsafeBytes { JSONText.escape($0, into: &buffer) } }
    }

    @Test(
        "escapes mean what RFC 8259 §7 says",
        arguments: [
            (#"a\"\\\/\b\f\n\r\tz"#, "a\"\\/\u{8}\u{C}\n\r\tz"), (#"\u0041\u00e9\u00E9\u20ac"#, "Aéé€"), (#"\ud83d\ude00"#, "😀"),
            (#"\uD800\uDC00"#, "\u{10000}"), (#"\udbff\udfff"#, "\u{10FFFF}"), (#"\u0000"#, "\u{0}"),
            (#"\u07ff\u0800\uffff"#, "\u{7FF}\u{800}\u{FFFF}"),
            ("", ""), ("plain é", "plain é"),
        ])
    func unescape(raw: String, text: String) {
        #expect(unescaped(raw) == text)
    }

    @Test(
        "a lone surrogate or a bad escape is refused",
        arguments: [
            #"\ud800"#, #"\udc00"#, #"a\ud83dx"#, #"\ud83d\n"#, #"\ud83d\u0041"#, #"\ud83d\ud83d"#, #"\udc00\ud800"#, #"\ud83d\u"#,
            #"\ud83d\ude0"#,
            #"\x"#, #"\u12"#, #"\u12g4"#, #"\"#, #"a\"#, #"\U0041"#,
        ])
    func badEscapes(raw: String) {
        #expect(unescaped(raw) == nil)
    }

    @Test("only the quote, the backslash and control characters are escaped, RFC 8259 §7")
    func escape() {
        #expect(escaped("a\"b\\c/é😀\u{7F}\u{2028}") == "a\\\"b\\\\c/é😀\u{7F}\u{2028}")
        #expect(escaped("\u{8}\u{C}\n\r\t\u{0}\u{1F}\u{B}") == #"\b\f\n\r\t\u0000\u001f\u000b"#)
        #expect(escaped("") == "")
    }

    @Test("escaping and unescaping are inverse, and Foundation reads what we write")
    func roundTrip() throws {
        var chance = Chance(seed: 11)
        for _ in 0..<500 {
            var text = ""
            for _ in 0..<Int.random(in: 0...40, using: &chance) {
                let scalar = Unicode.Scalar(UInt32.random(in: 0...(Bool.random(using: &chance) ? 0x7F : 0x10FFFF), using: &chance))
                if let scalar { text.unicodeScalars.append(scalar) }
            }
            let raw = escaped(text)
            #expect(unescaped(raw).map { Array($0.utf8) } == Array(text.utf8))
            let object = try JSONSerialization.jsonObject(with: Data("[\"\(raw)\"]".utf8)) as? [String]
            #expect(object.map { Array($0[0].utf8) } == Array(text.utf8))
        }
    }

    private func name(_ raw: String, limit: Int = 255) -> Name? {
        bytes(raw).withUnsafeBytes { JSONText.name($0, hasEscapes: raw.contains("\\"), limit: limit) }
    }

    @Test("a name's escapes are undone before it's compared, so one name has one form")
    func names() {
        #expect(name(#"room:\u00e9\/x"#)?.bytes == bytes("room:é/x"))
        #expect(name("room:é/x")?.bytes == bytes("room:é/x"))
        #expect(name(#"a\"b"#)?.bytes == bytes("a\"b"))
    }

    @Test("names that are canonically equal but differ in bytes are two names (B68)")
    func canonicalEquivalence() throws {
        for (left, right) in [("é", "e\u{301}"), ("\u{AC00}", "\u{1100}\u{1161}"), ("\u{212B}", "\u{C5}")] {
            #expect(left == right, "Swift's String takes them for one")
            let first = try #require(name(left))
            let second = try #require(name(right))
            #expect(first != second && Set([first, second]).count == 2)
        }
        #expect(name(#"e\u0301"#) == name("e\u{301}"))
        #expect(name(#"e\u0301"#) != name("é"))
    }

    @Test(
        "what isn't a valid name is nil, escaped or not",
        arguments: ["", #"\u0000"#, #"a\nb"#, #"\u007f"#, #"\u0085"#, #"\ud800"#, "a\u{7F}", "a\u{9F}", String(repeating: "x", count: 256)])
    func badNames(raw: String) {
        #expect(name(raw) == nil)
    }

    @Test("a name's limit is in bytes of the name, not of its JSON text")
    func nameLimit() {
        #expect(name(String(repeating: #"\u0041"#, count: 255))?.bytes.count == 255)
        #expect(name(String(repeating: #"\u0041"#, count: 256)) == nil)
        #expect(name(String(repeating: #"\u0041"#, count: 100_000)) == nil)
        #expect(name("abc", limit: 2) == nil && name("ab", limit: 2) != nil)
        #expect(name("éé", limit: 3) == nil && name("éé", limit: 4) != nil)
    }

    @Test("an integer is 0 to 2^53 - 1 without sign, fraction, exponent or leading zero (B67)")
    func unsigned() {
        func read(_ text: String) -> UInt64? { bytes(text).withUnsafeBytes { JSONText.unsigned($0) } }
        #expect(read("0") == 0)
        #expect(read("17") == 17)
        #expect(read("9007199254740991") == 9_007_199_254_740_991)
        for text in [
            "", "9007199254740992", "9999999999999999", "10000000000000000", "18446744073709551616", "-1", "-0", "+1", "01", "00", "1.0",
            "1e3",
            "0.5", "1.7976931348623157e308", "true", "null", "NaN", "\"5\"", " 1", "1 ", String(repeating: "9", count: 5000),
        ] {
            #expect(read(text) == nil, "\(text.prefix(30))")
        }
    }

    @Test("a whole value is one value with white space around it at most")
    func wholeValue() {
        func isValue(_ text: String) -> Bool { bytes(text).withUnsafeBytes { JSONText.isValue($0, depthMax: 3) } }
        for text in ["1", " {} ", "[[[]]]", "\"a\"", "null"] { #expect(isValue(text)) }
        for text in ["", " ", "1 2", "{}x", "[[[[]]]]", "\"a", "}"] { #expect(!isValue(text)) }
    }

    @Test("a literal name is equal to its text, escaped or not, and to nothing else")
    func isEqual() {
        func isChannel(_ raw: String) -> Bool {
            bytes(raw).withUnsafeBytes { JSONText.isEqual($0, hasEscapes: raw.contains("\\"), to: "channel") }
        }
        #expect(isChannel("channel") && isChannel(#"\u0063hannel"#))
        for other in ["", "channe", "channels", "channel\u{0}", "Channel", "chann\u{e9}l", #"\u0063hannels"#, #"\ud800"#] {
            #expect(!isChannel(other))
        }
        #expect(!isChannel("channel" + String(repeating: "x", count: 1000)))
    }
}
