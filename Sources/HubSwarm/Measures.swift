import HubBase

/// What a run, or one process's share of it, measured: what reports are made of, what judges look at, what workers send their coordinator.
///
/// A value that merges: shares of one run that began at the same moment become that run. All counts are of the measured time alone (from
/// `warmUp` to `measured` after the beginning) except those of `series`, which has every second, and `errors` and `violations`, which
/// count at any time. Latencies are nanoseconds from the scheduled time. In files it's JSON with a version (`Measures+Codable`).
package struct Measures: Sendable, Equatable {
    package static let version: UInt64 = 1
    /// No count of one share may pass this: JSON's numbers are exact so far, and the sum of a thousand shares fits.
    package static let countMax: UInt64 = 1 << 53
    /// Points of `series`; a longer run halves them and doubles `step`, so that a day costs no more than half an hour.
    package static let pointsMax = 1800
    package static let namesMax = 1000
    package static let nameLengthMax = 512
    package static let findingsMax = 100
    package static let coresMax: UInt64 = 1 << 16

    /// Whose latency it is: those who behave, or those who are there to disturb them.
    package enum Population: String, Sendable, Codable, CaseIterable { case normal, hostile }

    /// What a histogram is of: a class of the wire ("chat", "typing", …: a delivery to one receiver), or "ack" (a publication's answer),
    /// "connect" (from the attempt to the welcome), "recover" (…); and of whom.
    package struct Lane: Sendable, Hashable, Codable, Comparable {
        package var kind: String
        package var population: Population

        package init(_ kind: String, _ population: Population = .normal) {
            self.kind = kind
            self.population = population
        }

        package static func < (left: Lane, right: Lane) -> Bool {
            // "normal" comes first.
            (right.population.rawValue, left.kind) < (left.population.rawValue, right.kind)
        }
    }

    /// One step of the run, of `step` seconds.
    package struct Point: Sendable, Equatable {
        /// At its end; of a run that was merged, the sum.
        package var connected: UInt64 = 0
        /// In it, not a second.
        package var sent: UInt64 = 0
        package var acknowledged: UInt64 = 0
        package var delivered: UInt64 = 0
        package var errors: UInt64 = 0
        /// Of deliveries to normal bots in it, all classes.
        package var latency = SparseHistogram()
        /// The longest that a message was sent after it was due though its bot was connected, in nanoseconds: the generator's own lateness.
        package var lag: UInt64 = 0
        /// Microseconds of processor time of the swarm itself, of the hub, of Redis, in it; nil: not known. A share of several tells its own
        /// alone, the coordinator those of others.
        package var ownCPU: UInt64?
        package var hubCPU: UInt64?
        package var redisCPU: UInt64?
        /// Of the busiest of the merged processes: its share of `ownCPU`. A swarm of six is short of CPU when one of them is.
        package var busiestCPU: UInt64?

        package init() {}
    }

    // What was asked for.
    /// The scenario's name; it comes from a file, so it may hold anything.
    package var scenario = ""
    package var seed: UInt64 = 0
    /// Name and value of each option, as text.
    package var options: [[String]] = []
    /// The machine and the programs: name and value.
    package var environment: [[String]] = []
    package var workers: UInt64 = 1
    package var bots: UInt64 = 0

    // When.
    /// On the monotonic clock of the host.
    package var began = Instant(nanoseconds: 0)
    /// Seconds since 1970 at the beginning: for people.
    package var date: UInt64 = 0
    /// Since `began`: from here to here is what counts.
    package var warmUp = Span.zero
    package var measured = Span.zero
    package var ended = Span.zero

    // What came.
    /// Seconds of each point.
    package var step: UInt64 = 1
    package private(set) var series: [Point] = []
    package var lanes: [Lane: SparseHistogram] = [:]
    /// By name, see `Counter`; others may be there as well.
    package var counters: [String: UInt64] = [:]
    /// By code; `timeout`, `disconnected`, `unsent`, `unanswered` are the swarm's own.
    package var errors: [String: UInt64] = [:]
    /// Why connections ended or couldn't be made.
    package var ends: [String: UInt64] = [:]
    /// What the checker found, by kind: `lost`, `duplicated`, `outOfOrder`, …
    package var violations: [String: UInt64] = [:]
    /// The first of them, in words.
    package var findings: [String] = []
    /// Shares that are missing, in words: worker 3 ended by signal 9.
    package var missing: [String] = []
    package var isInterrupted = false

    // Where it ran.
    /// How many cores the watched hubs can use at once: their loops, or the processors they may run on if that's fewer; nil: not known.
    package var hubCores: UInt64?
    /// Of this machine, which the watched hubs and the swarm share; nil: no hub was watched.
    package var machineCores: UInt64?

    package init() {}

    /// Names in `counters` that reports and judges know.
    package enum Counter {
        /// Bots that were in when the measuring began.
        package static let joined = "joined"
        package static let sent = "sent"
        package static let acknowledged = "acknowledged"
        package static let delivered = "delivered"
        /// What receivers were owed.
        package static let expected = "expected"
        package static let reconnects = "reconnects"
        package static let recovered = "recovered"
        package static let restarts = "restarts"
        /// Deliveries that the checker looked at one by one.
        package static let checked = "checked"
        /// States of others that watchers were told.
        package static let presenceTold = "presenceTold"
        /// Whatever was asked of the hub, signs among it, and what was due and couldn't be said: what errors are a part of.
        package static let requests = "requests"
        /// Bots that the hub had ended, or never let back in, and that were still out when the run ended.
        package static let cutOff = "cutOff"
        /// Attempts to connect that got no welcome.
        package static let notLetIn = "notLetIn"
        package static let hostileWelcomes = "hostileWelcomes"
        package static let hostileSent = "hostileSent"
        package static let hostileErrors = "hostileErrors"
        package static let hostileEnds = "hostileEnds"
        /// Of hostile sockets that say nothing or half a head.
        package static let muteOpened = "muteOpened"
        package static let muteEnds = "muteEnds"
        /// Milliseconds; of several shares the longest.
        package static let muteLongest = "muteLongest"

        package static func hostileEnd(_ why: String) -> String { "hostile end: " + why }
    }

    package func counter(_ name: String) -> UInt64 { counters[name] ?? 0 }

    package mutating func append(_ point: Point) {
        series.append(point)
        if series.count > Self.pointsMax { coarsen() }
    }

    /// What came after the last point's step was told, and still belongs to it.
    package mutating func extendLast(by point: Point) {
        guard !series.isEmpty else { return append(point) }
        let connected = series[series.count - 1].connected
        series[series.count - 1].follow(by: point)
        // Who leaves behind a step's end was there at its end.
        series[series.count - 1].connected = max(connected, point.connected)
    }

    package mutating func replaceSeries(_ points: [Point]) {
        series = points
        while series.count > Self.pointsMax { coarsen() }
    }

    /// All latencies of deliveries to normal bots, or of one lane.
    package func latency(_ lane: Lane? = nil) -> SparseHistogram {
        if let lane { return lanes[lane] ?? SparseHistogram() }
        var sum = SparseHistogram()
        for (lane, histogram) in lanes where lane.population == .normal && Self.isDelivery(lane.kind) { sum.merge(histogram) }
        return sum
    }

    /// Whether a lane is of deliveries; the others are answers and handshakes.
    package static func isDelivery(_ kind: String) -> Bool { !["ack", "connect", "recover"].contains(kind) }

    // MARK: Merging

    /// Adds another share of the same run. What was asked for stays this one's, except the number of bots, which is summed.
    package mutating func merge(_ other: Measures) {
        let isFirst = series.isEmpty && lanes.isEmpty && counters.isEmpty && began.nanoseconds == 0
        if isFirst {
            began = other.began
            date = other.date
            warmUp = other.warmUp
            measured = other.measured
            step = other.step
        }
        bots = Self.sum(bots, other.bots)
        mergeSeries(other)
        began = min(began, other.began)
        ended = max(ended, other.ended)
        measured = max(measured, other.measured)
        for (lane, histogram) in other.lanes { lanes[lane, default: SparseHistogram()].merge(histogram) }
        let longest = max(counter(Counter.muteLongest), other.counter(Counter.muteLongest))
        Self.add(other.counters, to: &counters)
        if counters[Counter.muteLongest] != nil { counters[Counter.muteLongest] = longest }
        Self.add(other.errors, to: &errors)
        Self.add(other.ends, to: &ends)
        Self.add(other.violations, to: &violations)
        findings = Array((findings + other.findings).prefix(Self.findingsMax))
        missing = Array((missing + other.missing).prefix(Self.findingsMax))
        isInterrupted = isInterrupted || other.isInterrupted
        hubCores = hubCores ?? other.hubCores
        machineCores = machineCores ?? other.machineCores
    }

    private mutating func mergeSeries(_ other: Measures) {
        var other = other
        while other.step < step, other.step < UInt64(UInt32.max) { other.coarsen() }
        while step < other.step, step < UInt64(UInt32.max) { coarsen() }
        // Both in steps of the earlier beginning.
        let isEarlier = began <= other.began
        let apart = isEarlier ? other.began.since(began) : began.since(other.began)
        let shift = Int(clamping: min((apart.nanoseconds / 500_000_000 + step) / (2 * step), UInt64(Self.pointsMax)))
        if !isEarlier { series = Array(repeating: Point(), count: shift) + series }
        for (place, point) in other.series.enumerated() {
            let target = place + (isEarlier ? shift : 0)
            while series.count <= target { series.append(Point()) }
            series[target].add(point)
        }
        while series.count > Self.pointsMax { coarsen() }
    }

    /// Half as many points of twice the length.
    package mutating func coarsen() {
        var halved: [Point] = []
        for place in stride(from: 0, to: series.count, by: 2) {
            var point = series[place]
            if place + 1 < series.count { point.follow(by: series[place + 1]) }
            halved.append(point)
        }
        series = halved
        step = Self.sum(step, step)
    }

    static func nanoseconds(milliseconds: UInt64) -> UInt64 {
        let (product, overflow) = milliseconds.multipliedReportingOverflow(by: 1_000_000)
        return overflow ? .max : product
    }

    static func sum(_ left: UInt64, _ right: UInt64) -> UInt64 {
        let (sum, overflow) = left.addingReportingOverflow(right)
        return overflow ? .max : sum
    }

    /// Names past `namesMax` go into "other": a hub that makes up codes doesn't fill the memory.
    package static func add(_ more: [String: UInt64], to counts: inout [String: UInt64]) {
        for (name, count) in more.sorted(by: { $0.key < $1.key }) {
            let isKnown = counts[name] != nil || counts.count < namesMax - 1
            counts[isKnown ? name : "other"] = sum(counts[isKnown ? name : "other"] ?? 0, count)
        }
    }
}

