import Glibc
import HubBase

/// The monotonic clock, read now: for latencies, where a loop's time of this turn's start is too old.
package enum Clock {
    package static func now() -> Instant {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Instant(nanoseconds: UInt64(clamping: time.tv_sec) * 1_000_000_000 + UInt64(clamping: time.tv_nsec))
    }
}
