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

/// `INFO cpu` of one Redis over one blocking connection; each wait has 2 s.
struct RedisInfo {
    private let place: ReportOptions.RedisPlace
    private var socket: Int32 = -1

    init(_ place: ReportOptions.RedisPlace) { self.place = place }

    /// Microseconds so far of all its threads; nil: it didn't answer. The next call connects anew.
    mutating func processorTime() -> UInt64? {
        if socket < 0 { connect() }
        guard socket >= 0, let text = answer() else {
            if socket >= 0 { close(socket) }
            socket = -1
            return nil
        }
        func seconds(_ name: String) -> Double? {
            text.split(whereSeparator: \.isNewline).first { $0.hasPrefix(name + ":") }.flatMap { Double($0.dropFirst(name.count + 1)) }
        }
        guard let user = seconds("used_cpu_user"), let system = seconds("used_cpu_sys"), user + system >= 0, user + system < 1e9 else {
            return nil
        }
        return UInt64((user + system) * 1e6)
    }

    private mutating func connect() {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(place.host, place.port, &hints, &found) == 0, let first = found else { return }
        defer { freeaddrinfo(found) }
        let made = Glibc.socket(first.pointee.ai_family, first.pointee.ai_socktype, first.pointee.ai_protocol)
        guard made >= 0 else { return }
        var patience = timeval(tv_sec: 2, tv_usec: 0)
        setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(made, SOL_SOCKET, SO_SNDTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        guard Glibc.connect(made, first.pointee.ai_addr, first.pointee.ai_addrlen) == 0 else {
            close(made)
            return
        }
        socket = made
        guard let secret = place.secret else { return }
        guard send(["AUTH"] + [place.user, secret].compactMap { $0 }), let line = receive(until: { $0.last == 10 }), line.hasPrefix("+")
        else {
            close(made)
            socket = -1
            return
        }
    }

    private func answer() -> String? {
        guard send(["INFO", "cpu"]) else { return nil }
        // "$123\r\n", so many bytes, "\r\n".
        return receive { bytes in
            guard let end = bytes.firstIndex(of: 10) else { return false }
            guard bytes[0] == UInt8(ascii: "$"), let length = Int(String(decoding: bytes[1..<max(end - 1, 1)], as: UTF8.self)) else {
                return true
            }
            return bytes.count >= end + 1 + length + 2
        }
    }

    private func send(_ words: [String]) -> Bool {
        let command = Array(("*\(words.count)\r\n" + words.map { "$\($0.utf8.count)\r\n\($0)\r\n" }.joined()).utf8)
        return Glibc.send(socket, command, command.count, Int32(MSG_NOSIGNAL)) == command.count
    }

    private func receive(until isWhole: ([UInt8]) -> Bool) -> String? {
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 4096)
        while bytes.count < 64 << 10 {
            let count = recv(socket, &part, part.count, 0)
            guard count > 0 else { return nil }
            bytes += part[..<count]
            if isWhole(bytes) { return String(decoding: bytes, as: UTF8.self) }
        }
        return nil
    }
}