extension Measures.Point {
    /// The same step in another process.
    package mutating func add(_ other: Measures.Point) {
        connected = Measures.sum(connected, other.connected)
        addCounts(other)
        busiestCPU = Self.larger(busiestCPU ?? ownCPU, other.busiestCPU ?? other.ownCPU)
        ownCPU = Self.sum(ownCPU, other.ownCPU)
        // One hub and one Redis, whoever asked them.
        hubCPU = Self.larger(hubCPU, other.hubCPU)
        redisCPU = Self.larger(redisCPU, other.redisCPU)
    }

    /// The next step, to become one with this.
    mutating func follow(by next: Measures.Point) {
        connected = next.connected
        addCounts(next)
        ownCPU = Self.sum(ownCPU, next.ownCPU)
        hubCPU = Self.sum(hubCPU, next.hubCPU)
        redisCPU = Self.sum(redisCPU, next.redisCPU)
        busiestCPU = Self.sum(busiestCPU, next.busiestCPU)
    }

    private mutating func addCounts(_ other: Measures.Point) {
        sent = Measures.sum(sent, other.sent)
        acknowledged = Measures.sum(acknowledged, other.acknowledged)
        delivered = Measures.sum(delivered, other.delivered)
        errors = Measures.sum(errors, other.errors)
        latency.merge(other.latency)
        lag = max(lag, other.lag)
    }

    private static func sum(_ left: UInt64?, _ right: UInt64?) -> UInt64? {
        guard let left, let right else { return left ?? right }
        return Measures.sum(left, right)
    }

    private static func larger(_ left: UInt64?, _ right: UInt64?) -> UInt64? {
        guard let left, let right else { return left ?? right }
        return max(left, right)
    }
}
