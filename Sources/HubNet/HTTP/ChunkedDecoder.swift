import HubBase

/// Takes a chunked body apart (RFC 9112 §7.1), incremental. The shell appends each `data` to its body and drops `consumed` bytes.
package struct ChunkedDecoder {
    package enum Step {
        /// Drop `consumed` bytes (framing that is done with) and come again with more.
        case needMore(consumed: Int)
        /// Body bytes, then drop `consumed`. Come again at once: there may be more.
        case data(ByteRange, consumed: Int)
        /// The body is complete; trailer fields were checked and dropped.
        case end(consumed: Int)
        case refused(HTTPRefusal)
    }

    package init() {}

    /// `bytes`: all that came and wasn't consumed. The sum of all `data` stays within `limits.bodyBytes`: a chunk that would pass it is
    /// refused with 413 from its size alone.
    package mutating func decode(_ bytes: UnsafeRawBufferPointer, limits: borrowing NetLimits) -> Step { fatalError("skeleton") }
}
