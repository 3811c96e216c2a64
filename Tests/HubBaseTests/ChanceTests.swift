import HubBase
import Testing

/// Chance that can be replayed, and the hash that nodes must agree on.
@Suite struct ChanceTests {
    @Test("the same seed gives the same numbers, another seed others")
    func determinism() {
        var first = Chance(seed: 42)
        var second = Chance(seed: 42)
        var other = Chance(seed: 43)
        let numbers = (0..<100).map { _ in first.next() }
        #expect(numbers == (0..<100).map { _ in second.next() })
        #expect(numbers != (0..<100).map { _ in other.next() })
        #expect(Set(numbers).count == 100)
    }

    @Test("xoshiro256** on splitmix64, as published: the first numbers of seed 0")
    func vectors() {
        // splitmix64 of 0 is E220A8397B1DCDAF, 6E789E6AA1B965F4, 06C45D188009454F, F88BB8A8724C81EC; xoshiro's first output is
        // rotl(s1 * 5, 7) * 9.
        var chance = Chance(seed: 0)
        let state: UInt64 = 0x6E78_9E6A_A1B9_65F4
        let product = state &* 5
        #expect(chance.next() == ((product << 7) | (product >> 57)) &* 9)
    }

    @Test("the bits are even: each of 64 is set about half of the time")
    func evenBits() {
        var chance = Chance(seed: 7)
        var counts = [Int](repeating: 0, count: 64)
        for _ in 0..<10_000 {
            let number = chance.next()
            for bit in 0..<64 where number >> UInt64(bit) & 1 == 1 { counts[bit] += 1 }
        }
        // Six standard deviations of 50 each; the seed is fixed, so this never flickers.
        for count in counts { #expect(abs(count - 5_000) < 300) }
    }

    @Test("a span of chance lies in its range, an empty range gives its lower end")
    func spans() {
        var chance = Chance(seed: 2)
        for _ in 0..<1_000 {
            let span = chance.span(in: .milliseconds(5)..<(.milliseconds(7)))
            #expect(span >= .milliseconds(5) && span < .milliseconds(7))
        }
        #expect(chance.span(in: .milliseconds(5)..<(.milliseconds(5))) == .milliseconds(5))
    }

    @Test(
        "FNV-1a, 64 bit: the published test vectors",
        arguments: [
            ("", 0xCBF2_9CE4_8422_2325 as UInt64), ("a", 0xAF63_DC4C_8601_EC8C), ("b", 0xAF63_DF4C_8601_F1A5),
            ("foobar", 0x8594_4171_F739_67E8),
        ])
    func fnv(text: String, hash: UInt64) {
        #expect(FNV1a.hash(Array(text.utf8)) == hash)
    }

    @Test("another seed is another hash")
    func fnvSeed() {
        let bytes: [UInt8] = Array("room:42".utf8)
        bytes.withUnsafeBytes { #expect(FNV1a.hash($0, seed: 1) != FNV1a.hash($0)) }
    }
}
