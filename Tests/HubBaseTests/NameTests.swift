import HubBase
import Testing

/// Names: bytes, validated once, never canonicalised.
@Suite struct NameTests {
    @Test("control characters have no place in a name: C0, DEL and C1", arguments: Array(0x00...0x1F) + Array(0x7F...0x9F))
    func controls(value: UInt32) {
        let scalar = String(Unicode.Scalar(value)!)
        #expect(Name(validating: scalar) == nil)
        #expect(Name(validating: "a" + scalar + "b") == nil)
    }

    @Test("what is next to the control characters is allowed", arguments: [" ", "~", "\u{A0}", "é", "€", "😀", ":", "/", "\"", "\\"])
    func allowed(text: String) {
        #expect(Name(validating: text)?.bytes == Array(text.utf8))
    }

    @Test("a continuation byte 0x80 to 0x9F is a control character behind 0xC2 only")
    func continuationBytes() {
        // U+0480: D2 80, U+1F600: F0 9F 98 80.
        #expect(Name(validating: "\u{480}") != nil && Name(validating: "\u{1F600}") != nil)
    }

    @Test("a name has 1 to 255 bytes of UTF-8")
    func lengths() {
        #expect(Name(validating: "") == nil)
        #expect(Name(validating: [UInt8](repeating: 0x61, count: 255)) != nil)
        #expect(Name(validating: [UInt8](repeating: 0x61, count: 256)) == nil)
        #expect(Name(validating: [0xFF]) == nil && Name(validating: [0x61, 0xC3]) == nil)
        #expect(Name(validating: "abc", limit: 2) == nil && Name(validating: "abc", limit: 3) != nil)
    }

    @Test("names are compared and hashed as bytes: canonical equivalents are two (B68)")
    func bytesOnly() throws {
        let composed = try #require(Name(validating: "caf\u{E9}"))
        let decomposed = try #require(Name(validating: "cafe\u{301}"))
        #expect(composed != decomposed)
        #expect(Set([composed, decomposed]).count == 2)
        #expect(composed.description == decomposed.description, "as text they look the same, which is why text isn't compared")
    }

    @Test("the namespace is what stands before the first colon, or the whole name")
    func namespace() {
        func namespace(_ name: Name) -> String { String(decoding: name.namespace, as: UTF8.self) }
        #expect(namespace("room:42") == "room")
        #expect(namespace("room:a:b") == "room")
        #expect(namespace("room") == "room")
        #expect(namespace(":x") == "")
    }
}
