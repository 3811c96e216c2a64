import HubBase

/// A handshake's answer that waits for the first message.
///
/// A client that has said all it must with its request is answered twice: by the 101, and by the message that tells it where it is, a
/// round trip to the store later. One write for both costs half of two, and the client, which can do nothing in between, hears both as early.
extension NetLoop {
    /// For `opened`: the 101 leaves with the next bytes for this connection, or after 50 ms (in a loop's resolution of 10 ms). Cost: a copy of
    /// the answer (some 130 bytes) kept meanwhile. Ignored for connections that aren't just being upgraded.
    package func withhold(_ id: ConnectionID) {
        guard let connection = state.pointee.table.find(id), connection.pointee.phase == .open, let exchange = connection.pointee.exchange,
            connection.pointee.backlog == nil, connection.pointee.segmentHead == SegmentPool.none,
            connection.pointee.pendingEnd == exchange.pointee.answerEnd
        else { return }
        connection.pointee.flags.insert(.isWithheld)
    }

    /// The end of the turn: puts the answer aside when nothing came behind it. False: it's to be written now.
    func putAside(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) -> Bool {
        guard let exchange = connection.pointee.exchange, exchange.pointee.head == nil,
            connection.pointee.segmentHead == SegmentPool.none, connection.pointee.pendingEnd == exchange.pointee.answerEnd
        else {
            forgetWithheld(connection)
            return false
        }
        let bytes = state.pointee.bytes(from: connection.pointee.pendingStart, to: connection.pointee.pendingEnd)
        connection.pointee.pendingEnd = 0
        HeldBytes.append(&exchange.pointee.head, bytes, limit: bytes.count)
        let isFirst = state.pointee.withheld.isEmpty
        state.pointee.withheld.append(ConnectionID(index: index, generation: connection.pointee.generation), at: state.pointee.now)
        if isFirst { armWithheld() }
        return true
    }

    /// Something is about to be queued: what was put aside goes first. Nothing is queued for this connection yet in this turn.
    func queueWithheld(_ connection: UnsafeMutablePointer<Connection>) {
        guard let exchange = connection.pointee.exchange, let held = exchange.pointee.head else { return }
        let start = state.pointee.arena.count
        state.pointee.arena.append(UnsafeRawBufferPointer(HeldBytes.buffer(held)))
        let range = range(from: start)
        forgetWithheld(connection)
        connection.pointee.pendingStart = range.start
        connection.pointee.pendingEnd = range.end
    }

    func forgetWithheld(_ connection: UnsafeMutablePointer<Connection>) {
        connection.pointee.flags.remove(.isWithheld)
        HTTPExchange.free(&connection.pointee.exchange)
    }

    private func armWithheld() {
        guard let due = state.pointee.withheld.due else { return }
        _ = state.pointee.timers.schedule(at: due, owner: .withheld, kind: 0, value: 0)
    }

    func withheldDue() {
        while let id = state.pointee.withheld.removeDue(at: state.pointee.now) {
            if let connection = state.pointee.table.find(id), connection.pointee.flags.contains(.isWithheld) {
                markDirty(id.index, connection)
                queueWithheld(connection)
            }
        }
        armWithheld()
    }
}
