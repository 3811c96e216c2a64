import Glibc

/// Processor time used so far, in microseconds.
enum ProcessorTime {
    /// Of this process, all its threads.
    static func own() -> UInt64 {
        var usage = rusage()
        guard getrusage(RUSAGE_SELF.rawValue, &usage) == 0 else { return 0 }
        func value(_ time: timeval) -> UInt64 { UInt64(clamping: time.tv_sec) * 1_000_000 + UInt64(clamping: time.tv_usec) }
        return value(usage.ru_utime) + value(usage.ru_stime)
    }

    /// Of another process of this machine (proc(5), `stat`); nil: there's none.
    static func process(_ number: Int32) -> UInt64? {
        guard let file = fopen("/proc/\(number)/stat", "r") else { return nil }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 1024)
        let count = fread(&bytes, 1, bytes.count, file)
        // The name, in parentheses, may hold anything: what counts stands after the last one.
        guard let end = bytes[..<count].lastIndex(of: UInt8(ascii: ")")) else { return nil }
        let fields = String(decoding: bytes[(end + 1)..<count], as: UTF8.self).split(separator: " ")
        let ticks = UInt64(clamping: sysconf(Int32(_SC_CLK_TCK)))
        guard fields.count > 12, ticks > 0, let user = UInt64(fields[11]), let system = UInt64(fields[12]) else { return nil }
        return (user + system) * (1_000_000 / ticks)
    }
}
