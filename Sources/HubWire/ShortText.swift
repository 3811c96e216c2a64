import HubBase

/// At most sixteen bytes of text in two words: what field names and types are compared as, without a loop or a table.
///
/// Made from a literal it folds to constants, so a `switch` over literals is a few word compares.
struct ShortText: Equatable {
    var low: UInt64 = 0
    var high: UInt64 = 0
    var count: Int = 0

    static let countMax = 16

    @inline(__always) init(_ literal: StaticString) {
        let length = literal.utf8CodeUnitCount
        let start = UnsafeRawPointer(literal.utf8Start)
        for index in 0..<length {
            append(start.load(fromByteOffset: index, as: UInt8.self))
        }
    }

    /// nil when the text can't be one of the names that we know: too long, or a bad escape.
    @inline(__always) init?(_ raw: UnsafeRawBufferPointer, hasEscapes: Bool) {
        if hasEscapes {
            self.init(unescaping: raw)
            return
        }
        guard raw.count <= ShortText.countMax else { return nil }
        self.init("")
        guard let start = raw.baseAddress else { return }
        for index in 0..<raw.count {
            append(start.load(fromByteOffset: index, as: UInt8.self))
        }
    }

    /// A name may be written with escapes (`"t\u0079pe"`), RFC 8259 §7; nobody does, so this way may be slow.
    @inline(never) init?(unescaping raw: UnsafeRawBufferPointer) {
        guard raw.count <= ShortText.countMax * 6 else { return nil }
        var text = ByteBuffer(capacity: raw.count)
        guard JSONText.unescape(raw, into: &text), text.count <= ShortText.countMax else { return nil }
        for byte in text.bytes { append(byte) }
    }

    @inline(__always) private mutating func append(_ byte: UInt8) {
        let shift = UInt64(truncatingIfNeeded: (count & 7) &* 8)
        if count < 8 {
            low |= UInt64(byte) &<< shift
        } else {
            high |= UInt64(byte) &<< shift
        }
        count &+= 1
    }
}
