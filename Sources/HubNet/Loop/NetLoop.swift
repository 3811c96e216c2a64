import HubBase

/// One event loop: an epoll instance on a thread of its own, sole owner of its connections, listeners, streams and timers.
///
/// A turn: wait, read the clock once, take what sockets brought (each message goes to the handler at once), fire due timers, call
/// `woken` when somebody posted, call `turnEnding`, then flush: all that a connection got in this turn leaves in one system call.
/// Everything but `wake`, `stop` and `init` may only be called on the loop's thread.
package final class NetLoop {
    package struct Options: Sendable {
        package var name: String
        /// Core to run on; nil: wherever the kernel likes.
        package var core: Int?
        /// The loop takes a turn at least this often, for handlers that need `turnEnding` regularly; nil: only when something happens.
        package var tick: Span?
        package var limits: NetLimits

        package init(name: String, core: Int? = nil, tick: Span? = nil, limits: NetLimits = NetLimits()) {
            self.name = name
            self.core = core
            self.tick = tick
            self.limits = limits
        }
    }

    package init(_ options: Options) throws(NetError) { fatalError("skeleton") }

    /// Not retained. Set before `run`.
    package unowned(unsafe) var handler: (any LoopHandler)?
    package unowned(unsafe) var server: (any ServerHandler)?

    /// The clock as read at the start of this turn.
    package var now: Instant { fatalError("skeleton") }

    /// Runs turns on the calling thread until `stop`.
    package func run() { fatalError("skeleton") }

    /// Any thread: makes `woken` be called in the next turn. One eventfd write for a batch: while a wake is pending it costs one atomic.
    package func wake() { fatalError("skeleton") }
    /// Any thread: `run` returns after the current turn; sockets are closed.
    package func stop() { fatalError("skeleton") }

    // MARK: Timers

    /// Fires `timerFired(kind, value)` once. Resolution 10 ms or better; no closure, no allocation once warm.
    package func schedule(after span: Span, kind: UInt32, value: UInt64) -> TimerID { fatalError("skeleton") }
    package func cancel(_ timer: TimerID) { fatalError("skeleton") }

    // MARK: Server side

    /// Accepts connections from `listener` on this loop. Each loop has a listener of its own (`ListenSocket.open`).
    package func serve(_ listener: consuming ListenSocket) { fatalError("skeleton") }
    package func stopAccepting() { fatalError("skeleton") }

    /// Answers a request that was left `pending`. Ignored when the connection has gone.
    package func respond(_ response: HTTPResponse, to id: ConnectionID) { fatalError("skeleton") }

    // MARK: WebSocket messages out

    /// Encodes one unmasked message into this turn's arena: the header is put in front of what `body` appends. Valid in this turn only;
    /// may be sent to any number of connections.
    package func makeFrame(_ kind: MessageKind, _ body: (inout ByteBuffer) -> Void) -> OutFrame { fatalError("skeleton") }

    /// Queues a frame. No allocation, no retain, no system call; the write happens at the end of the turn. False when the connection has
    /// gone or is closing. A connection whose queue passes its limit is closed with 4008 and reported as `closed`.
    @discardableResult
    package func send(_ frame: OutFrame, to id: ConnectionID, as sendClass: SendClass) -> Bool { fatalError("skeleton") }

    /// `send` to many, by connection index; indexes whose connection has gone are skipped. This is the fan-out's inner loop.
    package func broadcast(_ frame: OutFrame, to indexes: UnsafeBufferPointer<UInt32>, as sendClass: SendClass) { fatalError("skeleton") }

    /// Encodes and queues one message for one connection, masked if we are its client.
    package func sendMessage(_ kind: MessageKind, to id: ConnectionID, as sendClass: SendClass, _ body: (inout ByteBuffer) -> Void) { fatalError("skeleton") }

    /// Starts the closing handshake with code and reason (≤ 123 bytes); what was queued before leaves first.
    package func close(_ id: ConnectionID, code: UInt16, reason: StaticString) { fatalError("skeleton") }
    package func close(_ id: ConnectionID, code: UInt16, reason: String) { fatalError("skeleton") }
    /// Drops the connection without a word.
    package func abort(_ id: ConnectionID) { fatalError("skeleton") }

    // MARK: Authentication deadline

    /// A connection that is upgraded while on hold is closed with `code` when `admit` hasn't been called by then; what it sends doesn't
    /// prolong that.
    package func hold(_ id: ConnectionID, for span: Span, code: UInt16) { fatalError("skeleton") }
    package func admit(_ id: ConnectionID) { fatalError("skeleton") }

    // MARK: Facts

    package func isOpen(_ id: ConnectionID) -> Bool { fatalError("skeleton") }
    /// When the last bytes came in.
    package func lastInbound(_ id: ConnectionID) -> Instant { fatalError("skeleton") }
    /// The peer's address as text.
    package func peer(_ id: ConnectionID) -> String { fatalError("skeleton") }
    package var counters: NetCounters { fatalError("skeleton") }
    /// Open connections of this loop.
    package var connectionCount: Int { fatalError("skeleton") }
    /// Sends a ping now: a pong, or any inbound bytes, prove the peer alive.
    package func ping(_ id: ConnectionID) { fatalError("skeleton") }

    // MARK: Client side (swarm, tools)

    /// Connects to a WebSocket server. `opened`, or `closed` with why not, follows.
    package func connect(_ endpoint: SocketAddress, _ opening: ClientOpening) -> ConnectionID { fatalError("skeleton") }

    // MARK: Raw streams (Redis)

    /// Opens a TCP or Unix stream; the handler is told how it went. The stream lives on this loop.
    package func openStream(to address: SocketAddress, connectDeadline: Span, handler: any StreamHandler) -> ByteStream { fatalError("skeleton") }
}

