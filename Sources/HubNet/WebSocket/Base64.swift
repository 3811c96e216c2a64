/// Base64 with padding (RFC 4648 §4) for the handshake's two fixed lengths.
enum Base64 {
    /// Writes `(bytes.count + 2) / 3 * 4` bytes to `target`.
    static func encode(_ bytes: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer) {
        let alphabet: StaticString = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
        precondition(target.count >= (bytes.count + 2) / 3 * 4, "no room for the base64")
        var read = 0
        var written = 0
        while read < bytes.count {
            let there = min(bytes.count - read, 3)
            var group = UInt32(bytes[read]) << 16
            if there > 1 { group |= UInt32(bytes[read + 1]) << 8 }
            if there > 2 { group |= UInt32(bytes[read + 2]) }
            for place in 0..<4 {
                let digit = Int(group >> UInt32(18 - 6 * place) & 0x3F)
                target[written + place] = place <= there ? alphabet.utf8Start[digit] : UInt8(ascii: "=")
            }
            read += 3
            written += 4
        }
    }

    static func isDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x41...0x5A, 0x61...0x7A, 0x30...0x39, UInt8(ascii: "+"), UInt8(ascii: "/"): true
        default: false
        }
    }
}
