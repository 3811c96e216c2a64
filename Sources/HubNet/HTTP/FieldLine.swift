import HubBase

/// One field line, `name: value` (RFC 9112 §5).
enum FieldLine {
    enum Reading {
        case field(HTTPRequest.Header)
        case refused(HTTPRefusal)
    }

    /// Reads the line at `start..<end` of `bytes`. Control characters other than HTAB are known not to be there.
    @inline(__always)
    static func read(_ bytes: UnsafeRawBufferPointer, _ start: Int, _ end: Int) -> Reading {
        var colon = start
        while colon < end && ASCII.isToken(bytes[colon]) { colon += 1 }
        guard colon < end, colon > start, bytes[colon] == UInt8(ascii: ":") else { return .refused(fault(bytes, start, end, at: colon)) }
        var valueStart = colon + 1
        var valueEnd = end
        while valueStart < valueEnd && ASCII.isBlank(bytes[valueStart]) { valueStart += 1 }
        while valueEnd > valueStart && ASCII.isBlank(bytes[valueEnd - 1]) { valueEnd -= 1 }
        return .field(
            HTTPRequest.Header(
                name: ByteRange(offset: start, count: colon - start), value: ByteRange(offset: valueStart, count: valueEnd - valueStart)))
    }

    private static func fault(_ bytes: UnsafeRawBufferPointer, _ start: Int, _ end: Int, at place: Int) -> HTTPRefusal {
        if ASCII.isBlank(bytes[start]) { return HTTPRefusal(status: 400, message: "a folded header") }
        if place == end { return HTTPRefusal(status: 400, message: "a header without a colon") }
        if place == start { return HTTPRefusal(status: 400, message: "a header without a name") }
        if ASCII.isBlank(bytes[place]) { return HTTPRefusal(status: 400, message: "white space before a header's colon") }
        return HTTPRefusal(status: 400, message: "a header's name isn't a token")
    }
}
