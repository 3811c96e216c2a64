/// What was short, as far as the measures tell: processor time by the second of the generator, of the hub and of Redis.
package struct Bottleneck: Sendable, Equatable {
    /// Shares of one core, in the median second of the measured time; nil: not known.
    package private(set) var own: Double?
    package private(set) var hub: Double?
    package private(set) var redis: Double?
    /// Of hub, Redis and generator together, in shares of one core; nil: no hub was watched, so it may be on another machine.
    package private(set) var machine: Double?
    /// How many cores the watched hubs can use; one where that isn't known.
    package private(set) var hubCores: UInt64 = 1
    private var machineCores: UInt64?
    /// Nanoseconds: how late the generator sent what it could have sent, in the worst second but for the last twentieth.
    package private(set) var lag: UInt64 = 0
    private let processes: UInt64

    /// From here on a process has no time left for what comes: queueing makes the rest wait far longer than the work takes.
    private static let busy = 0.85
    private static let lagMax: UInt64 = 50_000_000

    package init(_ measures: Measures) {
        processes = max(measures.workers, 1)
        let points = measures.measuredPoints
        let length = Double(measures.step) * 1e6
        func median(_ values: [Double]) -> Double? { values.isEmpty ? nil : values.sorted()[values.count / 2] }
        own = median(points.compactMap { $0.busiestCPU ?? $0.ownCPU }.map { Double($0) / length })
        hub = median(points.compactMap { $0.hubCPU.map { Double($0) / length } })
        redis = median(points.compactMap { $0.redisCPU.map { Double($0) / length } })
        hubCores = max(measures.hubCores ?? 1, 1)
        machineCores = measures.machineCores
        machine = median(
            points.compactMap { point in
                point.hubCPU.map { (Double($0) + Double(point.redisCPU ?? 0) + Double(point.ownCPU ?? 0)) / length }
            })
        let lags = points.map(\.lag).sorted()
        if !lags.isEmpty { lag = lags[min(lags.count * 19 / 20, lags.count - 1)] }
    }

    /// A sentence when the generator itself was the limit: then the figures say nothing of the hub.
    package var generator: String? {
        let advice = "use more --workers, or another machine"
        if let own, own >= Self.busy {
            return "the generator is the bottleneck: it used \(ReportNumbers.percent(own)) of a core"
                + (processes > 1 ? " in the busiest of \(processes) workers" : "") + "; \(advice)"
        }
        if lag >= Self.lagMax {
            return
                "the generator is the bottleneck: it sent up to \(ReportNumbers.time(lag)) late by its own fault or its machine’s; \(advice)"
        }
        return nil
    }

    /// What broke it, as far as can be seen.
    package var reason: String {
        if let generator { return generator }
        if let redis, redis >= Self.busy { return "Redis is the bottleneck: it used \(ReportNumbers.percent(redis)) of its one core" }
        var known: [String] = []
        if let hub { known.append("the hub used \(ReportNumbers.percent(hub)) of a core" + (hubCores > 1 ? " of its \(hubCores)" : "")) }
        if let redis { known.append("Redis \(ReportNumbers.percent(redis))") }
        if let own { known.append("the generator \(ReportNumbers.percent(own))" + (processes > 1 ? " in its busiest process" : "")) }
        let words = known.joined(separator: ", ")
        if let hub, hub >= Self.busy * Double(hubCores) { return "the hub's processor time: " + words }
        if let machine, let machineCores, machine >= Self.busy * Double(machineCores) {
            return "this machine's \(machineCores) processors, which hub and generator share: " + words
                + "; with the generator elsewhere the hub may hold more"
        }
        if known.isEmpty { return "the processor time of nobody is known" }
        return "nobody's processor time seems short: " + words
    }
}

extension Measures {
    /// Those wholly inside the measured time; all there are when that is shorter than a step.
    package var measuredPoints: [Point] {
        let length = step * 1_000_000_000
        let inside = series.indices.filter {
            UInt64($0) * length >= warmUp.nanoseconds && (UInt64($0) + 1) * length <= measured.nanoseconds
        }
        return inside.isEmpty ? series : inside.map { series[$0] }
    }
}
