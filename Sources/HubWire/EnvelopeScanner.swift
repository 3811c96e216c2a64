import HubBase

/// Reads one client envelope in place: one pass, no copy, no allocation, no recursion.
package enum EnvelopeScanner {
    package enum Outcome: Sendable {
        case request(Request)
        /// `id` is the request's id when it could still be found, so that the refusal reaches the one who asked.
        case refused(WireError, id: ByteRange)
    }

    /// `message` must already be valid UTF-8 (the frame decoder checked it). Unknown fields are ignored, of a repeated field the first
    /// counts, an unknown `type` is `unknownType`, nesting deeper than `depthMax` is `tooDeep`, all else that isn't the envelope's
    /// shape is `malformed` with the field's name. Cost: linear in the bytes.
    package static func scan(_ message: UnsafeRawBufferPointer, depthMax: Int) -> Outcome { fatalError("skeleton") }
}
