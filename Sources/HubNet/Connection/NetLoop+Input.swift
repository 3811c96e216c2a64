import CHubShims
import Glibc
import HubBase

/// What sockets bring: read into the loop's scratch buffer, or into the memory that a partial frame was promised, and worked off at once.
extension NetLoop {
    /// What `work` came to.
    struct Progress {
        /// Bytes that are done with.
        var consumed: Int
        /// How many the front needs at least before there's more to do; 0: unknown.
        var wanted: Int
    }

    /// Reads of one socket in one turn: whoever sends more waits for the others' turn.
    static let readsMax = 4
    /// A partial frame up to this size gets its memory at once, a larger one in proportion to what has come: an announcement costs nothing.
    private static let trustedBytes = 64 * 1024 + 16
    private static let partialBytesMin = 128
    private static let prefaceRoom = 4 * 1024

    func connectionEvent(_ index: UInt32, generation: UInt32, _ events: UInt32) {
        let id = ConnectionID(index: index, generation: generation)
        guard let connection = state.pointee.table.find(id) else { return }
        if connection.pointee.phase == .connecting {
            clientConnected(index, connection)
            return
        }
        if events & Readiness.input != 0 {
            read(index, connection)
            guard state.pointee.table.find(id) != nil else { return }
        } else if events & Readiness.broken != 0 {
            // What is stored comes first; this is told again.
            if connection.pointee.phase == .open, connection.pointee.flags.contains(.isResuming) { return }
            // Nothing is left to read.
            let number = hub_socket_error(connection.pointee.descriptor)
            lose(index, connection, number == 0 ? "hung up" : System.message(number))
            return
        }
        if events & Readiness.output != 0 { drainBacklog(index, connection) }
    }

    /// Takes what the socket holds, up to `readsMax` buffers.
    func read(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        let generation = connection.pointee.generation
        state.pointee.share = InputShare()
        for _ in 0..<Self.readsMax {
            let flags = connection.pointee.flags
            guard flags.isDisjoint(with: [.isPaused, .inputEnded, .isSecure]) else {
                if flags.isDisjoint(with: [.isPaused, .inputEnded]) { readSecure(index, connection) }
                return
            }
            let room: Int
            let target: UnsafeMutableRawPointer
            if let partial = connection.pointee.partial {
                room = partial.pointee.capacity - partial.pointee.count
                target = HeldBytes.bytes(partial) + partial.pointee.count
            } else {
                room = Self.inputRoom(connection)
                target = state.pointee.scratch
            }
            switch System.receive(connection.pointee.descriptor, target, room) {
            case .bytes(0):
                inputEnded(index, connection)
                return
            case .bytes(let count):
                state.pointee.counters.bytesIn += UInt64(count)
                connection.pointee.lastInbound = state.pointee.now.nanoseconds
                connection.pointee.flags.remove(.awaitsPong)
                if let partial = connection.pointee.partial {
                    partial.pointee.count += count
                    workOffPartial(index, connection)
                } else {
                    workOff(index, connection, UnsafeMutableRawBufferPointer(start: target, count: count))
                }
                guard connection.pointee.generation == generation, connection.pointee.phase != .dead, count == room else { return }
            case .wouldBlock: return
            case .failed(let number):
                lose(index, connection, System.message(number))
                return
            }
        }
    }

    /// How much is read at once: some messages of the usual limit. What has to wait for its turn is stored, and so is what comes behind a PROXY header
    /// while its TLS handshake waits.
    @inline(__always)
    static func inputRoom(_ connection: UnsafeMutablePointer<Connection>) -> Int {
        connection.pointee.phase == .preface ? prefaceRoom : LoopState.scratchBytes / 4
    }

    /// Works off what came while nothing was stored, and stores what is left of it.
    @inline(__always)
    func workOff(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ bytes: UnsafeMutableRawBufferPointer) {
        let generation = connection.pointee.generation
        let progress = work(index, connection, bytes)
        guard connection.pointee.generation == generation, connection.pointee.phase != .dead else { return }
        keep(connection, UnsafeMutableRawBufferPointer(rebasing: bytes[progress.consumed...]), wanted: progress.wanted)
    }

