import HubBase

/// Fills in `Measures` while a share runs: a few increments for each message, no allocation; each second `close` makes a point of what came
/// since the last.
///
/// What counts is decided by when a message was *due*: what was due in the warm-up is in the series alone, however late it came.
package struct MeasuresRecorder: Sendable {
    package private(set) var measures: Measures
    /// Since `measures.began`; what was due in it counts.
    private var window: (from: UInt64, to: UInt64) = (.max, .max)
    private var interval = Histogram()
    private var point = Measures.Point()
    private var lanes: [(lane: Measures.Lane, histogram: Histogram)] = []
    private var sent: UInt64 = 0
    private var acknowledged: UInt64 = 0
    private var lastCPU: UInt64

    /// `ownCPU`: microseconds that this process used so far. `lanes`: what will be recorded; each costs 270 KB.
    package init(_ measures: Measures, lanes kinds: [Measures.Lane], ownCPU: UInt64) {
        self.measures = measures
        lanes = kinds.map { ($0, Histogram()) }
        lastCPU = ownCPU
    }

    /// From now (monotonic) on messages count, until `end`.
    package mutating func measure(from start: Instant, to end: Instant) {
        measures.warmUp = start.since(measures.began)
        measures.measured = end.since(measures.began)
        window = (start.nanoseconds, end.nanoseconds)
    }

    /// The measuring ends sooner than planned.
    package mutating func stopMeasuring(at end: Instant) {
        guard window.from != .max, end.nanoseconds < window.to else { return }
        measures.measured = end.since(measures.began)
        window.to = max(end.nanoseconds, window.from)
    }

    package func counts(_ due: UInt64) -> Bool { due >= window.from && due < window.to }

    /// `lane`: its place among those of `init`. Both times are monotonic nanoseconds.
    package mutating func delivered(lane: Int, due: UInt64, at now: UInt64) {
        let latency = now > due ? now - due : 0
        point.delivered += 1
        if lanes[lane].lane.population == .normal { interval.record(latency) }
        if counts(due) { lanes[lane].histogram.record(latency) }
    }

    /// A latency of another kind than deliveries: answers, handshakes.
    package mutating func took(lane: Int, from start: UInt64, to end: UInt64) {
        if counts(start) { lanes[lane].histogram.record(end > start ? end - start : 0) }
    }

    /// `isLate`: whether the bot could have sent it when it was due, so that the delay is the generator's own.
    package mutating func sent(due: UInt64, at now: UInt64, isLate: Bool) {
        point.sent += 1
        if counts(due) { sent += 1 }
        if isLate, now > due { point.lag = max(point.lag, now - due) }
    }

    package mutating func acknowledged(due: UInt64) {
        point.acknowledged += 1
        if counts(due) { acknowledged += 1 }
    }

    package mutating func failed(_ code: String, _ number: UInt64 = 1) {
        point.errors = Measures.sum(point.errors, number)
        Measures.add([code: number], to: &measures.errors)
    }

    package mutating func ended(_ why: String) {
        point.errors += 1
        Measures.add([why: 1], to: &measures.ends)
    }

    package mutating func set(_ counter: String, _ value: UInt64) { measures.counters[counter] = value }

    package mutating func update(_ change: (inout Measures) -> Void) { change(&measures) }

    /// The second is over: its point, which is kept too. A process that was stopped meanwhile gets empty points for the seconds it missed,
    /// so that those of several processes stay side by side.
    package mutating func close(at now: Instant, connected: Int, ownCPU: UInt64) -> Measures.Point {
        point.connected = UInt64(clamping: connected)
        point.latency = SparseHistogram(interval)
        point.ownCPU = ownCPU > lastCPU ? ownCPU - lastCPU : 0
        lastCPU = ownCPU
        interval.removeAll()
        let closed = point
        // Timers come a little early or late: the step that is over is the nearest one. One that has its point already (an early timer and
        // the next, or the rest at the end) gets no second one.
        let length = measures.step * 1_000_000_000
        let elapsed = (now.since(measures.began).nanoseconds + length / 2) / length
        point = Measures.Point()
        if !measures.series.isEmpty, UInt64(measures.series.count) >= elapsed {
            measures.extendLast(by: closed)
            return closed
        }
        while UInt64(measures.series.count) + 1 < min(elapsed, UInt64(Measures.pointsMax)) {
            var missed = Measures.Point()
            missed.connected = measures.series.last?.connected ?? 0
            measures.append(missed)
        }
        measures.append(closed)
        return closed
    }

    /// All of it, at the end of the run.
    package mutating func finish(at end: Instant, connected: Int, ownCPU: UInt64) -> Measures {
        _ = close(at: end, connected: connected, ownCPU: ownCPU)
        measures.ended = end.since(measures.began)
        for (lane, histogram) in lanes where histogram.count > 0 {
            measures.lanes[lane, default: SparseHistogram()].merge(SparseHistogram(histogram))
        }
        measures.counters[Measures.Counter.sent] = sent
        measures.counters[Measures.Counter.acknowledged] = acknowledged
        return measures
    }
}
