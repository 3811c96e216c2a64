import Glibc
import Synchronization

/// What handlers saw, across threads: a test waits for it with a deadline rather than sleeping.
final class Watch<Value: Sendable>: Sendable {
    private let values = Mutex<[Value]>([])

    func note(_ value: Value) { values.withLock { $0.append(value) } }

    var all: [Value] { values.withLock { $0 } }

    /// The values once `count` are there; fewer after 10 s.
    @discardableResult
    func wait(for count: Int) -> [Value] { wait { $0.count >= count } }

    @discardableResult
    func wait(until isThere: ([Value]) -> Bool) -> [Value] {
        for _ in 0..<10_000 {
            let now = all
            if isThere(now) { return now }
            usleep(1000)
        }
        return all
    }
}

/// Holds up the calling thread: what a stopped process or a busy machine does to a loop.
enum StallClock {
    static func pass(milliseconds: UInt32) { usleep(milliseconds * 1000) }
}
