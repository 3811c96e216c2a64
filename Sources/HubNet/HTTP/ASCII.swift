/// The byte classes and comparisons of HTTP's grammar (RFC 9110 §5.6). Bytes, never `String`: two names are equal or not by their bytes.
enum ASCII {
    /// tchar: what a token is made of (RFC 9110 §5.6.2).
    @inline(__always)
    static func isToken(_ byte: UInt8) -> Bool {
        // One bit a byte: !#$%&'*+-. and digits; then A-Z ^_` a-z | ~.
        let low: UInt64 = 0x03FF_6CFA_0000_0000
        let high: UInt64 = 0x57FF_FFFF_C7FF_FFFE
        if byte >= 0x80 { return false }
        return (byte < 64 ? low : high) &>> UInt64(byte & 63) & 1 != 0
    }

    @inline(__always)
    static func isDigit(_ byte: UInt8) -> Bool { byte &- 0x30 < 10 }

    @inline(__always)
    static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    static func hexValue(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte &- 0x30
        case 0x41...0x46: byte &- 0x41 &+ 10
        case 0x61...0x66: byte &- 0x61 &+ 10
        default: nil
        }
    }

    @inline(__always)
    static func lowercased(_ byte: UInt8) -> UInt8 { byte &- 0x41 < 26 ? byte | 0x20 : byte }

    /// Whether `bytes` is `word` but for case. `word` is lower-case.
    static func equals(_ bytes: UnsafeRawBufferPointer, ignoringCase word: StaticString) -> Bool {
        let count = word.utf8CodeUnitCount
        guard bytes.count == count else { return false }
        let start = word.utf8Start
        for index in 0..<count where lowercased(bytes[index]) != start[index] { return false }
        return true
    }

    static func equals(_ bytes: UnsafeRawBufferPointer, ignoringCaseOf other: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count == other.count else { return false }
        for index in 0..<bytes.count where lowercased(bytes[index]) != lowercased(other[index]) { return false }
        return true
    }

    static func equals(_ bytes: UnsafeRawBufferPointer, _ word: StaticString) -> Bool {
        let count = word.utf8CodeUnitCount
        guard bytes.count == count else { return false }
        let start = word.utf8Start
        for index in 0..<count where bytes[index] != start[index] { return false }
        return true
    }

    /// Without blanks (SP, HTAB) at both ends.
    static func trimmed(_ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        var start = 0
        var end = bytes.count
        while start < end && isBlank(bytes[start]) { start += 1 }
        while end > start && isBlank(bytes[end - 1]) { end -= 1 }
        return UnsafeRawBufferPointer(rebasing: bytes[start..<end])
    }
}

/// The elements of a comma-separated list of tokens (RFC 9110 §5.6.1), trimmed, empty ones left out. Not for lists with quoted strings.
struct TokenList: Sequence, IteratorProtocol {
    private var rest: UnsafeRawBufferPointer

    init(_ value: UnsafeRawBufferPointer) { rest = value }

    mutating func next() -> UnsafeRawBufferPointer? {
        while !rest.isEmpty {
            let comma = rest.firstIndex(of: UInt8(ascii: ",")) ?? rest.count
            let element = ASCII.trimmed(UnsafeRawBufferPointer(rebasing: rest[..<comma]))
            rest = UnsafeRawBufferPointer(rebasing: rest[Swift.min(comma + 1, rest.count)...])
            if !element.isEmpty { return element }
        }
        return nil
    }
}
