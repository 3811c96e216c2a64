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

    /// How many cores these processes of this machine can use at once, at most the machine's: each its loops, which are the threads that do
    /// its work (a process without threads of that name has one), or the processors it may run on if that's fewer. 0: none of them is there.
    static func cores(of processes: [Int32]) -> Int {
        let online = max(sysconf(Int32(_SC_NPROCESSORS_ONLN)), 1)
        let sum = processes.reduce(0) { $0 + cores(of: $1, online: online) }
        return min(sum, online)
    }

    private static func cores(of process: Int32, online: Int) -> Int {
        guard let folder = opendir("/proc/\(process)/task") else { return 0 }
        defer { closedir(folder) }
        var loops = 0
        while let entry = readdir(folder) {
            let thread = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            guard thread.first != ".", let file = fopen("/proc/\(process)/task/\(thread)/comm", "r") else { continue }
            defer { fclose(file) }
            var name = [UInt8](repeating: 0, count: 16)
            let count = fread(&name, 1, name.count, file)
            if name[..<count].starts(with: "hub-loop-".utf8) { loops += 1 }
        }
        let usable = allowed(process) ?? online
        return max(min(max(loops, 1), usable), 1)
    }

    /// Processors that a process may run on (proc(5), `status`); nil: not known.
    private static func allowed(_ process: Int32) -> Int? {
        guard let file = fopen("/proc/\(process)/status", "r") else { return nil }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 8192)
        let count = fread(&bytes, 1, bytes.count, file)
        let lines = String(decoding: bytes[..<count], as: UTF8.self).split(separator: "\n")
        guard let line = lines.first(where: { $0.hasPrefix("Cpus_allowed:") }) else { return nil }
        // A mask in hexadecimal digits, with commas.
        return line.dropFirst("Cpus_allowed:".count).reduce(0) { $0 + ($1.hexDigitValue?.nonzeroBitCount ?? 0) }
    }
}
