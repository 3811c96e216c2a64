import HubBase

/// Reads one request head after another from bytes in place (RFC 9112 §2 to §7). Incremental: while a head is incomplete nothing is scanned
/// twice. What could be read in two ways (request smuggling) is refused.
///
/// 12 bytes. After a head it's ready for the next one; after a refusal it's done.
package struct HTTPHeadParser {
    private var lines = HeadLines()

    package init() {}

    /// Nothing of a head has come yet, but for an empty line: the connection is idle.
    package var isAtStart: Bool { lines.count == 0 }

    /// `bytes`: all that came and wasn't consumed, from the head's first byte on: after `needMore` the same bytes and more.
    ///
    /// Lines are judged as they come, what several lines say together at the end: so the outcome doesn't depend on how the bytes were cut.
    /// Cost: one pass (a second over the lines of earlier calls), one allocation for the headers.
    package mutating func parse(_ bytes: UnsafeRawBufferPointer, limits: borrowing NetLimits) -> HTTPHeadOutcome {
        let hasEarlierLines = lines.count > 0
        var facts = HeadFacts()
        while true {
            switch lines.next(bytes, headBytes: limits.headBytes, headers: limits.headers) {
            case .needMore: return .needMore
            case .refused(let refusal): return .refused(refusal)
            case .line(let start, let end):
                if let refusal = facts.take(bytes, start, end, isFirst: lines.count == 1) { return .refused(refusal) }
            case .end(let length):
                if hasEarlierLines { facts = HTTPHeadParser.readAgain(bytes, limits) }
                lines = HeadLines()
                return facts.finish(bytes, headLength: length, bodyBytes: limits.bodyBytes)
            }
        }
    }

    /// What earlier calls found wasn't kept: the connection would pay for it. The lines were judged then.
    private static func readAgain(_ bytes: UnsafeRawBufferPointer, _ limits: borrowing NetLimits) -> HeadFacts {
        var facts = HeadFacts()
        var lines = HeadLines()
        while case .line(let start, let end) = lines.next(bytes, headBytes: limits.headBytes, headers: limits.headers) {
            _ = facts.take(bytes, start, end, isFirst: lines.count == 1)
        }
        return facts
    }
}
