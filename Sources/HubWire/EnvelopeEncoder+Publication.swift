import HubBase

extension EnvelopeEncoder {
    /// Publications: encoded once for each loop and wire variant. `position` is nil for `typing` and `read`, which have none.
    ///
    /// The payload goes out as it came in when its format is ours, else it's rewritten (`PayloadTranscoder`). Cost: one copy of the bytes,
    /// no allocation once the buffer is warm; a rewriting is a pass over the payload.
    package static func publication(
        _ publication: Publication, channel: Name, position: Position?, format: WireFormat = .json, into buffer: inout ByteBuffer
    ) {
        // One reservation for the worst case (every byte of every name escaped), then only stores.
        let names = channel.bytes.count + publication.user.bytes.count + publication.device.bytes.count + publication.messageId.bytes.count
        let isOurs = publication.payloadFormat == format.payload
        let sink = ReservedSink(buffer.reserve(fixedLengthMax + names * 6 + (isOurs ? publication.payload.count : 0)))
        switch format {
        case .json:
            var writer = JSONWriter(sink)
            let outer = writer.fields(of: publication, channel: channel, position: position)
            guard isOurs else {
                buffer.advance(by: writer.sink.count)
                PayloadTranscoder.append(publication.payload, from: publication.payloadFormat, to: .json, into: &buffer)
                buffer.append(UInt8(ascii: "}"))
                return
            }
            publication.payload.withUnsafeBytes { writer.value(raw: $0) }
            writer.end(outer)
            buffer.advance(by: writer.sink.count)
        case .messagePack: pack(publication, channel, position, isOurs, MessagePackWriter<ReservedSink, NamedStyle>(sink), into: &buffer)
        case .short: pack(publication, channel, position, isOurs, MessagePackWriter<ReservedSink, NumberedStyle>(sink), into: &buffer)
        }
    }

    @inline(__always) private static func pack<Style: MessagePackStyle>(
        _ publication: Publication, _ channel: Name, _ position: Position?, _ isOurs: Bool, _ empty: MessagePackWriter<ReservedSink, Style>,
        into buffer: inout ByteBuffer
    ) {
        var writer = empty
        _ = writer.fields(of: publication, channel: channel, position: position)
        guard isOurs else {
            buffer.advance(by: writer.sink.count)
            PayloadTranscoder.append(publication.payload, from: publication.payloadFormat, to: .messagePack, into: &buffer)
            return
        }
        publication.payload.withUnsafeBytes { writer.value(raw: $0) }
        buffer.advance(by: writer.sink.count)
    }

    /// Above the sum of all labels, a position and two numbers; a test writes the longest.
    static let fixedLengthMax = 256
}

extension EnvelopeWriter {
    /// Everything up to the payload, which comes last.
    @inline(__always) mutating func fields(of publication: Publication, channel: Name, position: Position?) -> Int {
        let outer: Int
        switch publication.messageClass {
        case .chat: outer = begin(type: .chat)
        case .event: outer = begin(type: .event)
        case .read: outer = begin(type: .read)
        case .typing: outer = begin(type: .typing)
        }
        field(.channel, channel)
        if let position {
            field(.offset, position.offset)
            field(.position, position)
        }
        if !publication.user.isEmpty { field(.user, publication.user) }
        if !publication.device.isEmpty { field(.device, publication.device) }
        field(.time, publication.time)
        if !publication.messageId.isEmpty { field(.messageId, publication.messageId) }
        key(.payload)
        return outer
    }
}
