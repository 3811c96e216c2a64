import HubBase

/// Clients that came all at once and wait to begin TLS, first come, first served. Each is a socket with its bytes still in the kernel and a
/// connection's 128 bytes: no session, which would cost 13 KB and a third of a millisecond (docs/decisions/0098).
struct Herd {
    /// Handshakes that begin in one turn: at 0.33 ms (P-256) to 0.62 ms (RSA 2048) each nobody else waits for more than some milliseconds.
    static let perTurnMax = 8
    /// How soon those who wait are looked at again when the pace is used up.
    static let patience = Span.milliseconds(10)

    private var waiting: [ConnectionID] = []
    private var first = 0
    /// Handshakes begun in this turn.
    var begun = 0
    /// Some may go on as soon as the turn has ended.
    var isPressing = false
    var isTimed = false

    var isEmpty: Bool { first == waiting.count }

    mutating func append(_ id: ConnectionID) { waiting.append(id) }

    var next: ConnectionID? { first < waiting.count ? waiting[first] : nil }

    mutating func removeFirst() {
        first += 1
        if first == waiting.count {
            waiting.removeAll(keepingCapacity: waiting.capacity <= 4096)
            first = 0
        } else if first >= 1024, first * 2 >= waiting.count {
            waiting.removeFirst(first)
            first = 0
        }
    }
}

/// Admission before the TLS handshake.
extension NetLoop {
    /// Whether this client's handshake may begin now. Those who may not aren't read from any more until it's their turn or their deadline passes.
    func mayShakeHands(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) -> Bool {
        guard connection.pointee.flags.isDisjoint(with: [.isAdmitted, .isClient]) else { return true }
        guard !state.pointee.herd.isEmpty || !admit(index, connection) else { return connection.pointee.phase == .securing }
        state.pointee.counters.tlsWaited += 1
        state.pointee.herd.append(ConnectionID(index: index, generation: connection.pointee.generation))
        pause(index, connection)
        press()
        return false
    }

    /// False: not in this turn, or not at the node's pace.
    private func admit(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) -> Bool {
        guard state.pointee.herd.begun < Herd.perTurnMax,
            options.limits.admission.admits(perSecond: options.limits.admissionsPerSecond, at: state.pointee.now)
        else { return false }
        state.pointee.herd.begun += 1
        connection.pointee.flags.insert(.isAdmitted)
        makeSession(index, connection)
        return true
    }

    /// Once a turn: those who waited longest, as far as the pace allows.
    func letIn() {
        state.pointee.herd.isPressing = false
        guard !state.pointee.herd.isEmpty else { return }
        while let id = state.pointee.herd.next {
            if let connection = state.pointee.table.find(id), connection.pointee.phase == .securing {
                guard admit(id.index, connection) else { break }
                state.pointee.herd.removeFirst()
                // The wait was our doing: the handshake has its whole time now, or it would be begun for nothing.
                state.pointee.deadlines.arm(id.index, at: arrivalDeadline(connection, options.limits.tlsDeadline))
                if connection.pointee.phase == .securing { resumeLater(id.index, connection) }
            } else {
                state.pointee.herd.removeFirst()
            }
        }
        press()
    }

    /// Sees to it that those who wait are looked at again.
    private func press() {
        guard !state.pointee.herd.isEmpty else { return }
        if state.pointee.herd.begun >= Herd.perTurnMax {
            state.pointee.herd.isPressing = true
        } else if !state.pointee.herd.isTimed {
            state.pointee.herd.isTimed = true
            _ = state.pointee.timers.schedule(at: state.pointee.now + Herd.patience, owner: .arrivals, kind: 0, value: 0)
        }
    }

    /// Whether the pace has let it in already, so that it needn't be asked again.
    package func wasAdmitted(_ id: ConnectionID) -> Bool { state.pointee.table.find(id)?.pointee.flags.contains(.isAdmitted) ?? false }
}
