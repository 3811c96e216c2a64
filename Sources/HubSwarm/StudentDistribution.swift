import Glibc

/// Student's t with a whole number of degrees of freedom.
package struct StudentDistribution: Sendable {
    private let power: Double
    private static let freedomMax = 1000
    private static let steps = 128

    /// From 1; past a thousand it's as good as normal.
    package init(freedom: Int) { power = Double(min(max(freedom, 1), Self.freedomMax) - 1) }

    /// What |t| passes with the probability `chance`, which is between 0 and 1. Some thousand powers: for reports, not for a hot path.
    package func quantile(beyond chance: Double) -> Double {
        // With t = √ν tan θ the density is that of cos(θ) to the power ν − 1, from −π/2 to π/2.
        let whole = area(from: 0)
        var (low, high) = (0.0, Double.pi / 2)
        for _ in 0..<48 {
            let middle = (low + high) / 2
            if area(from: middle) > chance * whole { low = middle } else { high = middle }
        }
        return (power + 1).squareRoot() * tan(low)
    }

    /// From an angle to π/2, by Simpson's rule.
    private func area(from angle: Double) -> Double {
        let width = (Double.pi / 2 - angle) / Double(Self.steps)
        var sum = 0.0
        for step in 0...Self.steps {
            let weight = step == 0 || step == Self.steps ? 1.0 : step % 2 == 1 ? 4.0 : 2.0
            sum += weight * pow(max(cos(angle + Double(step) * width), 0), power)
        }
        return sum * width / 3
    }
}
