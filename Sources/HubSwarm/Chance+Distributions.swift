import Glibc
import HubBase

/// How things that people do are distributed.
extension Chance {
    /// In (0, 1]: the logarithm of zero is no waiting time.
    mutating func uniform() -> Double { Double((next() >> 11) + 1) / Double(1 << 53 as UInt64) }

    /// A gap of a Poisson process.
    package mutating func exponential(mean: Span) -> Span { mean.scaled(by: -log(uniform())) }

    /// Log-normal with this *mean* (not median): a few are very long. `spread`: the standard deviation of the logarithm.
    package mutating func logNormal(mean: Span, spread: Double) -> Span {
        // Box and Muller's transform; its second value isn't worth keeping.
        let normal = sqrt(-2 * log(uniform())) * cos(2 * Double.pi * uniform())
        return mean.scaled(by: exp(spread * normal - spread * spread / 2))
    }
}

/// Zipf's law over a fixed number of things: the n-th has the weight n^-exponent. Eight bytes a thing, a binary search a draw.
package struct Popularity: Sendable {
    private let passed: [Double]

    package init(count: Int, exponent: Double) {
        var sum = 0.0
        passed = (1...max(count, 1)).map { place in
            sum += pow(Double(place), -exponent)
            return sum
        }
    }

    package var count: Int { passed.count }

    /// From 0; the first is the most popular.
    package func draw(_ chance: inout Chance) -> Int {
        let place = chance.uniform() * (passed.last ?? 1)
        var low = 0
        var high = passed.count - 1
        while low < high {
            let middle = (low + high) / 2
            if passed[middle] < place { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// So many different ones. Popular ones are likelier, none comes twice.
    package func draw(_ count: Int, _ chance: inout Chance) -> [UInt32] {
        var drawn: [UInt32] = []
        var attempts = 0
        while drawn.count < min(count, self.count) {
            attempts += 1
            // Where few are left that weigh anything, the next free one will do.
            var place = UInt32(draw(&chance))
            if attempts > 20 * count { while drawn.contains(place) { place = (place + 1) % UInt32(self.count) } }
            if !drawn.contains(place) { drawn.append(place) }
        }
        return drawn
    }
}
