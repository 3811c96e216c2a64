import Glibc
import HubBase

/// Writes server-sent events (WHATWG HTML §9.2.5). Whatever is written ends in an empty line and holds none before, so that a queue of events can be
/// cut between any two.
package enum EventEncoder {
    /// Appends a message as one event. A line end within it (in JSON: white space between tokens, never part of a string) begins another `data`
    /// line, which a client puts together again with LF. Cost: two looks for line ends, one copy.
    ///
    /// - Parameter id: becomes the client's last event id; empty: that stays what it is. Without line ends and NUL.
    package static func append(_ message: UnsafeRawBufferPointer, id: UnsafeRawBufferPointer = noID, into out: inout ByteBuffer) {
        if !id.isEmpty {
            out.append("id: ")
            out.append(id)
            out.append(UInt8(ascii: "\n"))
        }
        out.append("data: ")
        var rest = message
        // CR ends a line too, alone or before LF.
        while let end = lineEnd(rest) {
            out.append(UnsafeRawBufferPointer(rebasing: rest[..<end]))
            out.append("\ndata: ")
            let isPair = rest[end] == carriageReturn && end + 1 < rest.count && rest[end + 1] == lineFeed
            rest = UnsafeRawBufferPointer(rebasing: rest[(end + (isPair ? 2 : 1))...])
        }
        out.append(rest)
        out.append("\n\n")
    }

    package static var noID: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: nil, count: 0) }

    /// Appends the last event of a stream: `event: close` with code and reason as JSON. A reason that begins with a number says after how many
    /// milliseconds to come back; after a code with which one doesn't, the id says so to the next request (`endsFor`).
    package static func appendClose(code: UInt16, reason: UnsafeRawBufferPointer, into out: inout ByteBuffer) {
        if isFinal(code) {
            out.append("id: ")
            out.append(finalPrefix)
            out.append(decimal: UInt64(code))
            out.append(UInt8(ascii: "\n"))
        }
        let wait = leadingNumber(reason)
        if let wait {
            out.append("retry: ")
            out.append(decimal: wait)
            out.append(UInt8(ascii: "\n"))
        }
        out.append("event: close\ndata: {\"code\":")
        out.append(decimal: UInt64(code))
        if let wait {
            out.append(",\"retryAfter\":")
            out.append(decimal: wait)
        }
        out.append(",\"reason\":\"")
        for byte in reason {
            // Reasons are words of ours: what JSON would have escaped isn't worth its escape.
            out.append(byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") ? UInt8(ascii: "'") : byte)
        }
        out.append("\"}\n\n")
    }

    /// A line that says nothing (§9.2.6): keeps proxies from taking the stream for dead, and asks the peer's kernel for an acknowledgement.
    package static func appendComment(into out: inout ByteBuffer) { out.append(":\n\n") }

    package static func appendRetry(_ span: Span, into out: inout ByteBuffer) {
        out.append("retry: ")
        out.append(decimal: span.milliseconds)
        out.append("\n\n")
    }

    // MARK: Ends that are final

    private static let finalPrefix: StaticString = "close."

    /// Codes after which a client doesn't come back as it is (protocol: close codes).
    package static func isFinal(_ code: UInt16) -> Bool {
        switch code {
        case 1000, 1002, 1003, 1007, 1008, 1009, 4001, 4003: true
        default: false
        }
    }

    /// Whether a client's last event id says that its stream ended for good: the answer is 204, which tells a browser not to try again (§9.2.3).
    package static func endsFor(_ lastEventID: UnsafeRawBufferPointer) -> Bool {
        let count = finalPrefix.utf8CodeUnitCount
        return lastEventID.count > count
            && memcmp(lastEventID.baseAddress ?? UnsafeRawPointer(finalPrefix.utf8Start), finalPrefix.utf8Start, count) == 0
    }

    private static func leadingNumber(_ text: UnsafeRawBufferPointer) -> UInt64? {
        let digits = text.prefix { $0 >= 0x30 && $0 <= 0x39 }
        guard (1...9).contains(digits.count) else { return nil }
        return digits.reduce(0) { $0 * 10 + UInt64($1 - 0x30) }
    }

    // MARK: Borders

    private static let lineFeed: UInt8 = 0x0A
    private static let carriageReturn: UInt8 = 0x0D

    private static func find(_ byte: UInt8, _ bytes: UnsafeRawBufferPointer) -> Int? {
        guard let base = bytes.baseAddress, bytes.count > 0, let found = memchr(base, Int32(byte), bytes.count) else { return nil }
        return UnsafeRawPointer(found) - base
    }

    private static func lineEnd(_ bytes: UnsafeRawBufferPointer) -> Int? {
        let feed = find(lineFeed, bytes)
        // Only what comes before it counts, so that a long message isn't looked through twice for each line.
        let before = feed.map { UnsafeRawBufferPointer(rebasing: bytes[..<$0]) } ?? bytes
        return find(carriageReturn, before) ?? feed
    }

    /// The whole length of the event that begins at `offset`; the rest of the bytes when its empty line isn't there.
    static func length(_ bytes: UnsafeRawBufferPointer, at offset: Int) -> Int {
        var place = offset
        while let feed = find(lineFeed, UnsafeRawBufferPointer(rebasing: bytes[place...])) {
            place += feed + 1
            if place < bytes.count, bytes[place] == lineFeed { return place + 1 - offset }
        }
        return bytes.count - offset
    }
}
