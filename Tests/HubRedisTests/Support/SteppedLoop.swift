import Dispatch
import Glibc
import HubBase
import HubNet

/// A loop that a test drives: its thread takes turns only while the test waits, and the test goes on only while the loop waits. So both
/// may touch what lives on the loop, one at a time, and a suite needs no locks.
final class SteppedLoop: LoopHandler {
    let loop: NetLoop
    private var thread: LoopThread?
    // Two semaphores pass one baton: they order every access of the two threads.
    private let goLoop = DispatchSemaphore(value: 0)
    private let goTest = DispatchSemaphore(value: 0)
    private var isDone: () -> Bool = { true }
    /// Called in each turn: the advance calls of what lives here.
    var inTurn: [(Instant) -> Void] = []

    init() {
        do {
            loop = try NetLoop(NetLoop.Options(name: "stepped", tick: .milliseconds(5)))
            loop.handler = self
            // The loop is only run there; all else is ordered by the baton.
            nonisolated(unsafe) let loop = loop
            thread = try LoopThread(name: "stepped") { loop.run() }
        } catch {
            fatalError("\(error)")
        }
        goTest.wait()
    }

    /// Ends the thread. Nothing that lives on the loop may be used afterwards.
    func stop() {
        inTurn = []
        isDone = { false }
        loop.stop()
        goLoop.signal()
        thread?.join()
        thread = nil
    }

    func woken() {}
    func timerFired(kind: UInt32, value: UInt64) {}

    func turnEnding() {
        for advance in inTurn { advance(loop.now) }
        guard isDone() else { return }
        goTest.signal()
        goLoop.wait()
    }

    static var now: Instant {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Instant(nanoseconds: UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec))
    }

    /// Takes turns until `condition` holds, at least one; false when it doesn't within `limit`.
    func run(limit: Span = .seconds(5), until condition: () -> Bool) -> Bool {
        let end = SteppedLoop.now + limit
        var holds = false
        withoutActuallyEscaping(condition) { condition in
            isDone = {
                holds = condition()
                return holds || SteppedLoop.now >= end
            }
            goLoop.signal()
            goTest.wait()
            isDone = { true }
        }
        return holds
    }

    func pass(_ span: Span) {
        let end = SteppedLoop.now + span
        _ = run(limit: span + .seconds(1)) { SteppedLoop.now >= end }
    }
}
