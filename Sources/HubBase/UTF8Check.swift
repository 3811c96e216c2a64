/// UTF-8 well-formedness (RFC 3629 §4, Unicode table 3-7), as a value that takes its bytes in pieces.
///
/// RFC 6455 §8.1 wants a text message judged over all its fragments, and a bad byte found as soon as it's there.
package struct UTF8Check: Sendable, Equatable {
    /// Continuation bytes still owed, and the range that the next one must be in.
    @usableFromInline var owed: UInt8 = 0
    @usableFromInline var low: UInt8 = 0x80
    @usableFromInline var high: UInt8 = 0xBF

    @inlinable package init() {}

    /// False as soon as no continuation could make the bytes so far valid.
    @inlinable package mutating func consume(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let base = bytes.baseAddress else { return true }
        let count = bytes.count
        var index = 0
        while index < count {
            if owed == 0 {
                // Eight ASCII bytes at a time: most text is.
                while index &+ 8 <= count {
                    if base.loadUnaligned(fromByteOffset: index, as: UInt64.self) & 0x8080_8080_8080_8080 != 0 { break }
                    index &+= 8
                }
                if index >= count { return true }
            }
            let byte = base.load(fromByteOffset: index, as: UInt8.self)
            index &+= 1
            if owed > 0 {
                if byte < low || byte > high { return false }
                owed &-= 1
                low = 0x80
                high = 0xBF
                continue
            }
            switch byte {
            case 0x00...0x7F: continue
            case 0xC2...0xDF: owed = 1
            case 0xE0: owed = 2; low = 0xA0
            case 0xE1...0xEC, 0xEE...0xEF: owed = 2
            case 0xED: owed = 2; high = 0x9F
            case 0xF0: owed = 3; low = 0x90
            case 0xF1...0xF3: owed = 3
            case 0xF4: owed = 3; high = 0x8F
            default: return false
            }
        }
        return true
    }

    /// True when the bytes so far end on a character's border.
    @inlinable package var isComplete: Bool { owed == 0 }

    @inlinable package static func isValid(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var check = UTF8Check()
        return check.consume(bytes) && check.isComplete
    }

    /// Valid UTF-8 without C0, DEL and C1 control characters.
    package static func isValidName(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard isValid(bytes) else { return false }
        var previous: UInt8 = 0
        for byte in bytes {
            if byte < 0x20 || byte == 0x7F { return false }
            if previous == 0xC2 && byte < 0xA0 { return false }
            previous = byte
        }
        return true
    }
}
