import Glibc

/// What the system lets one process do.
package enum ProcessLimits {
    /// Raises the soft descriptor limit to the hard one and returns what holds now.
    package static func raiseDescriptors() -> Int {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 1024 }
        if limit.rlim_cur < limit.rlim_max {
            let before = limit
            limit.rlim_cur = limit.rlim_max
            if setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) != 0 { limit = before }
        }
        return Int(clamping: limit.rlim_cur)
    }

    /// How many connections one local address can have to one remote address and port: Linux's ephemeral ports. 28,232 where the kernel
    /// doesn't say.
    package static func ephemeralPorts() -> Int {
        guard let file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "r") else { return 28_232 }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 64)
        guard fgets(&line, Int32(line.count), file) != nil else { return 28_232 }
        let numbers = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            .split { !("0"..."9").contains($0) }.compactMap { Int($0) }
        guard numbers.count == 2, numbers[1] >= numbers[0] else { return 28_232 }
        return numbers[1] - numbers[0] + 1
    }
}
