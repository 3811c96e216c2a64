import HubNet

/// A loop as other threads may hold it.
///
/// `@unchecked Sendable`: only `wake` and `stop` are reachable through it, which NetLoop documents as safe from any thread.
struct LoopWaker: @unchecked Sendable {
    private let loop: NetLoop
    init(_ loop: NetLoop) { self.loop = loop }
    func wake() { loop.wake() }
    func stop() { loop.stop() }
}
