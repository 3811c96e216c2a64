import HubBase

/// All that a loop keeps for one connection: 128 bytes of raw memory in a slab, no object, no closure. What only some need hangs on
/// pointers: a partial frame, a fragmented message, a backlog, the HTTP or client handshake's state. Idle connections have none of them.
///
/// The first cache line is what a delivery touches.
struct Connection {
    enum Phase: UInt8 {
        /// The slot is free, or waits for `closed` to be told.
        case dead
        /// Our TCP connect is under way (client).
        case connecting
        /// Our opening handshake is under way (client).
        case opening
        /// A PROXY header is awaited.
        case preface
        /// The TLS handshake is under way.
        case securing
        /// HTTP: head, body, or waiting for the answer (`isAnswerPending`).
        case http
        /// A WebSocket: messages go both ways.
        case open
        /// Our close frame is queued; the peer's is awaited. What comes in is decoded, and dropped.
        case closing
        /// Nothing more is queued: what is queued drains, then our side ends, and what comes in is thrown away until the peer's end, so that
        /// the peer reads our last bytes rather than a reset.
        case finishing
    }

    struct Flags: OptionSet {
        let rawValue: UInt32
        static let isClient = Flags(rawValue: 1)
        /// In the turn's list of connections to flush.
        static let isDirty = Flags(rawValue: 2)
        /// The socket blocked: EPOLLOUT is on.
        static let isBlocked = Flags(rawValue: 4)
        /// EPOLLIN is off.
        static let isPaused = Flags(rawValue: 8)
        /// `closed` has to be told.
        static let owesReport = Flags(rawValue: 16)
        /// `closed` is about to be told: the slot may not be freed before.
        static let isReporting = Flags(rawValue: 32)
        /// Under a deadline for authentication.
        static let isHeld = Flags(rawValue: 64)
        /// A ping is out and nothing came since.
        static let awaitsPong = Flags(rawValue: 128)
        /// The handler owes the answer to a request.
        static let isAnswerPending = Flags(rawValue: 256)
        /// Our side is shut down.
        static let hasFinished = Flags(rawValue: 512)
        /// In the list of connections whose stored input waits for a go-on.
        static let isResuming = Flags(rawValue: 1024)
        /// Holds one of the budget's places.
        static let isCounted = Flags(rawValue: 2048)
        /// The socket's input has ended.
        static let inputEnded = Flags(rawValue: 4096)
        /// What is queued doesn't begin with a frame: an HTTP response or a handshake goes first.
        static let carriesHTTP = Flags(rawValue: 8192)
        /// Stored input waits until the queue has drained.
        static let waitsForDrain = Flags(rawValue: 16384)
        /// Bytes go through the edge's TLS session.
        static let isSecure = Flags(rawValue: 32768)
        /// TLS begins after the PROXY header.
        static let willBeSecure = Flags(rawValue: 65536)
        /// Holds one of the places beyond the node's limit: for a short request, never for a WebSocket.
        static let isReserve = Flags(rawValue: 131072)
        /// The pace at which clients come in has let it in, before its TLS handshake.
        static let isAdmitted = Flags(rawValue: 262144)
        /// Its stored input waits for the next turn, not for the end of this one.
        static let hadItsShare = Flags(rawValue: 524288)
        /// The handler wants no more of its messages for now.
        static let isHeldBack = Flags(rawValue: 1_048_576)
        /// The handshake's answer leaves with what follows it: it's queued, or put aside in `exchange`.
        static let isWithheld = Flags(rawValue: 2_097_152)
    }

    // MARK: First cache line

    /// -1 when dead.
    var descriptor: Int32 = -1
    var generation: UInt32 = 1
    var phase: Phase = .dead
    /// What leaves looks like this.
    var form = WireForm.plain
    /// With which code the hold's deadline closes; in `closing`, with which one we closed.
    var code: UInt16 = 0
    var flags: Flags = []
    /// The last range of this turn's arena that is queued here; `pendingEnd` 0: none.
    var pendingStart: UInt32 = 0
    var pendingEnd: UInt32 = 0
    /// Ranges queued before it, in the segment pool.
    var segmentHead: UInt32 = SegmentPool.none
    var segmentTail: UInt32 = SegmentPool.none
    /// The pong for the latest of this turn's further pings, in the arena; 0: none.
    var pongStart: UInt32 = 0
    /// Pings answered in this turn.
    var pongs: UInt8 = 0
    var backlog: UnsafeMutablePointer<Backlog>?
    /// `Instant.nanoseconds` of the last bytes in.
    var lastInbound: UInt64 = 0
    /// Bytes that came and couldn't be worked off yet.
    var partial: UnsafeMutablePointer<HeldBytes>?

    // MARK: Second cache line

    /// The collected fragments of a message.
    var fragments: UnsafeMutablePointer<HeldBytes>?
    var exchange: UnsafeMutablePointer<HTTPExchange>?
    var dialogue: UnsafeMutablePointer<ClientDialogue>?
    /// TLS, and the client behind a proxy.
    var edge: UnsafeMutablePointer<ConnectionEdge>?
    var decoder = FrameDecoder(role: .server)
    /// Largest message in, where it isn't the loop's limit; 0: the loop's.
    var messageLimit: UInt32 = 0
    /// Of the message that is being collected.
    var fragmentKind: MessageKind = .binary
    /// Control frames: when the allowance is full again, in units of 100 µs of the loop's clock. (Streams of events send none: `topic`.)
    var controlFullAt: UInt32 = 0

    /// Of a stream of events: frames that are labelled for this topic carry their label; 0: none do.
    var topic: UInt32 {
        get { controlFullAt }
        set { controlFullAt = newValue }
    }
}
