/// What two runs are compared by.
extension ReportComparison {
    struct Figure: Sendable {
        enum Direction: Sendable { case up, down, none }

        let name: String
        /// Where it's better.
        let direction: Direction
        let text: @Sendable (Double) -> String
        /// Whether there's so much in some steps that it can be compared.
        var isEnough: @Sendable (ArraySlice<Measures.Point>) -> Bool = { _ in true }
        /// In some steps of a run, at least one; nil: there's none.
        let value: @Sendable (Measures, ArraySlice<Measures.Point>) -> Double?

        /// Of a whole run.
        func whole(_ measures: Measures) -> Double? {
            let points = measures.measuredPoints
            return value(measures, points.isEmpty ? [Measures.Point()] : points[...])
        }

        static let all: [Figure] =
            [50, 90, 99, 99.9].map { percentile($0) } + [
                rate("delivered a second", .up, \.delivered), rate("sent a second", .none, \.sent),
                rate("errors a second", .down, \.errors),
                Figure(name: "connected", direction: .none, text: ReportNumbers.rate) { _, points in
                    Double(points.reduce(0) { Measures.sum($0, $1.connected) }) / Double(points.count)
                },
                processor("hub’s processor time", .down, \.hubCPU), processor("Redis’ processor time", .down, \.redisCPU),
                processor("swarm’s processor time", .none, \.ownCPU),
            ]

        private static func rate(
            _ name: String, _ direction: Direction, _ value: @escaping @Sendable (Measures.Point) -> UInt64
        ) -> Figure {
            Figure(name: name, direction: direction, text: ReportNumbers.rate) { measures, points in
                Double(points.reduce(0) { Measures.sum($0, value($1)) }) / Double(points.count) / Double(measures.step)
            }
        }

        /// Of deliveries. Where none is beyond it a percentile is the longest under another name: p99.9 needs a thousand.
        private static func percentile(_ percent: Double) -> Figure {
            Figure(
                name: ReportNumbers.percentile(percent), direction: .down, text: { ReportNumbers.time(UInt64(min($0, 1e18))) },
                isEnough: { Double($0.reduce(0) { Measures.sum($0, $1.latency.count) }) * (100 - percent) >= 100 - 1e-6 }
            ) { _, points in
                var sum = SparseHistogram()
                for point in points { sum.merge(point.latency) }
                return sum.count > 0 ? Double(sum.percentile(percent)) : nil
            }
        }

        /// Of one core.
        private static func processor(
            _ name: String, _ direction: Direction, _ value: @escaping @Sendable (Measures.Point) -> UInt64?
        ) -> Figure {
            Figure(name: name, direction: direction, text: ReportNumbers.percent) { measures, points in
                let known = points.compactMap(value)
                return known.isEmpty ? nil : Double(known.reduce(0, Measures.sum)) / Double(known.count) / Double(measures.step) / 1e6
            }
        }
    }
}