    /// Works off what is stored. The memory is taken from the connection meanwhile: a handler that ends the connection while it looks at a
    /// message must not pull the message from under itself.
    func workOffPartial(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        guard let partial = connection.pointee.partial else { return }
        let generation = connection.pointee.generation
        connection.pointee.partial = nil
        let progress = work(index, connection, HeldBytes.buffer(partial))
        var held: UnsafeMutablePointer<HeldBytes>? = partial
        guard connection.pointee.generation == generation, connection.pointee.phase != .dead, progress.consumed < partial.pointee.count
        else {
            HeldBytes.free(&held)
            return
        }
        if progress.consumed > 0 { HeldBytes.removeFirst(partial, progress.consumed) }
        HeldBytes.grow(&held, capacity: Self.capacity(connection, count: partial.pointee.count, wanted: progress.wanted))
        connection.pointee.partial = held
    }

    private func keep(_ connection: UnsafeMutablePointer<Connection>, _ rest: UnsafeMutableRawBufferPointer, wanted: Int) {
        guard let source = rest.baseAddress, rest.count > 0 else { return }
        let held = HeldBytes.make(capacity: Self.capacity(connection, count: rest.count, wanted: wanted))
        HeldBytes.bytes(held).copyMemory(from: source, byteCount: rest.count)
        held.pointee.count = rest.count
        connection.pointee.partial = held
    }

    /// More than `count`, so that there's always room to read into. What is wanted has been judged against the limits before.
    private static func capacity(_ connection: UnsafeMutablePointer<Connection>, count: Int, wanted: Int) -> Int {
        // Nothing is added before this is worked off.
        if connection.pointee.flags.contains(.isPaused) { return max(partialBytesMin, count + 1) }
        let useful = wanted > count ? wanted : count * 2
        return max(partialBytesMin, count + 1, min(useful, max(trustedBytes, count * 2)))
    }

    /// Works off bytes from the front, phase by phase: an upgrade's leftover goes to the frame decoder at once.
    private func work(
        _ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ bytes: UnsafeMutableRawBufferPointer
    ) -> Progress {
        let generation = connection.pointee.generation
        var offset = 0
        while true {
            let rest = UnsafeMutableRawBufferPointer(rebasing: bytes[offset...])
            let phase = connection.pointee.phase
            let progress: Progress
            switch phase {
            // Nothing is asked on a connection whose answer doesn't end.
            case .open where connection.pointee.form == .events: return Progress(consumed: bytes.count, wanted: 0)
            case .open, .closing: progress = workOffFrames(index, connection, rest)
            case .http: progress = workOffHTTP(index, connection, rest)
            case .opening: progress = workOffOpening(index, connection, rest)
            case .preface: progress = workOffPreface(index, connection, rest)
            case .securing:
                // After a PROXY header, in the same bytes.
                guard !rest.isEmpty, mayShakeHands(index, connection) else { return Progress(consumed: offset, wanted: 0) }
                takeCiphertext(index, connection, UnsafeRawBufferPointer(rest))
                return Progress(consumed: bytes.count, wanted: 0)
            case .finishing, .dead, .connecting: return Progress(consumed: bytes.count, wanted: 0)
            }
            offset += progress.consumed
            guard connection.pointee.generation == generation, connection.pointee.phase != phase else {
                return Progress(consumed: offset, wanted: progress.wanted)
            }
        }
    }

    // MARK: Go-ons

    /// Stops reading from a socket: what it holds waits in the kernel, and fills the peer's window.
    func pause(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        guard !connection.pointee.flags.contains(.isPaused) else { return }
        connection.pointee.flags.insert(.isPaused)
        updateInterest(index, connection)
    }

