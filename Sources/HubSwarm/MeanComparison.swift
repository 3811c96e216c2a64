/// Two means, each of a figure that was taken in equal parts of a run, one after another; and how far chance could set them apart.
///
/// Welch's comparison: the two needn't vary alike, and few parts are believed less (Student's quantile). Neighbouring parts of a run resemble
/// each other: by how much is estimated from both together, corrected for what an estimate from so few is too small by, and counts as so
/// many fewer parts. One that looks the other way isn't believed.
package struct MeanComparison: Sendable, Equatable {
    package let first: Double
    package let second: Double
    /// Up to here a difference can be chance.
    package let doubt: Double

    package var difference: Double { second - first }
    package var isBeyondChance: Bool { abs(difference) > doubt }

    /// Where fewer parts are like none at all.
    package static let partsMin = 4
    private static let resemblanceMax = 0.9

    /// `chance`: how often the difference of equals is to pass `doubt`, from 0 to 1. Each of the two has at least `partsMin` values.
    package init(_ first: [Double], _ second: [Double], chance: Double) {
        precondition(first.count >= Self.partsMin && second.count >= Self.partsMin)
        self.first = Self.mean(first)
        self.second = Self.mean(second)
        let resemblance = Self.resemblance(first, second)
        let (left, leftParts) = Self.squaredError(first, resemblance)
        let (right, rightParts) = Self.squaredError(second, resemblance)
        guard left + right > 0 else {
            doubt = 0
            return
        }
        // Welch and Satterthwaite: as many degrees of freedom as the sum of two such estimates has.
        let freedom = (left + right) * (left + right) / (left * left / (leftParts - 1) + right * right / (rightParts - 1))
        doubt = StudentDistribution(freedom: Int(min(max(freedom, 1), 1e6))).quantile(beyond: chance) * (left + right).squareRoot()
    }

    /// The correlation of neighbours, 0 or more.
    private static func resemblance(_ first: [Double], _ second: [Double]) -> Double {
        var together = 0.0
        var whole = 0.0
        for values in [first, second] {
            let mean = mean(values)
            for (value, next) in zip(values, values.dropFirst()) { together += (value - mean) * (next - mean) }
            for value in values { whole += (value - mean) * (value - mean) }
        }
        guard whole > 0 else { return 0 }
        // Of n values about their own mean the estimate is too small by (1 + 3 r) / n, nearly (Kendall).
        let parts = 2 / (1 / Double(first.count) + 1 / Double(second.count))
        return min(max((together / whole + 1 / parts) / (1 - 3 / parts), 0), resemblanceMax)
    }

    /// The square of the mean's standard error, and how many parts that don't resemble each other these are worth.
    private static func squaredError(_ values: [Double], _ resemblance: Double) -> (Double, Double) {
        let count = Double(values.count)
        let mean = mean(values)
        // Not down to two: the estimate is rough, and of a hundred times the doubt nobody learns anything.
        let worth = max(count * (1 - resemblance) / (1 + resemblance), values.count < 10 ? 3 : 4)
        // About their own mean values that resemble each other spread less than they do.
        let variance = values.reduce(0) { $0 + ($1 - mean) * ($1 - mean) } / count / (1 - 1 / worth)
        return (variance / worth, worth)
    }

    private static func mean(_ values: [Double]) -> Double { values.reduce(0, +) / Double(values.count) }
}
