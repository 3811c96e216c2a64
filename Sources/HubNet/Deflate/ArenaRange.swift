/// A frame, or several that lie one behind the other, in what a turn sends: in the arena, or, with the highest bit set in both ends, in the
/// arena of deflated frames. So that frames of one form which follow each other make one range, and a range is two words.
struct ArenaRange: Equatable {
    var start: UInt32
    var end: UInt32

    static let deflatedBit: UInt32 = 1 << 31
    /// Of one arena: offsets stay below the bit.
    static let bytesMax = Int(deflatedBit) - 1

    @inline(__always)
    static func isDeflated(_ offset: UInt32) -> Bool { offset & deflatedBit != 0 }

    @inline(__always)
    static func place(_ offset: UInt32) -> Int { Int(offset & ~deflatedBit) }
}