    /// Has the stored input worked off and reading taken up again, later in this turn or in the next one.
    func resumeLater(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        guard !connection.pointee.flags.contains(.isResuming) else { return }
        connection.pointee.flags.insert(.isResuming)
        state.pointee.resumes.append(ConnectionID(index: index, generation: connection.pointee.generation))
    }

    /// Hands on no further message of this connection until `goOnReading`: they wait, stored as far as they were read, else in the kernel. Pings wait, too,
    /// and it isn't judged whether the peer lives: for a short time that has an end of its own.
    package func holdReading(_ id: ConnectionID) {
        guard let connection = state.pointee.table.find(id), connection.pointee.phase == .open, connection.pointee.form != .events else {
            return
        }
        connection.pointee.flags.insert(.isHeldBack)
        pause(id.index, connection)
    }

    /// Nothing happens when it isn't held back.
    package func goOnReading(_ id: ConnectionID) {
        guard let connection = state.pointee.table.find(id), connection.pointee.flags.contains(.isHeldBack) else { return }
        connection.pointee.flags.remove(.isHeldBack)
        resumeLater(id.index, connection)
    }

    func goOn() {
        guard !state.pointee.resumes.isEmpty else { return }
        // Those that come in meanwhile wait for the next turn.
        swap(&state.pointee.resumes, &state.pointee.goingOn)
        defer { state.pointee.goingOn.removeAll(keepingCapacity: true) }
        for place in state.pointee.goingOn.indices {
            let id = state.pointee.goingOn[place]
            guard let connection = state.pointee.table.find(id), connection.pointee.flags.contains(.isResuming) else { continue }
            if connection.pointee.flags.contains(.isHeldBack) {
                connection.pointee.flags.subtract([.isResuming, .hadItsShare])
                continue
            }
            if connection.pointee.flags.contains(.hadItsShare) {
                connection.pointee.flags.remove(.hadItsShare)
                state.pointee.resumes.append(id)
                continue
            }
            connection.pointee.flags.subtract([.isResuming, .isPaused, .waitsForDrain])
            state.pointee.share = InputShare()
            workOffPartial(id.index, connection)
            connection.pointee.flags.remove(.hadItsShare)
            deliverEnds()
            splitTurn()
            guard state.pointee.table.find(id) != nil, !connection.pointee.flags.contains(.isPaused) else { continue }
            if connection.pointee.flags.contains(.inputEnded) {
                inputEnded(id.index, connection)
            } else {
                updateInterest(id.index, connection)
            }
        }
    }

    func updateInterest(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        let flags = connection.pointee.flags
        var events: UInt32 = 0
        if !flags.contains(.isPaused) && !flags.contains(.inputEnded) { events |= Readiness.input }
        if flags.contains(.isBlocked) { events |= Readiness.output }
        let data = EventTag(.connection, index: index, generation: connection.pointee.generation).data
        let result = System.watch(epoll, EPOLL_CTL_MOD, connection.pointee.descriptor, events: events, data: data)
        if result != 0 { lose(index, connection, System.message(result)) }
    }

    /// The peer sends nothing more.
    func inputEnded(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        connection.pointee.flags.insert(.inputEnded)
        switch connection.pointee.phase {
        case .http:
            // Whoever closes its side after the request may still read the answer.
            if connection.pointee.flags.contains(.isAnswerPending) || connection.pointee.flags.contains(.waitsForDrain) {
                updateInterest(index, connection)
            } else {
                finish(index, connection)
            }
        case .finishing:
            if connection.pointee.flags.contains(.hasFinished) {
                tearDown(index)
            } else {
                updateInterest(index, connection)
            }
        // It ended right behind what is stored (TLS tells both at once): that is worked off first.
        case .open where connection.pointee.flags.contains(.isPaused): updateInterest(index, connection)
        case .open, .closing, .opening: lose(index, connection, "the peer ended the stream without a closing handshake")
        case .preface, .securing: failArrival(index, connection, "the peer ended the stream")
        case .connecting, .dead: break
        }
    }
}
