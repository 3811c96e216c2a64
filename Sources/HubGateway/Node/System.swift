import Glibc

/// The signals that the main thread waits for.
struct SignalSet {
    private var set = sigset_t()

    init(_ signals: [Int32]) {
        sigemptyset(&set)
        for signal in signals { sigaddset(&set, signal) }
    }

    mutating func block() { pthread_sigmask(SIG_BLOCK, &set, nil) }

    /// Blocks until one arrives.
    mutating func wait() -> Int32 {
        var signal: Int32 = 0
        while sigwait(&set, &signal) != 0 {}
        return signal
    }

    /// nil when none arrived in that time.
    mutating func wait(milliseconds: Int) -> Int32? {
        var limit = timespec(tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000)
        let signal = sigtimedwait(&set, nil, &limit)
        return signal > 0 ? signal : nil
    }
}

enum DescriptorLimit {
    /// Raises the soft limit to the hard one; answers what holds now.
    static func raise() -> Int {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 0 }
        if limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        }
        return Int(clamping: limit.rlim_cur)
    }
}

/// Standard output and error, written whole and unbuffered. A closed pipe is nobody's fault: what can't be written is dropped.
enum StandardStream: Int32 {
    case output = 1
    case error = 2

    func write(_ text: String) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let written = rest.withUnsafeBytes { Glibc.write(rawValue, $0.baseAddress, $0.count) }
            if written < 0 && errno == EINTR { continue }
            guard written > 0 else { return }
            rest = rest.dropFirst(written)
        }
    }
}
