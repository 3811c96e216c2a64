import HubBase

/// Where the fields of one envelope lie in the message it came in. Made by `EnvelopeScanner` without copying or decoding; the ranges
/// are only meaningful with that message's bytes.
///
/// Every *string* range excludes the quotes (or MessagePack's header) and holds the text as it was written: `escapes` says whether any
/// string field holds a JSON escape. `name` and `text` read them as they're meant.
package struct Request: Sendable {
    package var type: RequestType
    /// What the message is written in; its payload in `format.payload`.
    package var format: WireFormat
    /// The raw token (an integer, or a string with its quotes or header), to be carried back verbatim.
    package var id: ByteRange = .absent
    package var channel: ByteRange = .absent
    package var messageId: ByteRange = .absent
    package var device: ByteRange = .absent
    package var token: ByteRange = .absent
    package var position: ByteRange = .absent
    package var cursor: ByteRange = .absent
    /// The raw value, whatever it is: checked for form and depth, otherwise opaque.
    package var payload: ByteRange = .absent
    /// The raw array of `subscribe`'s `channels` / of `watch`'s `users`; iterate with `WireElements`.
    package var channels: ByteRange = .absent
    package var users: ByteRange = .absent
    /// The raw values of `history`'s fields; `since` and `age` are those of a publication that's sent again, too.
    package var since: ByteRange = .absent
    package var before: ByteRange = .absent
    package var sinceTime: ByteRange = .absent
    package var beforeTime: ByteRange = .absent
    package var limit: ByteRange = .absent
    package var age: ByteRange = .absent
    package var members = false
    package var reverse = false
    package var escapes = false

    package init(type: RequestType, format: WireFormat = .json) {
        self.type = type
        self.format = format
    }

    /// The name that a string field means; nil when it's no valid name of at most `limit` bytes.
    package func name(_ field: ByteRange, in message: UnsafeRawBufferPointer, limit: Int = Name.lengthMax) -> Name? {
        JSONText.name(field.bytes(in: message), hasEscapes: escapes, limit: limit)
    }

    /// A raw value as what it is; nil when it's absent.
    package func value(_ token: ByteRange, in message: UnsafeRawBufferPointer) -> WireValue? {
        guard token.isPresent else { return nil }
        switch format {
        case .json:
            var cursor = JSONCursor(message, range: token, depthMax: 1)
            return (try? cursor.value(at: 0)).map { WireValue($0) }
        case .messagePack, .short:
            var cursor = MessagePackCursor(message, range: token, depthMax: 1)
            return (try? cursor.value(at: 0)).map { WireValue($0) }
        }
    }

    /// Appends the text that a string field means. False when it's no text (a lone surrogate); then nothing was appended.
    package func text(_ field: ByteRange, in message: UnsafeRawBufferPointer, into buffer: inout ByteBuffer) -> Bool {
        guard escapes else {
            buffer.append(field.bytes(in: message))
            return true
        }
        return JSONText.unescape(field.bytes(in: message), into: &buffer)
    }
}
