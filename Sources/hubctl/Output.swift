import Glibc
import HubConsole

/// Standard output and error. Whole lines in one write; a reader that has gone (`| head -1`) is an ordinary end, not an error.
struct Output {
    let terminal = Terminal(hasColour: isatty(1) == 1 && getenv("NO_COLOR") == nil)
    private let isErrorTerminal = isatty(2) == 1
    /// The reader of standard output has gone, or its disk is full.
    private(set) var isGone = false
    /// Standard output couldn't be written, and not because its reader has had enough.
    private(set) var failure: Int32 = 0

    mutating func line(_ text: String) {
        write(Array((text + "\n").utf8), to: 1)
    }

    mutating func line(_ bytes: [UInt8]) {
        write(bytes + [UInt8(ascii: "\n")], to: 1)
    }

    mutating func note(_ text: String) {
        let isColoured = isErrorTerminal && getenv("NO_COLOR") == nil
        write(Array((Terminal(hasColour: isColoured).paint(text, .grey) + "\n").utf8), to: 2)
    }

    /// For a person who watches: nothing when standard error goes elsewhere.
    mutating func hint(_ text: String) {
        if isErrorTerminal { note(text) }
    }

    mutating func error(_ text: String) {
        write(Array(("hubctl: " + text + "\n").utf8), to: 2)
    }

    /// Whether a pipe's reader has closed it, without writing: so that `subscribe … | head -1` ends before the next message.
    mutating func checkReader() {
        var entry = pollfd(fd: 1, events: 0, revents: 0)
        if poll(&entry, 1, 0) > 0, entry.revents & Int16(POLLERR) != 0 { isGone = true }
    }

    private mutating func write(_ bytes: [UInt8], to descriptor: Int32) {
        guard descriptor != 1 || !isGone else { return }
        var rest = bytes[...]
        while !rest.isEmpty {
            let written = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if written >= 0 {
                rest.removeFirst(written)
            } else if errno == EAGAIN {
                // A terminal that somebody made non-blocking.
                var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                poll(&entry, 1, 1000)
            } else if errno != EINTR {
                if descriptor == 1 {
                    isGone = true
                    if errno != EPIPE { failure = errno }
                }
                return
            }
        }
    }

    /// When something was said: "14:03:59" here, with the date where that is longer ago than half a day. nil: now.
    static func clock(of milliseconds: UInt64?) -> String {
        guard let milliseconds else { return clock() }
        let seconds = time_t(milliseconds / 1000)
        return time(nil) - seconds > 43_200 ? moment(milliseconds) : clock(at: seconds)
    }

    /// "14:03:59" here and now.
    static func clock(at moment: time_t = time(nil)) -> String {
        var seconds = moment
        var local = tm()
        localtime_r(&seconds, &local)
        func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return "\(two(local.tm_hour)):\(two(local.tm_min)):\(two(local.tm_sec))"
    }

    /// Milliseconds since 1970 as "2026-11-30 14:03:59" here.
    static func moment(_ milliseconds: UInt64) -> String {
        var seconds = time_t(milliseconds / 1000)
        var local = tm()
        localtime_r(&seconds, &local)
        func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        let date = "\(local.tm_year + 1900)-\(two(local.tm_mon + 1))-\(two(local.tm_mday))"
        return "\(date) \(two(local.tm_hour)):\(two(local.tm_min)):\(two(local.tm_sec))"
    }

    /// Milliseconds since 1970.
    static func wallMilliseconds() -> UInt64 {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        return UInt64(clamping: now.tv_sec) * 1000 + UInt64(clamping: now.tv_nsec) / 1_000_000
    }
}
