import Glibc
import HubBase
import HubCore
import Synchronization

/// The log: one line an event, text on a terminal, JSON elsewhere. Any thread may call it.
///
/// A line is made by the caller and written by one write(2) under a short lock, after poll(2) has said that the descriptor takes it: a
/// full or closed pipe costs the line and never the loop's time. What is lost is counted and told with the next line that gets through.
/// (Setting the descriptor to non-blocking instead would change it for everybody who shares it, the operator's shell included.)
///
/// Not for the way of a message: a line allocates.
package final class Log: Sendable {
    private struct State {
        /// By event; events are words of the source, so there are few.
        var limiters: [String: LogLimiter] = [:]
        var dropped: UInt64 = 0
        /// Those of `dropped` that no line has told yet.
        var untold: UInt64 = 0
        var suppressed: UInt64 = 0
    }

    private let descriptor: Int32
    private let isJSON: Bool
    private let leastLevel: Atomic<Int>
    private let state = Mutex(State())

    /// `descriptor` stays the caller's; -1 makes a log that says nothing.
    package init(level: Configuration.LogLevel = .info, format: Configuration.LogFormat = .automatic, descriptor: Int32 = 2) {
        self.descriptor = descriptor
        self.leastLevel = Atomic(level.rawValue)
        self.isJSON =
            switch format {
            case .json: true
            case .text: false
            case .automatic: isatty(descriptor) != 1
            }
    }

    /// For tests of other things.
    package static var silent: Log { Log(level: .error, format: .json, descriptor: -1) }

    /// Can change while running (SIGHUP).
    package var level: Configuration.LogLevel {
        get { Configuration.LogLevel(rawValue: leastLevel.load(ordering: .relaxed)) ?? .info }
        set { leastLevel.store(newValue.rawValue, ordering: .relaxed) }
    }

    /// Lines that the descriptor didn't take.
    package var dropped: UInt64 { state.withLock { $0.dropped } }

    /// Lines that a limit held back.
    package var suppressed: UInt64 { state.withLock { $0.suppressed } }

    package func isEnabled(_ level: Configuration.LogLevel) -> Bool { level.rawValue >= leastLevel.load(ordering: .relaxed) }

    package func debug(_ event: String, _ fields: KeyValuePairs<String, any LogValue> = [:]) { write(.debug, event, fields) }
    package func info(_ event: String, _ fields: KeyValuePairs<String, any LogValue> = [:]) { write(.info, event, fields) }
    package func warning(_ event: String, _ fields: KeyValuePairs<String, any LogValue> = [:]) { write(.warning, event, fields) }
    package func error(_ event: String, _ fields: KeyValuePairs<String, any LogValue> = [:]) { write(.error, event, fields) }

    /// For what a peer can cause at will: at most `perSecond` lines a second of this event, then `suppressed=N` on the next one. `now` is
    /// the loop's.
    package func limited(
        _ level: Configuration.LogLevel, _ event: String, perSecond: Int = 5, at now: Instant,
        _ fields: KeyValuePairs<String, any LogValue> = [:]
    ) {
        guard isEnabled(level) else { return }
        let decision = state.withLock { state in
            let decision = state.limiters[event, default: LogLimiter()].judge(at: now, perSecond: perSecond)
            if decision == .suppress { state.suppressed &+= 1 }
            return decision
        }
        if case .log(let suppressed) = decision { write(level, event, fields, suppressed: suppressed) }
    }

    private func write(
        _ level: Configuration.LogLevel, _ event: String, _ fields: KeyValuePairs<String, any LogValue>, suppressed: UInt64 = 0
    ) {
        guard descriptor >= 0, isEnabled(level) else { return }
        write(level, event, fields.map { ($0.key, $0.value.logForm) }, suppressed: suppressed)
    }

    /// One line of a caller that holds back what is too much itself.
    func write(_ level: Configuration.LogLevel, _ event: String, _ fields: [(key: String, value: LogForm)], suppressed: UInt64) {
        guard descriptor >= 0, isEnabled(level) else { return }
        var forms: LogLine.Fields = fields
        if suppressed > 0 { forms.append(("suppressed", suppressed.logForm)) }
        let now = Self.unixMilliseconds()
        let line = LogLine.bytes(level: level, event: event, forms, unixMilliseconds: now, isJSON: isJSON)
        state.withLock { state in
            if state.untold > 0 {
                let notice = LogLine.bytes(
                    level: .warning, event: "log.dropped", [("lines", state.untold.logForm)], unixMilliseconds: now, isJSON: isJSON)
                if send(notice) { state.untold = 0 }
            }
            if state.untold > 0 || !send(line) {
                state.dropped &+= 1
                state.untold &+= 1
            }
        }
    }

    /// One write, only when it won't block. False when the line is lost.
    private func send(_ line: [UInt8]) -> Bool {
        var poller = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        // With the reader gone there is an error beside it; not writing then saves the SIGPIPE.
        guard poll(&poller, 1, 0) == 1, poller.revents == Int16(POLLOUT) else { return false }
        while true {
            let count = Glibc.write(descriptor, line, line.count)
            if count < 0, errno == EINTR { continue }
            return count == line.count
        }
    }

    private static func unixMilliseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }
}
