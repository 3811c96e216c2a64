/// The hash slot of a key (Redis Cluster specification, "Key distribution model"): CRC16-CCITT (XMODEM), polynomial 0x1021, mod 16384.
package enum Slot {
    package static let count = 16_384

    private static let table: [UInt16] = (0..<256).map { index in
        var crc = UInt16(index) << 8
        for _ in 0..<8 { crc = crc & 0x8000 != 0 ? (crc << 1) ^ 0x1021 : crc << 1 }
        return crc
    }

    /// The slot of a hash tag's bytes, that is of what stands between the first `{` and the next `}` of a key.
    package static func of(_ bytes: some Sequence<UInt8>) -> Int {
        var crc: UInt16 = 0
        for byte in bytes { crc = (crc << 8) ^ table[Int((crc >> 8) ^ UInt16(byte))] }
        return Int(crc) & (count - 1)
    }
}
