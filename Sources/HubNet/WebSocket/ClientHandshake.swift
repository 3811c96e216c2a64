import HubBase

/// The client's side of the opening handshake (RFC 6455 §4.1): writes the request, judges the answer. Incremental.
package struct ClientHandshake {
    package enum Step {
        case needMore
        /// The 101 ends after `length` bytes; what follows it are frames. `subprotocol` is absent when the server chose none; `deflates`: it
        /// took the offer of permessage-deflate.
        case open(length: Int, subprotocol: ByteRange, deflates: Bool)
        /// `status`: what the server answered; 0 when that wasn't HTTP. The text is for people: printable, bounded.
        case failed(status: Int, String)
    }

    private let key: WebSocketKey
    private var lines = HeadLines()
    /// Where the response begins that is being read: interim ones come before.
    private var start: UInt32 = 0
    /// Where the body of a final response begins.
    private var bodyStart = 0

    package init(key: WebSocketKey) { self.key = key }

    /// Appends the request. Throws, and appends nothing, when a part of `opening` can't stand in a request (a line break in a header …).
    package func writeRequest(_ opening: ClientOpening, into out: inout ByteBuffer) throws(NetError) {
        try ClientHandshake.check(opening)
        out.append("GET ")
        append(opening.target, into: &out)
        out.append(" HTTP/1.1\r\nHost: ")
        append(opening.host, into: &out)
        out.append("\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ")
        withUnsafeBytes(of: key.text) { out.append($0) }
        out.append("\r\n")
        if !opening.subprotocols.isEmpty {
            out.append("Sec-WebSocket-Protocol: ")
            for (index, subprotocol) in opening.subprotocols.enumerated() {
                if index > 0 { out.append(", ") }
                append(subprotocol, into: &out)
            }
            out.append("\r\n")
        }
        if opening.offersDeflate {
            out.append("Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n")
        }
        for header in opening.headers {
            append(header.name, into: &out)
            out.append(": ")
            append(header.value, into: &out)
            out.append("\r\n")
        }
        out.append("\r\n")
    }

    /// `bytes`: all that came, from the first response's first byte on. At most `limits.headBytes` are waited for.
    package mutating func judge(_ bytes: UnsafeRawBufferPointer, _ opening: borrowing ClientOpening, limits: borrowing NetLimits) -> Step {
        while true {
            switch lines.next(bytes, headBytes: limits.headBytes, headers: limits.headers) {
            case .needMore: return .needMore
            case .refused(let refusal): return .failed(status: 0, "the server's answer isn't HTTP: \(refusal.message)")
            case .line(let lineStart, let lineEnd):
                if lines.count == 1, ResponseHead.status(bytes, lineStart, lineEnd) == nil {
                    return .failed(status: 0, "the server's answer isn't HTTP: no status line")
                }
            case .end(let length):
                let response = ResponseHead(bytes, start: Int(start), limits)
                // Interim responses may come before the one that counts (RFC 9110 §15.2).
                if response.status >= 100 && response.status < 200 && response.status != 101 {
                    start = UInt32(truncatingIfNeeded: length)
                    lines = HeadLines(from: length)
                    continue
                }
                bodyStart = length
                return response.judge(bytes, key.acceptKey, opening, length: length)
            }
        }
    }

    /// The most of a refusal's body that is looked at: a hub's own has some 150 bytes.
    package static let refusalBytesMax = 4_096

    /// After `failed`: the answer's body as far as it has come (it's there for people, nobody waits for the rest), else nothing.
    package func refusalBody(_ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        guard bodyStart > 0, bodyStart < bytes.count else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        return UnsafeRawBufferPointer(rebasing: bytes[bodyStart...].prefix(Self.refusalBytesMax))
    }

    private func append(_ text: String, into out: inout ByteBuffer) {
        for byte in text.utf8 { out.append(byte) }
    }

    private static func check(_ opening: ClientOpening) throws(NetError) {
        func isVisible(_ text: String) -> Bool { !text.isEmpty && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } }
        func isToken(_ text: String) -> Bool { !text.isEmpty && text.utf8.allSatisfy { ASCII.isToken($0) } }
        func fail(_ what: String) -> NetError { NetError(number: 0, description: "WebSocket opening: \(what)") }
        guard opening.target.utf8.first == UInt8(ascii: "/"), isVisible(opening.target), !opening.target.utf8.contains(UInt8(ascii: "#"))
        else { throw fail("the target has to begin with / and to be percent-encoded") }
        guard isVisible(opening.host) else { throw fail("the host isn't one that a header can name") }
        for subprotocol in opening.subprotocols where !isToken(subprotocol) { throw fail("a subprotocol isn't a token") }
        for header in opening.headers {
            guard isToken(header.name) else { throw fail("a header's name isn't a token") }
            guard header.value.utf8.allSatisfy({ ($0 >= 0x20 && $0 != 0x7F) || $0 == 0x09 }) else {
                // The value may be a token: it isn't shown.
                throw fail("the value of \(header.name) holds a control character")
            }
        }
    }
}