package protocol LoopHandler: AnyObject {
    /// Somebody called `wake`: take the mailbox.
    func woken()
    func timerFired(kind: UInt32, value: UInt64)
    /// The last moment to encode: writes leave right after. Called in every turn.
    func turnEnding()
}

/// Judges and answers what clients bring. Called on the loop's thread, in each connection's order.
package protocol ServerHandler: AnyObject {
    /// A whole HTTP request. `request` is valid during the call only.
    func request(_ request: borrowing HTTPRequest, on id: ConnectionID) -> RequestOutcome
    /// The WebSocket is open (after our 101, or the server's): messages may be sent.
    func opened(_ id: ConnectionID)
    /// A whole message, text already checked as UTF-8. `bytes` are valid during the call only.
    func message(_ bytes: UnsafeRawBufferPointer, _ kind: MessageKind, on id: ConnectionID)
    /// The WebSocket is over; told exactly once for every connection that was `opened` or asked for by `connect`. The index may be reused
    /// after the call.
    func closed(_ id: ConnectionID, _ end: ConnectionEnd)
}

package enum RequestOutcome {
    case respond(HTTPResponse)
    /// `respond(_:to:)` will be called later; nothing further is read from the connection before.
    case pending
    /// Answer 101 if the request is a valid opening handshake (RFC 6455 §4.2.1), else the right 4xx. Subprotocol: what to choose.
    case upgrade(subprotocol: StaticString?)
}

/// A connection of one loop: an index into its tables (dense, reused) and the generation that tells a late event from a new one.
package struct ConnectionID: Hashable, Sendable {
    package let index: UInt32
    package let generation: UInt32

    @inlinable package init(index: UInt32, generation: UInt32) {
        self.index = index
        self.generation = generation
    }
}

package struct TimerID: Hashable, Sendable {
    package let index: UInt32
    package let generation: UInt32

    package init(index: UInt32, generation: UInt32) {
        self.index = index
        self.generation = generation
    }
}

package enum MessageKind: UInt8, Sendable { case text = 1, binary = 2 }

/// What a queued frame is worth when a queue runs full (architecture, step 7). Thinning itself comes with backpressure.
package enum SendClass: UInt8, Sendable { case reply, publication, presence, read, typing, system }

/// A message in this turn's arena. One value for every wire form of it: the connection's own form (plain; deflated where negotiated, once
/// for all, when deflate comes) is chosen as it's sent.
package struct OutFrame: Sendable {
    package let start: UInt32
    package let count: UInt32

    @inlinable package init(start: UInt32, count: UInt32) {
        self.start = start
        self.count = count
    }
}

package enum ConnectionEnd: Sendable, Equatable {
    /// The peer began the closing handshake. nil: without a code (1005).
    case peer(code: UInt16?)
    /// We began it.
    case us(code: UInt16)
    /// No closing handshake: reset, end of stream, silence, a failed connect. For people.
    case lost(String)
}

/// Byte and count limits, and deadlines, of one loop's connections. Every field is enforced before memory is taken.
package struct NetLimits: Sendable {
    package var headBytes = 8 * 1024
    package var headers = 64
    package var bodyBytes = 1024 * 1024
    package var messageBytes = 64 * 1024
    package var fragments = 1024
    /// Control frames a second that a peer may send, after a burst of twice as many.
    package var controlFramesPerSecond = 100
    package var outboundBytes = 1024 * 1024
    /// Connections of the whole node, shared by its loops.
    package var connections = ConnectionBudget(limit: 1_000_000)
    package var headDeadline: Span = .seconds(10)
    /// An idle keep-alive HTTP connection is closed after this.
    package var keepAlive: Span = .seconds(60)
    package var closeDeadline: Span = .seconds(5)
    package var ping: Span = .seconds(20)
    package var pong: Span = .seconds(10)

    package init() {}
}

/// Monotonic counts since start; read from any thread with relaxed order would be wrong, so the loop's owner copies them out.
package struct NetCounters: Sendable {
    package var accepted: UInt64 = 0
    package var refused: UInt64 = 0
    package var closed: UInt64 = 0
    package var messagesIn: UInt64 = 0
    package var bytesIn: UInt64 = 0
    package var framesOut: UInt64 = 0
    package var bytesOut: UInt64 = 0
    package var writes: UInt64 = 0
    /// Frames that were queued for a connection that then was closed as too slow.
    package var framesDropped: UInt64 = 0
    package var closedTooSlow: UInt64 = 0

    package init() {}
}
