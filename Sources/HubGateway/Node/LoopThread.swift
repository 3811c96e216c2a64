import Glibc
import HubNet

/// A thread that runs one loop until the loop stops. `start` hands the loop over: from then on only the thread touches it, but for
/// `wake` and `stop`, which are safe from anywhere.
final class LoopThread {
    private var thread = pthread_t()
    private let name: String
    private let body: () -> Void

    private init(name: String, body: @escaping () -> Void) {
        self.name = name
        self.body = body
    }

    static func start(name: String, _ body: @escaping () -> Void) throws(NetError) -> LoopThread {
        let thread = LoopThread(name: name, body: body)
        let argument = Unmanaged.passRetained(thread).toOpaque()
        let failure = pthread_create(&thread.thread, nil, { argument in
            let this = Unmanaged<LoopThread>.fromOpaque(argument!).takeRetainedValue()
            this.body()
            return nil
        }, argument)
        guard failure == 0 else {
            Unmanaged<LoopThread>.fromOpaque(argument).release()
            throw NetError(number: failure, description: "can't start the thread \(name)")
        }
        return thread
    }

    func join() { pthread_join(thread, nil) }
}

/// A loop as other threads may hold it.
///
/// `@unchecked Sendable`: only `wake` and `stop` are reachable through it, which NetLoop documents as safe from any thread.
struct LoopWaker: @unchecked Sendable {
    private let loop: NetLoop
    init(_ loop: NetLoop) { self.loop = loop }
    func wake() { loop.wake() }
    func stop() { loop.stop() }
}
