import HubBase

/// How a publication travels between nodes and lies in history: a version byte, then length-prefixed fields, then the payload.
/// Binary and internal: clients never see it. The layout, also in docs/redis.md:
///
///     1  version, 1
///     1  class, as in `MessageClass`; the highest bit is set when the payload is MessagePack
///     1  n, then n bytes: user (0: the backend's own)
///     1  n, then n bytes: device (0: none)
///     1  n, then n bytes: messageId (0: none; never 0 for chat and event, always 0 for read and typing)
///     8  time, little-endian: milliseconds since 1970
///     …  payload: one JSON or MessagePack value, to the end
///
/// A hub from before MessagePack knows no class with that bit and takes such a publication for a hole, which it announces (`resync`).
package enum PublicationCodec {
    private static let version: UInt8 = 1
    fileprivate static let messagePackBit: UInt8 = 0x80

    /// Cost: one copy of the bytes.
    package static func encode(_ publication: Publication, into buffer: inout ByteBuffer) {
        let user = publication.user.bytes
        let device = publication.device.bytes
        let messageId = publication.messageId.bytes
        _ = buffer.reserve(13 + user.count + device.count + messageId.count + publication.payload.count)
        buffer.append(version)
        buffer.append(publication.contentByte)
        append(user, to: &buffer)
        append(device, to: &buffer)
        append(messageId, to: &buffer)
        buffer.reserve(8).storeBytes(of: publication.time.littleEndian, as: UInt64.self)
        buffer.advance(by: 8)
        buffer.append(publication.payload)
    }

    private static func append(_ name: [UInt8], to buffer: inout ByteBuffer) {
        precondition(name.count <= Name.lengthMax, "a name of \(name.count) bytes was never validated")
        buffer.append(UInt8(truncatingIfNeeded: name.count))
        buffer.append(name)
    }

    /// nil for anything that isn't ours: the bytes come from Redis, where others may write.
    ///
    /// The payload is checked to be JSON in UTF-8 (or MessagePack) as well, because it goes out to clients inside our envelope. Cost:
    /// linear, once a publication and node.
    package static func decode(_ bytes: UnsafeRawBufferPointer) -> Publication? {
        var rest = bytes
        guard let found = takeByte(&rest), found == version,
            let content = takeByte(&rest), let messageClass = MessageClass(rawValue: content & ~messagePackBit),
            let user = takeName(&rest, limit: Name.lengthMax),
            let device = takeName(&rest, limit: Name.lengthMax),
            let messageId = takeName(&rest, limit: Name.lengthMax),
            messageId.isEmpty != messageClass.isDurable,
            rest.count >= 8
        else { return nil }
        let time = UInt64(littleEndian: rest.loadUnaligned(as: UInt64.self))
        let payload = UnsafeRawBufferPointer(rebasing: rest[8...])
        // Times go out as JSON numbers.
        let format: PayloadFormat = content & messagePackBit == 0 ? .json : .messagePack
        guard time < 1 << 53, isValue(payload, format) else { return nil }
        return Publication(
            messageClass: messageClass, user: user, device: device, messageId: messageId, time: time, payload: [UInt8](payload),
            payloadFormat: format)
    }

    private static func isValue(_ payload: UnsafeRawBufferPointer, _ format: PayloadFormat) -> Bool {
        switch format {
        case .json: JSONText.isValue(payload, depthMax: JSONCursor.depthLimit) && UTF8Check.isValid(payload)
        case .messagePack: MessagePack.isValue(payload, depthMax: JSONCursor.depthLimit)
        }
    }

    private static func takeByte(_ rest: inout UnsafeRawBufferPointer) -> UInt8? {
        guard let byte = rest.first else { return nil }
        rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst())
        return byte
    }

    private static func takeName(_ rest: inout UnsafeRawBufferPointer, limit: Int) -> Name? {
        guard let length = takeByte(&rest), Int(length) <= min(limit, rest.count) else { return nil }
        guard length > 0 else { return .empty }
        let name = Name(validating: UnsafeRawBufferPointer(rebasing: rest.prefix(Int(length))), limit: limit)
        rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(Int(length)))
        return name
    }
}

extension Publication {
    /// Class and payload's format in one byte: what stands before the payload's bytes wherever they're hashed or sent, so that the same
    /// bytes in another format are another content.
    package var contentByte: UInt8 { messageClass.rawValue | (payloadFormat == .messagePack ? PublicationCodec.messagePackBit : 0) }
}
