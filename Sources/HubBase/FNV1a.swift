/// FNV-1a, 64 bit: which partition a user or a channel belongs to (redis-design: `part(x)`), and our own byte-keyed tables.
///
/// Not collision-resistant: a table keyed by what a client chose must bound its probes or mix in a secret seed.
package enum FNV1a {
    @inlinable package static func hash(_ bytes: UnsafeRawBufferPointer, seed: UInt64 = 0xCBF2_9CE4_8422_2325) -> UInt64 {
        var hash = seed
        for byte in bytes {
            hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3
        }
        return hash
    }

    @inlinable package static func hash(_ bytes: [UInt8]) -> UInt64 { bytes.withUnsafeBytes { hash($0) } }
}
