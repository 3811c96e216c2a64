/// The XOR of RFC 6455 §5.3: masking and unmasking are the same.
package enum Masking {
    /// Masks `bytes` in place, eight at a time.
    /// - Parameters:
    ///   - key: the four key bytes as they lie in memory (a native load of them).
    ///   - offset: how many bytes of the payload come before `bytes`.
    package static func apply(_ key: UInt32, to bytes: UnsafeMutableRawBufferPointer, offset: Int = 0) {
        guard let base = bytes.baseAddress else { return }
        let count = bytes.count
        // Bit 8i of a little-endian value is byte i in memory, so turning the key right skips the bytes that were used before.
        let turn = UInt32(truncatingIfNeeded: offset & 3) &* 8
        let key = UInt32(littleEndian: key)
        let turned = key &>> turn | key &<< (32 &- turn)
        let wide = (UInt64(turned) &* 0x1_0000_0001).littleEndian

        var index = 0
        while index &+ 8 <= count {
            let word = base.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            base.storeBytes(of: word ^ wide, toByteOffset: index, as: UInt64.self)
            index &+= 8
        }
        // Eight bytes are two rounds of the key: the tail begins where `turned` does.
        var rest = UInt64(littleEndian: wide)
        while index < count {
            let byte = base.load(fromByteOffset: index, as: UInt8.self)
            base.storeBytes(of: byte ^ UInt8(truncatingIfNeeded: rest), toByteOffset: index, as: UInt8.self)
            rest &>>= 8
            index &+= 1
        }
    }
}
