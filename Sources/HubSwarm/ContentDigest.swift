/// A number for what hubs hand on as it was said: the type, who said it on which device, and the payload byte by byte, which is promised
/// between clients of one format. `kind`: any number for the type. So that a delivery costs one pass over it, it isn't read as JSON (`PayloadDigest` of journals is).
package enum ContentDigest {
    /// Cost: linear, eight bytes a step.
    package static func of(
        _ kind: UInt8, user: UnsafeRawBufferPointer, device: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer
    ) -> UInt64 {
        var hash = Hash()
        hash.add(UInt64(kind))
        hash.add(user)
        hash.add(device)
        hash.add(payload)
        return hash.state
    }

    /// FNV-1a's steps over words, with the upper half folded in, so that it counts in the lower one.
    private struct Hash {
        var state: UInt64 = 0xCBF2_9CE4_8422_2325

        mutating func add(_ word: UInt64) {
            state = (state ^ word) &* 0x100_0000_01B3
            state ^= state >> 32
        }

        /// With its length, so that two neighbours aren't one.
        mutating func add(_ bytes: UnsafeRawBufferPointer) {
            add(UInt64(bytes.count))
            var place = 0
            while place + 8 <= bytes.count {
                add(bytes.loadUnaligned(fromByteOffset: place, as: UInt64.self))
                place += 8
            }
            var rest: UInt64 = 0
            while place < bytes.count {
                rest = rest << 8 | UInt64(bytes[place])
                place += 1
            }
            add(rest)
        }
    }
}
