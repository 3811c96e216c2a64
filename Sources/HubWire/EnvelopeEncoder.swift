import HubBase

/// Writes the server's envelopes as JSON: fields in the order that docs/protocol.md shows, no white space.
///
/// `id` is always the raw token of the request (`Request.id`), carried back verbatim; an empty one means that there was none.
/// Fields that say nothing are left out: an empty `user`, `device` or `messageId`, `duplicate` and `stale` when false.
package enum EnvelopeEncoder {
    // Acks.

    /// `{"type":"ack","id":…}`; `channel` where there was one.
    package static func ack(id: UnsafeRawBufferPointer, channel: Name?, into buffer: inout ByteBuffer) {
        begin("{\"type\":\"ack\"", id, &buffer)
        if let channel { buffer.appendField(",\"channel\":", channel) }
        buffer.append(UInt8(ascii: "}"))
    }

    package static func ackConnect(id: UnsafeRawBufferPointer, user: Name, into buffer: inout ByteBuffer) {
        begin("{\"type\":\"ack\"", id, &buffer)
        buffer.appendField(",\"user\":", user)
        buffer.append(UInt8(ascii: "}"))
    }

    /// One channel: the fields stand in the ack itself. Several (`subscribe` with `channels`): `"channels":[{…}]`, errors among them.
    ///
    /// A single channel that was refused becomes the `error` that it is.
    package static func ackSubscribe(id: UnsafeRawBufferPointer, results: [SubscribeResult], isList: Bool, into buffer: inout ByteBuffer) {
        if !isList, results.count == 1 {
            if case .failure(let failure) = results[0].result {
                error(id: id, failure, into: &buffer)
                return
            }
            begin("{\"type\":\"ack\"", id, &buffer)
            buffer.append(UInt8(ascii: ","))
            appendFields(of: results[0], &buffer)
            return
        }
        begin("{\"type\":\"ack\"", id, &buffer)
        buffer.append(",\"channels\":[")
        var isFirst = true
        for result in results {
            buffer.append(isFirst ? "{" : ",{")
            appendFields(of: result, &buffer)
            isFirst = false
        }
        buffer.append("]}")
    }

    package static func ackPublish(
        id: UnsafeRawBufferPointer, channel: Name, messageId: Name, position: Position, isDuplicate: Bool, into buffer: inout ByteBuffer
    ) {
        begin("{\"type\":\"ack\"", id, &buffer)
        buffer.appendField(",\"channel\":", channel)
        buffer.appendField(",\"messageId\":", messageId)
        buffer.appendField(",\"offset\":", position.offset)
        buffer.appendField(",\"position\":", position)
        buffer.append(isDuplicate ? ",\"duplicate\":true}" : "}")
    }

    package static func ackRead(id: UnsafeRawBufferPointer, channel: Name, offset: UInt64, into buffer: inout ByteBuffer) {
        begin("{\"type\":\"ack\"", id, &buffer)
        buffer.appendField(",\"channel\":", channel)
        buffer.appendField(",\"offset\":", offset)
        buffer.append(UInt8(ascii: "}"))
    }

    package static func ackPresence(id: UnsafeRawBufferPointer, version: UInt64, into buffer: inout ByteBuffer) {
        begin("{\"type\":\"ack\"", id, &buffer)
        buffer.appendField(",\"version\":", version)
        buffer.append(UInt8(ascii: "}"))
    }

    /// `stale: true` is written only when it holds.
    package static func ackWatch(id: UnsafeRawBufferPointer, users: [PresenceChange], isStale: Bool, into buffer: inout ByteBuffer) {
        begin("{\"type\":\"ack\"", id, &buffer)
        buffer.append(",\"users\":[")
        appendChanges(users, &buffer)
        buffer.append(isStale ? "],\"stale\":true}" : "]}")
    }

    // Refusals, presence, liveness.

    package static func error(id: UnsafeRawBufferPointer, _ error: WireError, into buffer: inout ByteBuffer) {
        begin("{\"type\":\"error\"", id, &buffer)
        buffer.append(UInt8(ascii: ","))
        appendFields(of: error, &buffer)
        buffer.append(UInt8(ascii: "}"))
    }

    package static func presence(_ changes: [PresenceChange], into buffer: inout ByteBuffer) {
        buffer.append("{\"type\":\"presence\",\"changes\":[")
        appendChanges(changes, &buffer)
        buffer.append("]}")
    }

    package static func pong(id: UnsafeRawBufferPointer, into buffer: inout ByteBuffer) {
        begin("{\"type\":\"pong\"", id, &buffer)
        buffer.append(UInt8(ascii: "}"))
    }

    // Pieces, also for what stands in other files.

    private static func begin(_ opening: StaticString, _ id: UnsafeRawBufferPointer, _ buffer: inout ByteBuffer) {
        buffer.append(opening)
        guard id.count > 0 else { return }
        buffer.append(",\"id\":")
        buffer.append(id)
    }

    /// The fields of one subscribed or refused channel and the bracket that ends its object.
    static func appendFields(of subscription: SubscribeResult, _ buffer: inout ByteBuffer) {
        buffer.appendField("\"channel\":", subscription.channel)
        switch subscription.result {
        case .success(let position):
            buffer.appendField(",\"offset\":", position.offset)
            buffer.appendField(",\"position\":", position)
            if let recovered = subscription.recovered { buffer.append(recovered ? ",\"recovered\":true" : ",\"recovered\":false") }
            if let reason = subscription.reason { buffer.appendField(",\"reason\":", reason) }
        case .failure(let error):
            buffer.append(UInt8(ascii: ","))
            appendFields(of: error, &buffer)
        }
        buffer.append(UInt8(ascii: "}"))
    }

    private static func appendFields(of error: WireError, _ buffer: inout ByteBuffer) {
        buffer.appendField("\"code\":", error.code.rawValue)
        buffer.appendField(",\"message\":", error.message)
        buffer.append(error.mayRetry ? ",\"retry\":true" : ",\"retry\":false")
        if let retryAfter = error.retryAfter { buffer.appendField(",\"retryAfter\":", retryAfter) }
    }

    private static func appendChanges(_ changes: [PresenceChange], _ buffer: inout ByteBuffer) {
        var isFirst = true
        for change in changes {
            buffer.appendField(isFirst ? "{\"user\":" : ",{\"user\":", change.user)
            buffer.append(",\"status\":\"")
            buffer.append(change.status.name)
            buffer.appendField("\",\"version\":", change.version)
            buffer.appendField(",\"lastSeen\":", change.lastSeen)
            buffer.append(UInt8(ascii: "}"))
            isFirst = false
        }
    }
}
