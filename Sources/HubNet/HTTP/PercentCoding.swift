/// Percent-encoded bytes of a target (RFC 3986 §2.1). Decoded they are bytes, not text: names are validated by who uses them.
enum PercentCoding {
    /// nil when a `%` isn't followed by two hex digits. `+` stays `+`.
    static func decode(_ bytes: UnsafeRawBufferPointer) -> [UInt8]? {
        var decoded: [UInt8] = []
        decoded.reserveCapacity(bytes.count)
        var index = 0
        while index < bytes.count {
            let byte = bytes[index]
            index += 1
            guard byte == UInt8(ascii: "%") else {
                decoded.append(byte)
                continue
            }
            guard bytes.count - index >= 2, let high = ASCII.hexValue(bytes[index]), let low = ASCII.hexValue(bytes[index + 1]) else {
                return nil
            }
            decoded.append(high << 4 | low)
            index += 2
        }
        return decoded
    }
}
