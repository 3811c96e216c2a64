import CHubShims
import Glibc

/// A thread for one loop: what `body` captures moves there, and is let go there.
///
///     let thread = try LoopThread(name: "loop 0") { loop.run() }
///
/// Not a Swift task: a loop blocks its thread for ever, and must never sit on a shared pool's.
package final class LoopThread: @unchecked Sendable {
    // @unchecked: `thread` is written once in `init`, before anybody else can see it.
    private let thread: pthread_t

    private final class Start {
        let name: String
        let body: () -> Void
        init(name: String, body: @escaping () -> Void) {
            self.name = name
            self.body = body
        }
    }

    package init(name: String, _ body: sending @escaping () -> Void) throws(NetError) {
        let start = Unmanaged.passRetained(Start(name: name, body: body))
        var thread = pthread_t()
        let result = pthread_create(
            &thread, nil,
            { argument in
                guard let argument else { return nil }
                let start = Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
                hub_name_thread(start.name)
                start.body()
                return nil
            }, start.toOpaque())
        if result != 0 {
            start.release()
            throw System.error(result, "pthread_create")
        }
        self.thread = thread
    }

    /// Waits until the body has returned. Once, by one thread.
    package func join() { pthread_join(thread, nil) }

    /// Lets it end by itself; `join` isn't possible afterwards.
    package func detach() { pthread_detach(thread) }
}
