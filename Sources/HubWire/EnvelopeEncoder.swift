import HubBase

/// Writes the server's envelopes: fields in the order that docs/protocol.md shows, in the format that the connection speaks.
///
/// `id` is always the raw token of the request (`Request.id`), carried back verbatim; an empty one means that there was none.
/// Fields that say nothing are left out: an empty `user`, `device` or `messageId`, `duplicate` and `stale` when false.
package enum EnvelopeEncoder {
    /// `{"type":"ack","id":…}`; `channel` where there was one.
    package static func ack(
        id: UnsafeRawBufferPointer, channel: Name?, format: WireFormat = .json, into buffer: inout ByteBuffer
    ) {
        write(Ack(id: id, channel: channel), format, into: &buffer)
    }

    package static func ackConnect(
        id: UnsafeRawBufferPointer, user: Name, format: WireFormat = .json, into buffer: inout ByteBuffer
    ) {
        write(ConnectAck(id: id, user: user), format, into: &buffer)
    }

    /// One channel: the fields stand in the ack itself. Several (`subscribe` with `channels`): `"channels":[{…}]`, errors among them.
    ///
    /// A single channel that was refused becomes the `error` that it is.
    package static func ackSubscribe(
        id: UnsafeRawBufferPointer, results: [SubscribeResult], isList: Bool, format: WireFormat = .json, into buffer: inout ByteBuffer
    ) {
        if !isList, results.count == 1 {
            switch results[0].result {
            case .failure(let failure): error(id: id, failure, format: format, into: &buffer)
            case .success: write(SubscribeAck(id: id, result: results[0]), format, into: &buffer)
            }
        } else {
            write(SubscribeListAck(id: id, results: results), format, into: &buffer)
        }
    }

    package static func ackPublish(
        id: UnsafeRawBufferPointer, channel: Name, messageId: Name, position: Position, isDuplicate: Bool, format: WireFormat = .json,
        into buffer: inout ByteBuffer
    ) {
        write(
            PublishAck(id: id, channel: channel, messageId: messageId, position: position, isDuplicate: isDuplicate), format, into: &buffer)
    }

    package static func ackHistory(
        id: UnsafeRawBufferPointer, _ result: HistoryResult, format: WireFormat = .json, into buffer: inout ByteBuffer
    ) {
        write(HistoryAck(id: id, result: result), format, into: &buffer)
    }

    /// A page as the API answers it: JSON, without `type` and `id`.
    package static func history(_ result: HistoryResult, into buffer: inout ByteBuffer) {
        write(HistoryAck(id: nil, result: result), .json, into: &buffer)
    }

    package static func ackRead(
        id: UnsafeRawBufferPointer, channel: Name, offset: UInt64, format: WireFormat = .json, into buffer: inout ByteBuffer
    ) {
        write(ReadAck(id: id, channel: channel, offset: offset), format, into: &buffer)
    }

    package static func ackPresence(
        id: UnsafeRawBufferPointer, version: UInt64, format: WireFormat = .json, into buffer: inout ByteBuffer
    ) {
        write(PresenceAck(id: id, version: version), format, into: &buffer)
    }

    /// `stale: true` is written only when it holds.
    package static func ackWatch(
        id: UnsafeRawBufferPointer, users: [PresenceChange], isStale: Bool, format: WireFormat = .json, into buffer: inout ByteBuffer
    ) {
        write(WatchAck(id: id, users: users, isStale: isStale), format, into: &buffer)
    }

    package static func error(
        id: UnsafeRawBufferPointer, _ error: WireError, format: WireFormat = .json, into buffer: inout ByteBuffer
    ) {
        write(Refusal(id: id, error: error), format, into: &buffer)
    }

    package static func presence(_ changes: [PresenceChange], format: WireFormat = .json, into buffer: inout ByteBuffer) {
        write(PresenceChanges(changes: changes), format, into: &buffer)
    }

    package static func members(_ change: MembersChange, format: WireFormat = .json, into buffer: inout ByteBuffer) {
        write(change, format, into: &buffer)
    }

    package static func ackMembers(
        id: UnsafeRawBufferPointer, channel: Name, _ page: MembersPage, format: WireFormat = .json, into buffer: inout ByteBuffer
    ) {
        write(MembersAck(id: id, channel: channel, page: page), format, into: &buffer)
    }

    /// A page as the API answers it: JSON, without `type` and `id`.
    package static func members(of channel: Name, _ page: MembersPage, into buffer: inout ByteBuffer) {
        write(MembersAck(id: nil, channel: channel, page: page), .json, into: &buffer)
    }

    package static func pong(id: UnsafeRawBufferPointer, format: WireFormat = .json, into buffer: inout ByteBuffer) {
        write(Pong(id: id), format, into: &buffer)
    }

    /// `channels` is an object by channel name; each value is as in a subscribe ack, its name included, so that one reader serves both.
    package static func welcome(_ welcome: Welcome, format: WireFormat = .json, into buffer: inout ByteBuffer) {
        write(welcome, format, into: &buffer)
    }

    package static func system(_ event: SystemEvent, format: WireFormat = .json, into buffer: inout ByteBuffer) {
        write(event, format, into: &buffer)
    }

    static func write<Message: Envelope>(_ envelope: Message, _ format: WireFormat, into buffer: inout ByteBuffer) {
        withUnsafeMutablePointer(to: &buffer) { buffer in
            switch format {
            case .json:
                var writer = JSONWriter(BufferSink(buffer: buffer))
                envelope.write(to: &writer)
            case .messagePack:
                var writer = MessagePackWriter<BufferSink, NamedStyle>(BufferSink(buffer: buffer))
                envelope.write(to: &writer)
            case .short:
                var writer = MessagePackWriter<BufferSink, NumberedStyle>(BufferSink(buffer: buffer))
                envelope.write(to: &writer)
            }
        }
    }

    static func write<Message: BoundedEnvelope>(_ envelope: Message, _ format: WireFormat, into buffer: inout ByteBuffer) {
        let sink = ReservedSink(buffer.reserve(fixedLengthMax + envelope.namesLength * 6 + envelope.id.count))
        switch format {
        case .json:
            var writer = JSONWriter(sink)
            envelope.write(to: &writer)
            buffer.advance(by: writer.sink.count)
        case .messagePack:
            var writer = MessagePackWriter<ReservedSink, NamedStyle>(sink)
            envelope.write(to: &writer)
            buffer.advance(by: writer.sink.count)
        case .short:
            var writer = MessagePackWriter<ReservedSink, NumberedStyle>(sink)
            envelope.write(to: &writer)
            buffer.advance(by: writer.sink.count)
        }
    }
}
