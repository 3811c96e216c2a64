/// The random numbers of pure code: a seeded xoshiro256** (Blackman and Vigna, public domain algorithm), so that a simulation replays them.
///
/// Not for secrets. A shell seeds it from the system's random source, a test from a printed seed.
package struct Chance: RandomNumberGenerator, Sendable {
    private var state: (UInt64, UInt64, UInt64, UInt64)

    package init(seed: UInt64) {
        // splitmix64 spreads a small seed over the whole state.
        var mixed = seed
        func next() -> UInt64 {
            mixed &+= 0x9E37_79B9_7F4A_7C15
            var value = mixed
            value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
            value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
            return value ^ (value >> 31)
        }
        state = (next(), next(), next(), next())
    }

    package mutating func next() -> UInt64 {
        func rotated(_ value: UInt64, _ by: UInt64) -> UInt64 { (value << by) | (value >> (64 - by)) }
        let result = rotated(state.1 &* 5, 7) &* 9
        let shifted = state.1 << 17
        state.2 ^= state.0
        state.3 ^= state.1
        state.1 ^= state.2
        state.0 ^= state.3
        state.2 ^= shifted
        state.3 = rotated(state.3, 45)
        return result
    }

    package mutating func mark() -> Mark { Mark(chance: next()) }

    /// Uniform in [low, high).
    package mutating func span(in range: Range<Span>) -> Span {
        guard range.upperBound.nanoseconds > range.lowerBound.nanoseconds else { return range.lowerBound }
        return Span(nanoseconds: UInt64.random(in: range.lowerBound.nanoseconds..<range.upperBound.nanoseconds, using: &self))
    }
}
