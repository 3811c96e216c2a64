/// base64url without padding (RFC 4648 §5, RFC 7515 §2), strict: one text for one run of bytes.
package enum Base64URL {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    package static func encode(_ bytes: [UInt8]) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count * 4 + 2) / 3)
        var bits: UInt32 = 0
        var count = 0
        for byte in bytes {
            bits = bits << 8 | UInt32(byte)
            count += 8
            while count >= 6 {
                count -= 6
                text.append(alphabet[Int(bits >> UInt32(count) & 0x3F)])
            }
            bits &= 0xFF
        }
        if count > 0 { text.append(alphabet[Int(bits << UInt32(6 - count) & 0x3F)]) }
        return text
    }

    /// nil for anything else: padding, the `+` and `/` of the other alphabet, white space, a length that can't be, unused bits that
    /// aren't zero.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        guard text.count % 4 != 1 else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count * 3 / 4)
        var bits: UInt32 = 0
        var count: UInt32 = 0
        for character in text {
            guard let value = value(character) else { return nil }
            bits = bits << 6 | value
            count += 6
            if count >= 8 {
                count -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> count))
                bits &= 1 << count - 1
            }
        }
        return bits == 0 ? bytes : nil
    }

    private static func value(_ character: UInt8) -> UInt32? {
        switch character {
        case 0x41...0x5A: UInt32(character - 0x41)
        case 0x61...0x7A: UInt32(character - 0x61) + 26
        case 0x30...0x39: UInt32(character - 0x30) + 52
        case UInt8(ascii: "-"): 62
        case UInt8(ascii: "_"): 63
        default: nil
        }
    }
}
