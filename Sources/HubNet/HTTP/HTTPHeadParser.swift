import HubBase

/// Reads one request head after another from bytes in place (RFC 9112 §2 to §7). Incremental: it keeps its place, nothing is scanned twice
/// while a head is incomplete. What could be read in two ways (request smuggling) is refused.
///
/// 16 bytes. After a head it's ready for the next one; after a refusal it's done.
package struct HTTPHeadParser {
    private var scanned: UInt32 = 0
    private var lineStart: UInt32 = 0
    private var lines: UInt32 = 0

    package init() {}

    /// `bytes`: all that came and wasn't consumed, from the head's first byte on: after `needMore` the same bytes and more. Cost: one pass,
    /// one allocation for the headers of a complete head.
    package mutating func parse(_ bytes: UnsafeRawBufferPointer, limits: borrowing NetLimits) -> HTTPHeadOutcome { fatalError("skeleton") }
}
