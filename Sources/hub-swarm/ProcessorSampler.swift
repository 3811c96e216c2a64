import Glibc
import HubBase
import HubClientNet
import HubNet
import HubSwarm
import Synchronization

/// Asks once a second what the hub and Redis used, on a thread of its own because asking may wait; at the end it fills what it learned into
/// the measures. What can't be asked is left out: a report is worth more than its plot of processor time.
final class ProcessorSampler {
    struct Sample: Sendable {
        var at: Instant
        /// Microseconds so far.
        var hub: UInt64?
        var redis: UInt64?
    }

    /// Shared with the thread.
    private final class Notes: Sendable {
        let samples = Mutex<[Sample]>([])
        /// That the hubs can use; 0: not known yet.
        let hubCores = Atomic<Int>(0)
        let isOver = Atomic<Bool>(false)

        func add(_ sample: Sample) { samples.withLock { if $0.count < ProcessorSampler.samplesMax { $0.append(sample) } } }
    }

    private static let samplesMax = 90_000
    private let notes = Notes()
    private let thread: LoopThread

    /// Said before a run: who of those whose processor time is wanted doesn't tell it, and why. Up to 2 s for each wait on Redis.
    static func problem(_ options: ReportOptions) -> String? {
        for process in options.hubProcesses where ProcessorTime.process(process) == nil {
            return "--hub-pid \(process): there's no such process on this machine"
        }
        guard let place = options.redis else { return nil }
        var redis = RedisInfo(place)
        defer { redis.close() }
        return redis.processorTime() == nil ? "--redis: \(redis.trouble)" : nil
    }

    /// nil: nobody is to be asked.
    static func start(_ options: ReportOptions) throws(NetError) -> ProcessorSampler? {
        guard !options.hubProcesses.isEmpty || options.redis != nil else { return nil }
        return try ProcessorSampler(options.hubProcesses, options.redis)
    }

    private init(_ processes: [Int32], _ place: ReportOptions.RedisPlace?) throws(NetError) {
        let notes = notes
        thread = try LoopThread(name: "sampler") { ProcessorSampler.ask(processes, place, notes) }
    }

    private static func ask(_ processes: [Int32], _ place: ReportOptions.RedisPlace?, _ notes: Notes) {
        var redis: RedisInfo? = if let place { RedisInfo(place) } else { nil }
        while !notes.isOver.load(ordering: .acquiring) {
            let used = processes.compactMap { ProcessorTime.process($0) }
            // Of all or of none: a sum without one that died would look like time given back.
            let hub: UInt64? = used.count == processes.count && !used.isEmpty ? used.reduce(0, +) : nil
            let sample = Sample(at: Clock.now(), hub: hub, redis: redis?.processorTime())
            notes.add(sample)
            // Late enough that the loops' threads are there.
            notes.hubCores.store(ProcessorTime.cores(of: processes), ordering: .relaxed)
            usleep(1_000_000)
        }
    }

    /// Ends the asking (a second, or Redis' deadline) and fills in each step's part.
    func finish(into measures: inout Measures) {
        notes.isOver.store(true, ordering: .releasing)
        thread.join()
        let samples = notes.samples.withLock { $0 }
        var series = measures.series
        for place in series.indices {
            let from = measures.began + .seconds(UInt64(place) * measures.step)
            let to = from + .seconds(measures.step)
            series[place].hubCPU = Self.used(samples, from, to, \.hub)
            series[place].redisCPU = Self.used(samples, from, to, \.redis)
        }
        measures.replaceSeries(series)
        let cores = notes.hubCores.load(ordering: .relaxed)
        if cores > 0 {
            measures.hubCores = UInt64(cores)
            measures.machineCores = UInt64(clamping: sysconf(Int32(_SC_NPROCESSORS_ONLN)))
        }
    }

    /// Between two moments, straight between the samples around them.
    private static func used(_ samples: [Sample], _ from: Instant, _ to: Instant, _ value: KeyPath<Sample, UInt64?>) -> UInt64? {
        guard let first = interpolated(samples, from, value), let last = interpolated(samples, to, value), last >= first else { return nil }
        return UInt64(last - first)
    }

    private static func interpolated(_ samples: [Sample], _ at: Instant, _ value: KeyPath<Sample, UInt64?>) -> Double? {
        guard let after = samples.firstIndex(where: { $0.at >= at }), after > 0 else { return nil }
        let (left, right) = (samples[after - 1], samples[after])
        guard let first = left[keyPath: value], let last = right[keyPath: value], last >= first else { return nil }
        let whole = Double(right.at.since(left.at).nanoseconds)
        return Double(first) + (whole > 0 ? Double(last - first) * Double(at.since(left.at).nanoseconds) / whole : 0)
    }
}
