import HubBase

/// Everything of a loop that changes, in raw memory behind one constant pointer: a class's own stored properties would pay a run-time
/// exclusivity check for each access, on a path that does a dozen for each delivery.
///
/// What must hold instead: accesses are short. No method that calls a handler is `mutating` on this or on one of its parts, since the
/// handler calls back into the loop.
struct LoopState: ~Copyable {
    /// A `closed` that will be told as soon as no handler's call is on the stack.
    struct End {
        var index: UInt32
        var end: ConnectionEnd
        var reason: String
    }

    /// Shared by all connections for reading: an idle connection has no buffer.
    static let scratchBytes = 256 * 1024
    /// The arena begins with bytes that are never sent, so that offset 0 can mean "none" and a header may be written in front of anything.
    static let arenaPad = 16
    /// A turn whose frames pass this is ended between two sockets.
    static let arenaSplit = 4 * 1024 * 1024
    static let arenaKept = 8 * 1024 * 1024

    var now: Instant
    var counters = NetCounters()
    /// Of the end that is being told.
    var closeReason = ""
    var limits: NetLimits
    var frameLimits: FrameLimits
    var table = ConnectionTable()
    /// One deadline a connection, by its index; the phase says what it means.
    var deadlines: TimerWheel
    var timers: TimerSlab

    /// This turn's frames, responses and handshakes.
    var arena = ByteBuffer(capacity: 64 * 1024)
    var isEncoding = false
    /// How many of them `makeFrame` made.
    var framesMade: UInt32 = 0
    var compression: Compression
    var labels = EventLabels()
    var segments = SegmentPool()
    var notes = ClassNotes()
    var dirty: UnsafeMutablePointer<UInt32>
    var dirtyCount = 0
    var dirtyCapacity = 1024
    /// Where a connection's several pieces become one.
    var gathered = ByteBuffer(capacity: 16 * 1024)
    /// What is left of a turn's frames for a queue that is thinned.
    var thinned = ByteBuffer(capacity: 1024)
    var conflated = ByteBuffer(capacity: 1024)
    /// Taken from the send budget for a queue that is about to be made.
    var chargedAhead = 0
    let scratch: UnsafeMutableRawPointer
    /// Made with the first TLS session.
    var tlsScratch: UnsafeMutablePointer<TLSScratch>?

    /// Clients that wait to begin TLS.
    var herd = Herd()

    var withheld = WithheldAnswers()

    /// By connection index, where `connectionsPerAddress` is set: what `addresses` counts for it; 0: nothing.
    var addressKeys: [UInt64] = []
    /// Of connections that were pinged with bytes under way: what the peer had acknowledged by then.
    var acknowledged: [UInt32: UInt64] = [:]

    var ends: [End] = []
    var resumes: [ConnectionID] = []
    /// Those of them that are being worked off.
    var goingOn: [ConnectionID] = []
    /// Of the connection that is being read.
    var share = InputShare()
    var streams = StreamTable()
    /// Masking keys (RFC 6455 §5.3 wants them unpredictable for whoever chooses the payload: seeded by the system).
    var chance: Chance

    init(limits: NetLimits, now: Instant, seed: UInt64) {
        self.now = now
        self.limits = limits
        frameLimits = FrameLimits(limits)
        compression = Compression(level: limits.deflate.level)
        deadlines = TimerWheel(now: now)
        timers = TimerSlab(now: now)
        dirty = .allocate(capacity: 1024)
        scratch = .allocate(byteCount: Self.scratchBytes, alignment: 64)
        chance = Chance(seed: seed)
        _ = arena.reserve(Self.arenaPad)
        arena.advance(by: Self.arenaPad)
    }

    deinit {
        dirty.deallocate()
        scratch.deallocate()
        TLSScratch.free(tlsScratch)
    }

    @inline(__always)
    mutating func appendDirty(_ index: UInt32) {
        if dirtyCount == dirtyCapacity { growDirty() }
        dirty[dirtyCount] = index
        dirtyCount += 1
    }

    @inline(never)
    private mutating func growDirty() {
        let next = UnsafeMutablePointer<UInt32>.allocate(capacity: dirtyCapacity * 2)
        next.moveInitialize(from: dirty, count: dirtyCount)
        dirty.deallocate()
        dirty = next
        dirtyCapacity *= 2
    }

    mutating func keepAddress(_ key: UInt64, of index: UInt32) {
        if addressKeys.count <= Int(index) {
            addressKeys.append(contentsOf: repeatElement(0, count: Int(table.count) - addressKeys.count))
        }
        addressKeys[Int(index)] = key
    }

    /// 0: none was kept.
    mutating func takeAddress(of index: UInt32) -> UInt64 {
        guard Int(index) < addressKeys.count else { return 0 }
        defer { addressKeys[Int(index)] = 0 }
        return addressKeys[Int(index)]
    }

    /// What is encoded for this turn, in every form.
    var turnBytes: Int { arena.count - Self.arenaPad + compression.arena.count }

    @inline(__always)
    func bytes(from start: UInt32, to end: UInt32) -> UnsafeRawBufferPointer {
        let base = ArenaRange.isTwin(start) ? compression.arena.base : arena.base
        return UnsafeRawBufferPointer(start: base + ArenaRange.place(start), count: Int(end - start))
    }

    /// Everything of the turn has left: its frames end.
    mutating func clearArena() {
        framesMade = 0
        compression.endTurn()
        labels.removeAll()
        segments.removeAll()
        notes.removeAll()
        arena.removeAll()
        arena.trim(above: Self.arenaKept)
        thinned.trim(above: Self.arenaKept)
        conflated.trim(above: Self.arenaKept)
        _ = arena.reserve(Self.arenaPad)
        arena.advance(by: Self.arenaPad)
    }
}
