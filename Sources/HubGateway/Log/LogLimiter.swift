import HubBase

/// Holds back repeats of an event: at most `perSecond` lines in each second, then the next line tells how many were held back. A machine;
/// one for each event name.
struct LogLimiter {
    private var windowStart: Instant?
    private var count = 0
    private var suppressed: UInt64 = 0

    enum Decision: Equatable {
        /// Log it, and that `suppressed` before it weren't.
        case log(suppressed: UInt64)
        case suppress
    }

    mutating func judge(at now: Instant, perSecond: Int) -> Decision {
        if let start = windowStart, now.since(start) < .seconds(1), now >= start {
            guard count < perSecond else {
                suppressed &+= 1
                return .suppress
            }
            count += 1
        } else {
            windowStart = now
            count = 1
        }
        defer { suppressed = 0 }
        return .log(suppressed: suppressed)
    }
}
