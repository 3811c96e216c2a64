import HubBase

/// What a request's lines say, gathered line by line; `finish` judges what they say together: where the body ends (RFC 9112 §6), whether the
/// connection persists (§9.3), whom the request is for (§3.2).
struct HeadFacts {
    private var head = HTTPHead()
    private var authority = ByteRange.absent
    private var host = Single()
    private var contentLength = Single()
    private var transferEncoding = Single()
    private var expect = Single()
    private var saysClose = false
    private var saysKeepAlive = false
    private var saysUpgrade = false
    private var upgradesToWebSocket = false

    /// A header that may stand there once.
    private struct Single {
        var count = 0
        var value = ByteRange.absent

        mutating func take(_ range: ByteRange) {
            count += 1
            value = range
        }
    }

    mutating func take(_ bytes: UnsafeRawBufferPointer, _ start: Int, _ end: Int, isFirst: Bool) -> HTTPRefusal? {
        if isFirst {
            switch RequestLine.read(bytes, start, end) {
            case .refused(let refusal): return refusal
            case .line(let line):
                head.method = line.method
                head.minorVersion = line.minorVersion
                head.path = line.path
                head.query = line.query
                authority = line.authority
                // Enough for a browser's upgrade request.
                head.headers.reserveCapacity(20)
                return nil
            }
        }
        switch FieldLine.read(bytes, start, end) {
        case .refused(let refusal): return refusal
        case .field(let field):
            head.headers.append(field)
            note(field.name.bytes(in: bytes), field.value, bytes)
            return nil
        }
    }

    /// The fields that decide how the message is read, told apart by their length first.
    @inline(__always)
    private mutating func note(_ name: UnsafeRawBufferPointer, _ value: ByteRange, _ bytes: UnsafeRawBufferPointer) {
        switch name.count {
        case 4: if ASCII.equals(name, ignoringCase: "host") { host.take(value) }
        case 6: if ASCII.equals(name, ignoringCase: "expect") { expect.take(value) }
        case 7:
            guard ASCII.equals(name, ignoringCase: "upgrade") else { return }
            for protocolName in TokenList(value.bytes(in: bytes)) where ASCII.equals(protocolName, ignoringCase: "websocket") {
                upgradesToWebSocket = true
            }
        case 10: if ASCII.equals(name, ignoringCase: "connection") { noteConnection(value.bytes(in: bytes)) }
        case 14: if ASCII.equals(name, ignoringCase: "content-length") { contentLength.take(value) }
        case 17: if ASCII.equals(name, ignoringCase: "transfer-encoding") { transferEncoding.take(value) }
        default: return
        }
    }

    private mutating func noteConnection(_ value: UnsafeRawBufferPointer) {
        for option in TokenList(value) {
            if ASCII.equals(option, ignoringCase: "close") {
                saysClose = true
            } else if ASCII.equals(option, ignoringCase: "keep-alive") {
                saysKeepAlive = true
            } else if ASCII.equals(option, ignoringCase: "upgrade") {
                saysUpgrade = true
            }
        }
    }

    consuming func finish(_ bytes: UnsafeRawBufferPointer, headLength: Int, bodyBytes: Int) -> HTTPHeadOutcome {
        head.headLength = headLength
        if let refusal = judgeHost(bytes) { return .refused(refusal) }
        if let refusal = judgeBody(bytes, bodyBytes) { return .refused(refusal) }
        if expect.count > 0 {
            guard expect.count == 1, ASCII.equals(expect.value.bytes(in: bytes), ignoringCase: "100-continue") else {
                return .refused(HTTPRefusal(status: 417, message: "an expectation other than 100-continue"))
            }
            // A 1.0 client knows no interim response (RFC 9110 §10.1.1), and nobody waits to send no body.
            head.expectsContinue = head.minorVersion > 0 && head.bodyLength != .none
        }
        head.keepAlive = head.minorVersion > 0 ? !saysClose : saysKeepAlive && !saysClose
        head.isUpgrade = saysUpgrade && upgradesToWebSocket
        return .head(head)
    }

    private func judgeHost(_ bytes: UnsafeRawBufferPointer) -> HTTPRefusal? {
        if host.count > 1 { return HTTPRefusal(status: 400, message: "more than one Host") }
        if host.count == 0 {
            if head.minorVersion > 0 { return HTTPRefusal(status: 400, message: "no Host") }
            return nil
        }
        let value = host.value.bytes(in: bytes)
        for byte in value where !HeadFacts.mayBeInHost(byte) { return HTTPRefusal(status: 400, message: "a malformed Host") }
        // §3.2.2 has the target win over Host; two different ones are for a proxy to sort out, not for us to choose from.
        if authority.isPresent && !ASCII.equals(authority.bytes(in: bytes), ignoringCaseOf: value) {
            return HTTPRefusal(status: 400, message: "the request target and Host name different hosts")
        }
        return nil
    }

    /// uri-host [":" port] (RFC 3986 §3.2.2): unreserved, sub-delims, percent-encoding, colon and brackets.
    private static func mayBeInHost(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x3A, 0x41...0x5B, 0x5D, 0x61...0x7A, 0x21, 0x24...0x2E, 0x3B, 0x3D, 0x5F, 0x7E: true
        default: false
        }
    }

    /// §6.3, but without its leniency: whoever sends two framings, or one twice, is refused.
    private mutating func judgeBody(_ bytes: UnsafeRawBufferPointer, _ bodyBytes: Int) -> HTTPRefusal? {
        if transferEncoding.count > 0 {
            if contentLength.count > 0 { return HTTPRefusal(status: 400, message: "both Content-Length and Transfer-Encoding") }
            if transferEncoding.count > 1 { return HTTPRefusal(status: 400, message: "more than one Transfer-Encoding") }
            if head.minorVersion == 0 { return HTTPRefusal(status: 400, message: "Transfer-Encoding in HTTP/1.0") }
            let value = transferEncoding.value.bytes(in: bytes)
            if ASCII.equals(value, ignoringCase: "chunked") {
                head.bodyLength = .chunked
                return nil
            }
            if value.contains(UInt8(ascii: ",")) || value.isEmpty {
                return HTTPRefusal(status: 400, message: "a Transfer-Encoding other than chunked alone")
            }
            return HTTPRefusal(status: 501, message: "a Transfer-Encoding other than chunked")
        }
        if contentLength.count == 0 { return nil }
        if contentLength.count > 1 { return HTTPRefusal(status: 400, message: "more than one Content-Length") }
        let digits = contentLength.value.bytes(in: bytes)
        if digits.isEmpty { return HTTPRefusal(status: 400, message: "an empty Content-Length") }
        for byte in digits where !ASCII.isDigit(byte) { return HTTPRefusal(status: 400, message: "a Content-Length that isn't a number") }
        var length = 0
        for byte in digits {
            let (tens, isTooLong) = length.multipliedReportingOverflow(by: 10)
            let (sum, isTooLongToo) = tens.addingReportingOverflow(Int(byte &- 0x30))
            if isTooLong || isTooLongToo || sum > bodyBytes { return HTTPRefusal(status: 413, message: "the body is too long") }
            length = sum
        }
        head.bodyLength = length == 0 ? .none : .length(length)
        return nil
    }
}
