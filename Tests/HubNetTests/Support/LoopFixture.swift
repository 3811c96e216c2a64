import HubBase
import HubNet
import Synchronization

/// A loop on a thread of its own with a listener, and a handler that tests can script. `perform` runs code on the loop's thread.
// @unchecked: `isStopped` is touched by the test's own thread only; the rest is constant.
final class LoopFixture: @unchecked Sendable {
    let port: Int
    let ends: Watch<ConnectionEnd>
    let opens: Watch<ConnectionID>
    private let signal: LoopSignal
    private let jobs: Mailbox<Job>
    private let thread: LoopThread
    private var isStopped = false

    struct Job: Sendable { let run: @Sendable (NetLoop, Handler) -> Void }

    /// Everything can be scripted; without a script: upgrade /ws, 200 for the rest, echo messages.
    final class Handler: LoopHandler, ServerHandler {
        let loop: NetLoop
        let jobs: Mailbox<Job>
        let ends: Watch<ConnectionEnd>
        let opens: Watch<ConnectionID>
        private var batch: [Job] = []
        var onRequest: ((borrowing HTTPRequest, ConnectionID) -> RequestOutcome)?
        var onOpened: ((ConnectionID) -> Void)?
        var onMessage: ((UnsafeRawBufferPointer, MessageKind, ConnectionID) -> Void)?
        var onClosed: ((ConnectionID, ConnectionEnd) -> Void)?
        var onDrained: ((ConnectionID, DroppedFrames) -> Void)?
        var onTimer: ((UInt32, UInt64) -> Void)?
        var onWoken: (() -> Void)?
        var onTurnEnding: (() -> Void)?

        init(_ loop: NetLoop, _ jobs: Mailbox<Job>, _ ends: Watch<ConnectionEnd>, _ opens: Watch<ConnectionID>) {
            self.loop = loop
            self.jobs = jobs
            self.ends = ends
            self.opens = opens
        }

        func woken() {
            jobs.take(into: &batch)
            let taken = batch
            batch.removeAll()
            for job in taken { job.run(loop, self) }
            onWoken?()
        }

        func timerFired(kind: UInt32, value: UInt64) { onTimer?(kind, value) }
        func turnEnding() { onTurnEnding?() }

        func request(_ request: borrowing HTTPRequest, on id: ConnectionID) -> RequestOutcome {
            if let onRequest { return onRequest(request, id) }
            let path = String(decoding: request.path.bytes(in: request.head), as: UTF8.self)
            if path == "/ws" { return .upgrade(subprotocol: nil) }
            return .respond(HTTPResponse(status: 200, body: [UInt8](path.utf8) + [UInt8](request.body)))
        }

        func opened(_ id: ConnectionID) {
            opens.note(id)
            onOpened?(id)
        }

        func message(_ bytes: UnsafeRawBufferPointer, _ kind: MessageKind, on id: ConnectionID) {
            if let onMessage { return onMessage(bytes, kind, id) }
            loop.sendMessage(kind, to: id, as: .reply) { $0.append(bytes) }
        }

        func closed(_ id: ConnectionID, _ end: ConnectionEnd) {
            ends.note(end)
            onClosed?(id, end)
        }

        func drained(_ id: ConnectionID, _ dropped: DroppedFrames) { onDrained?(id, dropped) }
    }

    init(
        _ limits: NetLimits = NetLimits(), tick: Span? = nil, tls: TLSContext? = nil, proxies: TrustedProxies? = nil,
        _ script: @escaping @Sendable (Handler) -> Void = { _ in }
    ) throws {
        let boxes = try ListenSocket.open(SocketAddress("127.0.0.1:0")!, count: 1)
        port = boxes[0].address.port
        let loop = try NetLoop(NetLoop.Options(name: "test", tick: tick, limits: limits, proxies: proxies))
        loop.tls = tls
        loop.serve(boxes[0].take(), isSecure: tls != nil)
        signal = loop.signal
        let jobs = Mailbox<Job>()
        let ends = Watch<ConnectionEnd>()
        let opens = Watch<ConnectionID>()
        self.jobs = jobs
        self.ends = ends
        self.opens = opens
        thread = try LoopThread(name: "test loop") {
            let handler = Handler(loop, jobs, ends, opens)
            script(handler)
            loop.handler = handler
            loop.server = handler
            loop.run()
            withExtendedLifetime(handler) {}
        }
    }

    func stop() {
        guard !isStopped else { return }
        isStopped = true
        signal.stop()
        thread.join()
    }

    deinit { stop() }

    /// Runs `body` in one turn of the loop, and waits for its result.
    func perform<Result: Sendable>(_ body: @escaping @Sendable (NetLoop, Handler) -> Result) -> Result {
        let results = Watch<Result>()
        jobs.post(Job { results.note(body($0, $1)) })
        signal.wake()
        return results.wait(for: 1)[0]
    }

    var counters: NetCounters { perform { loop, _ in loop.counters } }

    /// Asks the loop until the answer is true; false after 10 s.
    func eventually(_ question: @escaping @Sendable (NetLoop) -> Bool) -> Bool {
        for _ in 0..<10_000 {
            if perform({ loop, _ in question(loop) }) { return true }
            StallClock.pass(milliseconds: 1)
        }
        return false
    }

    /// A client with an open WebSocket over TLS, and its id.
    func joinSecurely(_ offer: TLSLayer.Offer = TLSLayer.Offer(), receiveBuffer: Int32? = nil) throws -> (RawClient, ConnectionID) {
        let before = opens.all.count
        let client = RawClient(port: port, receiveBuffer: receiveBuffer)
        try client.secure(offer)
        try client.upgrade()
        return (client, opens.wait(for: before + 1)[before])
    }

    /// A client with an open WebSocket, and its id.
    func join(receiveBuffer: Int32? = nil) throws -> (RawClient, ConnectionID) {
        let before = opens.all.count
        let client = RawClient(port: port, receiveBuffer: receiveBuffer)
        try client.upgrade()
        return (client, opens.wait(for: before + 1)[before])
    }
}
