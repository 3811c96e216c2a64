/// A frame, or several that lie one behind the other, in what a turn sends: in the arena, or, with the highest bit set in both ends, in the
/// arena of their other forms (deflated, or as events). So that frames of one form which follow each other make one range, and a range is two words.
struct ArenaRange: Equatable {
    var start: UInt32
    var end: UInt32

    static let twinBit: UInt32 = 1 << 31
    /// Of one arena: offsets stay below the bit.
    static let bytesMax = Int(twinBit) - 1

    @inline(__always)
    static func isTwin(_ offset: UInt32) -> Bool { offset & twinBit != 0 }

    @inline(__always)
    static func place(_ offset: UInt32) -> Int { Int(offset & ~twinBit) }
}
