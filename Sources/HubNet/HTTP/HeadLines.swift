/// Cuts a head, a request's or a response's, into its lines (RFC 9112 §2.1) and finds its end. Incremental: it keeps its place.
///
/// What a line may not hold anywhere is judged here: a line end that isn't CRLF and control characters (§2.2: read by one as a line end and
/// by the other as a part of the line, they are how requests are smuggled).
struct HeadLines {
    enum Step {
        /// Offsets of a complete line, without its CRLF.
        case line(Int, Int)
        /// The head's length, the empty line with it.
        case end(Int)
        case needMore
        case refused(HTTPRefusal)
    }

    private var scanned: UInt32 = 0
    private var lineStart: UInt32 = 0
    /// Lines that were found.
    private(set) var count: UInt32 = 0

    /// Where scanning begins: after an interim response, for one.
    init(from start: Int = 0) {
        scanned = UInt32(truncatingIfNeeded: start)
        lineStart = scanned
    }

    /// Looks at `headBytes` bytes at most, and finds `headers` lines after the first at most.
    mutating func next(_ bytes: UnsafeRawBufferPointer, headBytes: Int, headers: Int) -> Step {
        let limit = min(max(headBytes, 0), 1 << 30)
        let end = min(bytes.count, limit)
        guard let base = bytes.baseAddress else { return .needMore }
        var index = Int(scanned)
        while true {
            index = HeadLines.nextControl(base, from: index, to: end)
            guard index < end else { break }
            switch base.load(fromByteOffset: index, as: UInt8.self) {
            case 0x09:
                index += 1
                continue
            case 0x0D: break
            case 0x0A: return .refused(HTTPRefusal(status: 400, message: "a line ends with LF alone"))
            default: return .refused(HTTPRefusal(status: 400, message: "a control character in the head"))
            }
            guard index + 1 < end else { break }
            guard base.load(fromByteOffset: index + 1, as: UInt8.self) == 0x0A else {
                return .refused(HTTPRefusal(status: 400, message: "a CR without its LF"))
            }
            let start = Int(lineStart)
            let isLeading = start == 0
            scanned = UInt32(truncatingIfNeeded: index + 2)
            lineStart = scanned
            if index > start {
                count += 1
                if count > UInt32(clamping: headers) &+ 1 { return .refused(HTTPRefusal(status: 431, message: "too many headers")) }
                return .line(start, index)
            }
            if count > 0 { return .end(index + 2) }
            // One empty line in front is left over from a sloppy client's last body (§2.2).
            guard isLeading else { return .refused(HTTPRefusal(status: 400, message: "empty lines in front of the request")) }
            index += 2
        }
        scanned = UInt32(truncatingIfNeeded: index)
        if end < limit { return .needMore }
        if count == 0 { return .refused(HTTPRefusal(status: 414, message: "the request line is too long")) }
        return .refused(HTTPRefusal(status: 431, message: "the head is too long"))
    }

    /// The first byte below 0x20, or DEL, at or after `from`; `to` when there's none. Eight at a time: nearly all of a head is printable.
    @inline(__always)
    private static func nextControl(_ base: UnsafeRawPointer, from: Int, to: Int) -> Int {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let tops: UInt64 = 0x8080_8080_8080_8080
        var index = from
        while index &+ 8 <= to {
            let word = UInt64(littleEndian: base.loadUnaligned(fromByteOffset: index, as: UInt64.self))
            // A byte's top bit is set where the byte is below 0x20; borrows only spoil bytes above the first one found.
            let below = (word &- ones &* 0x20) & ~word & tops
            let delete = word ^ (ones &* 0x7F)
            let found = below | ((delete &- ones) & ~delete & tops)
            if found != 0 { return index &+ found.trailingZeroBitCount &>> 3 }
            index &+= 8
        }
        while index < to {
            let byte = base.load(fromByteOffset: index, as: UInt8.self)
            if byte < 0x20 || byte == 0x7F { return index }
            index &+= 1
        }
        return to
    }
}
