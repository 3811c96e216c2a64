import HubBase

/// At most sixteen bytes of text in two words: what field names and types are compared as, without a loop or a table.
///
/// The words are loaded so that they overlap (of eleven bytes: the first eight and the last eight), which together with the count is
/// as good as the bytes themselves. Made from a literal it folds to constants, so a `switch` over literals is a few word compares.
struct ShortText: Equatable {
    var low: UInt64
    var high: UInt64
    var count: Int

    static let countMax = 16

    @inline(__always) init(_ literal: StaticString) {
        self.init(start: UnsafeRawPointer(literal.utf8Start), count: literal.utf8CodeUnitCount)
    }

    /// nil when the text can't be one of the names that we know: too long, or a bad escape.
    @inline(__always) init?(_ raw: UnsafeRawBufferPointer, hasEscapes: Bool) {
        if hasEscapes || raw.count == 0 {
            self.init(unescaping: raw)
        } else {
            guard raw.count <= ShortText.countMax else { return nil }
            self.init(start: raw.baseAddress!, count: raw.count)
        }
    }

    /// A name may be written with escapes (`"t\u0079pe"`), RFC 8259 §7; nobody does, so this way may be slow.
    @inline(never) init?(unescaping raw: UnsafeRawBufferPointer) {
        guard raw.count <= ShortText.countMax * 6 else { return nil }
        var text = ByteBuffer(capacity: raw.count)
        guard JSONText.unescape(raw, into: &text), text.count <= ShortText.countMax else { return nil }
        self.init(start: text.bytes.baseAddress!, count: text.count)
    }

    /// `count` is at most `countMax`; nothing is read when it's 0.
    @inline(__always) private init(start: UnsafeRawPointer, count: Int) {
        func word(_ place: Int) -> UInt64 { UInt64(littleEndian: start.loadUnaligned(fromByteOffset: place, as: UInt64.self)) }
        func half(_ place: Int) -> UInt64 { UInt64(UInt32(littleEndian: start.loadUnaligned(fromByteOffset: place, as: UInt32.self))) }
        func byte(_ place: Int) -> UInt64 { UInt64(start.load(fromByteOffset: place, as: UInt8.self)) }
        self.count = count
        if count >= 8 {
            low = word(0)
            high = word(count &- 8)
        } else if count >= 4 {
            low = half(0)
            high = half(count &- 4)
        } else if count > 0 {
            low = byte(0) | byte(count &>> 1) &<< 8 | byte(count &- 1) &<< 16
            high = 0
        } else {
            low = 0
            high = 0
        }
    }
}
