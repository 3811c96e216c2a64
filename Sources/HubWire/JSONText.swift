import HubBase

/// JSON's strings and numbers, between the wire's bytes and ours.
package enum JSONText {
    /// Appends the string that the raw text between two quotes means. False for a lone surrogate or a bad escape; then nothing was
    /// appended. With `replacesLoneSurrogates`, U+FFFD stands for each of those. Cost: linear.
    package static func unescape(
        _ raw: UnsafeRawBufferPointer, into buffer: inout ByteBuffer, replacesLoneSurrogates: Bool = false
    ) -> Bool {
        let filled = buffer.count
        var index = 0
        // The text never gets longer: the shortest escape is two bytes for one, \u six for at most three.
        _ = buffer.reserve(raw.count)
        while index < raw.count {
            let byte = raw[index]
            guard byte == UInt8(ascii: "\\") else {
                buffer.append(byte)
                index &+= 1
                continue
            }
            guard let length = unescapeOne(raw, at: index, into: &buffer, replacesLoneSurrogates) else {
                buffer.count = filled
                return false
            }
            index &+= length
        }
        return true
    }

    /// One escape; its length, nil when it's bad.
    private static func unescapeOne(
        _ raw: UnsafeRawBufferPointer, at index: Int, into buffer: inout ByteBuffer, _ replacesLoneSurrogates: Bool
    ) -> Int? {
        guard index &+ 1 < raw.count else { return nil }
        switch raw[index &+ 1] {
        case UInt8(ascii: "\""): buffer.append(0x22 as UInt8)
        case UInt8(ascii: "\\"): buffer.append(0x5C as UInt8)
        case UInt8(ascii: "/"): buffer.append(0x2F as UInt8)
        case UInt8(ascii: "b"): buffer.append(0x08 as UInt8)
        case UInt8(ascii: "f"): buffer.append(0x0C as UInt8)
        case UInt8(ascii: "n"): buffer.append(0x0A as UInt8)
        case UInt8(ascii: "r"): buffer.append(0x0D as UInt8)
        case UInt8(ascii: "t"): buffer.append(0x09 as UInt8)
        case UInt8(ascii: "u"):
            guard let unit = hexUnit(raw, at: index &+ 2) else { return nil }
            guard unit & 0xF800 == 0xD800 else {
                append(scalar: unit, to: &buffer)
                return 6
            }
            // A high surrogate counts only with a low one behind it, RFC 8259 §7.
            guard unit < 0xDC00, index &+ 7 < raw.count, raw[index &+ 6] == UInt8(ascii: "\\"), raw[index &+ 7] == UInt8(ascii: "u"),
                let second = hexUnit(raw, at: index &+ 8), second & 0xFC00 == 0xDC00
            else {
                guard replacesLoneSurrogates else { return nil }
                append(scalar: 0xFFFD, to: &buffer)
                return 6
            }
            append(scalar: 0x10000 &+ (unit &- 0xD800) &<< 10 &+ (second &- 0xDC00), to: &buffer)
            return 12
        default: return nil
        }
        return 2
    }

    private static func hexUnit(_ raw: UnsafeRawBufferPointer, at index: Int) -> UInt32? {
        guard index &+ 4 <= raw.count else { return nil }
        var unit: UInt32 = 0
        for place in index..<index &+ 4 {
            guard let digit = hexDigit(raw[place]) else { return nil }
            unit = unit &<< 4 | digit
        }
        return unit
    }

    @inline(__always) static func hexDigit(_ byte: UInt8) -> UInt32? {
        switch byte {
        case 0x30...0x39: UInt32(byte &- 0x30)
        case 0x41...0x46: UInt32(byte &- 0x37)
        case 0x61...0x66: UInt32(byte &- 0x57)
        default: nil
        }
    }

    private static func append(scalar: UInt32, to buffer: inout ByteBuffer) {
        func tail(_ shift: UInt32) -> UInt8 { 0x80 | UInt8(truncatingIfNeeded: scalar &>> shift & 0x3F) }
        switch scalar {
        case 0..<0x80:
            buffer.append(UInt8(truncatingIfNeeded: scalar))
        case 0x80..<0x800:
            buffer.append(0xC0 | UInt8(truncatingIfNeeded: scalar &>> 6))
            buffer.append(tail(0))
        case 0x800..<0x10000:
            buffer.append(0xE0 | UInt8(truncatingIfNeeded: scalar &>> 12))
            buffer.append(tail(6))
            buffer.append(tail(0))
        default:
            buffer.append(0xF0 | UInt8(truncatingIfNeeded: scalar &>> 18))
            buffer.append(tail(12))
            buffer.append(tail(6))
            buffer.append(tail(0))
        }
    }

    /// Appends `text` (valid UTF-8) escaped for use between quotes; without the quotes. RFC 8259 §7: the quote, the backslash and
    /// what is below U+0020, nothing else.
    package static func escape(_ text: UnsafeRawBufferPointer, into buffer: inout ByteBuffer) {
        var plain = 0
        for index in 0..<text.count {
            let byte = text[index]
            guard byte < 0x20 || byte == 0x22 || byte == 0x5C else { continue }
            buffer.append(UnsafeRawBufferPointer(rebasing: text[plain..<index]))
            plain = index &+ 1
            switch byte {
            case 0x22: buffer.append(#"\""#)
            case 0x5C: buffer.append(#"\\"#)
            case 0x08: buffer.append(#"\b"#)
            case 0x0C: buffer.append(#"\f"#)
            case 0x0A: buffer.append(#"\n"#)
            case 0x0D: buffer.append(#"\r"#)
            case 0x09: buffer.append(#"\t"#)
            default:
                buffer.append(byte < 0x10 ? #"\u000"# : #"\u001"#)
                let digit = byte & 15
                buffer.append(digit < 10 ? digit &+ 48 : digit &+ 87)
            }
        }
        if plain < text.count { buffer.append(UnsafeRawBufferPointer(rebasing: text[plain..<text.count])) }
    }

    /// The name that a JSON string holds: unescaped where needed, then validated. nil when it isn't a valid name of at most `limit` bytes.
    package static func name(_ raw: UnsafeRawBufferPointer, hasEscapes: Bool, limit: Int) -> Name? {
        guard hasEscapes else { return Name(validating: raw, limit: limit) }
        // Six bytes of text make at least one byte of name: longer can't be valid, and isn't worth a buffer.
        guard raw.count / 6 <= limit else { return nil }
        var buffer = ByteBuffer(capacity: raw.count)
        guard unescape(raw, into: &buffer) else { return nil }
        return Name(validating: buffer.bytes, limit: limit)
    }

    /// Whether the raw text between two quotes means `name` (at most 16 bytes, as all names of fields and types are).
    package static func isEqual(_ raw: UnsafeRawBufferPointer, hasEscapes: Bool, to name: StaticString) -> Bool {
        ShortText(raw, hasEscapes: hasEscapes) == ShortText(name)
    }

    /// A JSON number that is an integer from 0 to 2^53 − 1, written without fraction or exponent; nil for all else.
    package static func unsigned(_ token: UnsafeRawBufferPointer) -> UInt64? {
        // 2^53 − 1 has sixteen digits, so the sum can't overflow.
        guard token.count >= 1, token.count <= 16, token[0] != UInt8(ascii: "0") || token.count == 1 else { return nil }
        var value: UInt64 = 0
        for byte in token {
            let digit = byte &- 48
            guard digit <= 9 else { return nil }
            value = value &* 10 &+ UInt64(digit)
        }
        return value < 1 &<< 53 ? value : nil
    }

    /// Whether the bytes are one JSON value nested at most `depthMax` deep, with white space around it at most. UTF-8 isn't checked.
    package static func isValue(_ text: UnsafeRawBufferPointer, depthMax: Int) -> Bool {
        guard text.count < Int(UInt32.max) else { return false }
        var cursor = JSONCursor(text, range: ByteRange(offset: 0, count: text.count), depthMax: depthMax)
        do {
            try cursor.whole()
            return true
        } catch {
            return false
        }
    }
}
