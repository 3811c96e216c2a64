import HubBase

/// `method SP request-target SP HTTP-version` (RFC 9112 §3), with single spaces.
struct RequestLine {
    var method: HTTPMethod
    var path: ByteRange
    var query: ByteRange
    /// Of an absolute target; else absent.
    var authority: ByteRange
    var minorVersion: UInt8

    enum Reading {
        case line(RequestLine)
        case refused(HTTPRefusal)
    }

    /// Reads the line at `start..<end` of `bytes`. Control characters other than HTAB are known not to be there.
    static func read(_ bytes: UnsafeRawBufferPointer, _ start: Int, _ end: Int) -> Reading {
        var place = start
        while place < end && ASCII.isToken(bytes[place]) { place += 1 }
        guard place > start, place < end, bytes[place] == 0x20 else { return .refused(malformed) }
        let method = UnsafeRawBufferPointer(rebasing: bytes[start..<place])
        let targetStart = place + 1
        place = targetStart
        while place < end, bytes[place] > 0x20, bytes[place] < 0x7F, bytes[place] != UInt8(ascii: "#") { place += 1 }
        guard place > targetStart, place < end, bytes[place] == 0x20 else { return .refused(malformed) }
        let targetEnd = place

        // The version is judged before the target: "PRI * HTTP/2.0" is a matter of version.
        let version = UnsafeRawBufferPointer(rebasing: bytes[(targetEnd + 1)..<end])
        guard version.count == 8, ASCII.equals(UnsafeRawBufferPointer(rebasing: version[..<5]), "HTTP/"), version[6] == UInt8(ascii: "."),
            ASCII.isDigit(version[5]), ASCII.isDigit(version[7])
        else { return .refused(malformed) }
        guard version[5] == UInt8(ascii: "1") else {
            return .refused(HTTPRefusal(status: 505, message: "only HTTP/1.0 and HTTP/1.1 are spoken here"))
        }
        var line = RequestLine(
            method: HTTPMethod(method), path: .absent, query: .absent, authority: .absent,
            minorVersion: version[7] == UInt8(ascii: "0") ? 0 : 1)
        if ASCII.equals(method, "CONNECT") { return .refused(HTTPRefusal(status: 501, message: "this is no proxy")) }
        guard line.readTarget(bytes, targetStart, targetEnd, isOptions: line.method == .options) else {
            return .refused(HTTPRefusal(status: 400, message: "a request target in no form that is known"))
        }
        return .line(line)
    }

    private static var malformed: HTTPRefusal { HTTPRefusal(status: 400, message: "a malformed request line") }

    /// Origin form, absolute form, or the asterisk of OPTIONS (§3.2).
    private mutating func readTarget(_ bytes: UnsafeRawBufferPointer, _ start: Int, _ end: Int, isOptions: Bool) -> Bool {
        var pathStart = start
        if bytes[start] != UInt8(ascii: "/") {
            if isOptions && end - start == 1 && bytes[start] == UInt8(ascii: "*") {
                path = ByteRange(offset: start, count: 1)
                return true
            }
            guard let schemeEnd = RequestLine.schemeEnd(bytes, start, end) else { return false }
            var authorityEnd = schemeEnd
            while authorityEnd < end, bytes[authorityEnd] != UInt8(ascii: "/"), bytes[authorityEnd] != UInt8(ascii: "?") {
                if bytes[authorityEnd] == UInt8(ascii: "@") { return false }
                authorityEnd += 1
            }
            guard authorityEnd > schemeEnd else { return false }
            authority = ByteRange(offset: schemeEnd, count: authorityEnd - schemeEnd)
            pathStart = authorityEnd
        }
        var pathEnd = pathStart
        while pathEnd < end && bytes[pathEnd] != UInt8(ascii: "?") { pathEnd += 1 }
        // An absolute target may leave the path out, which means "/": the last slash of "://" stands for it.
        path =
            pathEnd > pathStart
            ? ByteRange(offset: pathStart, count: pathEnd - pathStart) : ByteRange(offset: Int(authority.offset) - 1, count: 1)
        if pathEnd < end { query = ByteRange(offset: pathEnd + 1, count: end - pathEnd - 1) }
        return true
    }

    /// Where the authority begins, after `http://` or `https://`.
    private static func schemeEnd(_ bytes: UnsafeRawBufferPointer, _ start: Int, _ end: Int) -> Int? {
        let target = UnsafeRawBufferPointer(rebasing: bytes[start..<end])
        if target.count > 7, ASCII.equals(UnsafeRawBufferPointer(rebasing: target[..<7]), ignoringCase: "http://") { return start + 7 }
        if target.count > 8, ASCII.equals(UnsafeRawBufferPointer(rebasing: target[..<8]), ignoringCase: "https://") { return start + 8 }
        return nil
    }
}

extension HTTPMethod {
    /// Methods are compared with case (RFC 9110 §9.1).
    init(_ bytes: UnsafeRawBufferPointer) {
        if ASCII.equals(bytes, "GET") {
            self = .get
        } else if ASCII.equals(bytes, "POST") {
            self = .post
        } else if ASCII.equals(bytes, "HEAD") {
            self = .head
        } else if ASCII.equals(bytes, "PUT") {
            self = .put
        } else if ASCII.equals(bytes, "DELETE") {
            self = .delete
        } else if ASCII.equals(bytes, "OPTIONS") {
            self = .options
        } else if ASCII.equals(bytes, "PATCH") {
            self = .patch
        } else {
            self = .other
        }
    }
}
