import HubBase

/// Where the fields of one envelope lie in the message it came in. Made by `EnvelopeScanner` without copying or decoding; the ranges
/// are only meaningful with that message's bytes.
///
/// Every *string* range excludes the quotes and holds the raw JSON text: `escapes` says whether any string field holds a backslash, in
/// which case the reader must go through `JSONText.unescape`.
package struct Request: Sendable {
    package var type: RequestType
    /// The raw JSON token (an integer, or a string with its quotes), to be carried back verbatim.
    package var id: ByteRange = .absent
    package var channel: ByteRange = .absent
    package var messageId: ByteRange = .absent
    package var device: ByteRange = .absent
    package var token: ByteRange = .absent
    package var position: ByteRange = .absent
    package var cursor: ByteRange = .absent
    /// The raw JSON value, whatever it is: checked for form and depth, otherwise opaque.
    package var payload: ByteRange = .absent
    /// The raw JSON array of `subscribe`'s `channels` / of `watch`'s `users`; iterate with `JSONArray`.
    package var channels: ByteRange = .absent
    package var users: ByteRange = .absent
    /// The raw JSON values of `history`'s fields.
    package var since: ByteRange = .absent
    package var before: ByteRange = .absent
    package var limit: ByteRange = .absent
    package var members = false
    package var reverse = false
    package var escapes = false

    package init(type: RequestType) { self.type = type }
}
