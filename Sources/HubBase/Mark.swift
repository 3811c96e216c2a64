/// Eight characters that make a thing unmistakable: the epoch of a channel, the tag of a message in it (`docs/glossary.md`).
///
/// Held as the eight ASCII bytes themselves, first character lowest; zero is "none". Made from chance that is passed in, so that a
/// simulation can replay it.
package struct Mark: Hashable, Sendable {
    package let raw: UInt64

    @inlinable package init(raw: UInt64) { self.raw = raw }

    package static let none = Mark(raw: 0)

    package static let alphabet: StaticString = "abcdefghijklmnopqrstuvwxyz234567"

    /// 40 bits of `chance` as eight base32 characters.
    package init(chance: UInt64) {
        var raw: UInt64 = 0
        var rest = chance
        for place in 0..<8 {
            let character = Mark.alphabet.utf8Start[Int(rest & 31)]
            raw |= UInt64(character) << UInt64(8 * place)
            rest >>= 5
        }
        self.raw = raw
    }

    /// nil unless the bytes are exactly eight of [a-z0-9], or none at all (`Mark.none`).
    package init?(_ bytes: UnsafeRawBufferPointer) {
        if bytes.count == 0 {
            self = .none
            return
        }
        guard bytes.count == 8 else { return nil }
        var raw: UInt64 = 0
        for (place, byte) in bytes.enumerated() {
            guard (byte >= 97 && byte <= 122) || (byte >= 48 && byte <= 57) else { return nil }
            raw |= UInt64(byte) << UInt64(8 * place)
        }
        self.raw = raw
    }

    package init?(_ text: String) {
        let bytes = [UInt8](text.utf8)
        guard let mark = bytes.withUnsafeBytes({ Mark($0) }) else { return nil }
        self = mark
    }

    /// Appends the eight characters, or nothing for `none`.
    @inlinable package func append(to buffer: inout ByteBuffer) {
        if raw != 0 {
            buffer.reserve(8).storeBytes(of: raw.littleEndian, as: UInt64.self)
            buffer.advance(by: 8)
        }
    }
}

extension Mark: CustomStringConvertible {
    package var description: String {
        guard raw != 0 else { return "" }
        return String(decoding: (0..<8).map { UInt8(truncatingIfNeeded: raw >> UInt64(8 * $0)) }, as: UTF8.self)
    }
}
