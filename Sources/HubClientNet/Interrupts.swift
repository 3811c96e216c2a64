import Glibc
import HubNet
import Synchronization

/// SIGINT and SIGTERM as news for a loop: a thread of its own waits for them, because nearly nothing may be called in a signal handler.
///
/// Make it before any other thread: signals are blocked in those that are started afterwards. SIGPIPE is ignored from then on.
package final class Interrupts: Sendable {
    private let count = Atomic<Int>(0)
    private let waiting = Mutex<[LoopSignal]>([])

    /// How many came so far. The second one means: at once.
    package var received: Int { count.load(ordering: .acquiring) }

    package init() throws(NetError) {
        signal(SIGPIPE, SIG_IGN)
        var set = sigset_t()
        sigemptyset(&set)
        sigaddset(&set, SIGINT)
        sigaddset(&set, SIGTERM)
        pthread_sigmask(SIG_BLOCK, &set, nil)
        let blocked = set
        let thread = try LoopThread(name: "signals") { [self] in
            var set = blocked
            while true {
                var number: Int32 = 0
                guard sigwait(&set, &number) == 0 else { continue }
                count.wrappingAdd(1, ordering: .releasing)
                waiting.withLock { for loop in $0 { loop.wake() } }
            }
        }
        thread.detach()
    }

    /// The loop's handler gets `woken` at each signal.
    package func wake(_ loop: LoopSignal) { waiting.withLock { $0.append(loop) } }
}
