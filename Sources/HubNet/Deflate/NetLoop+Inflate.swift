import HubBase

/// Compressed messages in: inflated as a whole when their last byte is there, so that between two reads no connection owns zlib's state.
extension NetLoop {
    /// Inflates a message and hands it on, or fails the connection. Returns how many bytes came out: a few KB may be a thousand times as much, and
    /// count as that in the connection's share of the turn.
    func deliverInflated(
        _ payload: UnsafeRawBufferPointer, _ kind: MessageKind, _ limits: FrameLimits, _ id: ConnectionID,
        _ connection: UnsafeMutablePointer<Connection>
    ) -> Int {
        let owner = connection.pointee.form.ownsInflater ? id.index : nil
        let outcome = state.pointee.compression.inflate(payload, limit: Int(limits.messageBytes), owner: owner)
        let bytes = state.pointee.compression.inflated.bytes
        state.pointee.counters.inflateBytesIn += UInt64(payload.count)
        state.pointee.counters.inflateBytesOut += UInt64(bytes.count)
        switch outcome {
        case .message where kind == .text && !UTF8Check.isValid(bytes): refuse(id, connection, 1007, "the text isn't UTF-8")
        case .message:
            state.pointee.counters.inflated += 1
            deliver(bytes, kind, id)
        case .tooBig: refuse(id, connection, 1009, "the message is too big")
        case .malformed: refuse(id, connection, 1007, "the message isn't deflate")
        case nil: refuse(id, connection, 1011, "no memory to inflate with")
        }
        state.pointee.compression.endMessage()
        return bytes.count
    }

    private func refuse(_ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>, _ code: UInt16, _ reason: StaticString) {
        state.pointee.counters.inflateRefused += 1
        fail(id.index, connection, code: code, reason: reason)
    }
}
