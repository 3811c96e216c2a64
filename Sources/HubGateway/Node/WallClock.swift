import Glibc

/// The time that people read. Never used for deadlines.
enum WallClock {
    /// Milliseconds since 1970.
    static func milliseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return UInt64(max(time.tv_sec, 0)) * 1000 + UInt64(max(time.tv_nsec, 0)) / 1_000_000
    }
}
