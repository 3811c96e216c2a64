import HubBase
import HubNet
import Testing

/// What a chunked body came to.
enum ChunkedOutcome: Equatable {
    case body(String, rest: Int)
    case incomplete
    case refused(Int)
}

func decodeChunked(_ bytes: [UInt8], limits: NetLimits = NetLimits(), pieces: () -> Int) -> ChunkedOutcome {
    var decoder = ChunkedDecoder()
    var body: [UInt8] = []
    var waiting: [UInt8] = []
    var place = 0
    while place < bytes.count {
        let next = min(place + pieces(), bytes.count)
        waiting += bytes[place..<next]
        place = next
        var used = 0
        repeat {
            var isDone = false
            used = 0
            let outcome: ChunkedOutcome? = waiting.withUnsafeBytes { bytes in
                switch decoder.decode(bytes, limits: limits) {
                case .needMore(let consumed):
                    used = consumed
                    isDone = true
                    return nil
                case .data(let range, let consumed):
                    body += range.bytes(in: bytes)
                    used = consumed
                    return nil
                case .end(let consumed): return .body(String(decoding: body, as: UTF8.self), rest: bytes.count - consumed)
                case .refused(let refusal): return .refused(refusal.status)
                }
            }
            if let outcome { return outcome }
            waiting.removeFirst(used)
            if isDone { break }
        } while true
    }
    return .incomplete
}

@Suite("chunked bodies, RFC 9112 §7.1")
struct HTTPChunkedDecoderTests {
    /// Whole, byte by byte, and cut at every point; nil when they differ.
    private func everyWay(_ text: String, limits: NetLimits = NetLimits()) -> ChunkedOutcome? {
        let bytes = Array(text.utf8)
        let whole = decodeChunked(bytes, limits: limits) { bytes.count }
        if decodeChunked(bytes, limits: limits, pieces: { 1 }) != whole && !isBody(whole) { return nil }
        for cut in 1..<max(bytes.count, 2) {
            var pieces = [cut, bytes.count]
            let halves = decodeChunked(bytes, limits: limits) { pieces.removeFirst() }
            // What follows the body may not have come yet: only the bodies are compared.
            if bodyOf(halves) != bodyOf(whole) { return nil }
        }
        return whole
    }

    private func isBody(_ outcome: ChunkedOutcome) -> Bool { if case .body = outcome { true } else { false } }
    private func bodyOf(_ outcome: ChunkedOutcome) -> String {
        if case .body(let text, _) = outcome { "body " + text } else { "\(outcome)" }
    }

    static let allowed: [(String, String, Int)] = [
        ("0\r\n\r\n", "", 0), ("5\r\nHello\r\n0\r\n\r\n", "Hello", 0), ("5\r\nHello\r\n6\r\n World\r\n0\r\n\r\n", "Hello World", 0),
        ("00000a\r\n0123456789\r\n000\r\n\r\nGET /", "0123456789", 5),
        ("A\r\n0123456789\r\n0\r\n\r\n", "0123456789", 0), ("2;a=b;c=\"d\"\r\nab\r\n0;x\r\n\r\n", "ab", 0),
        ("2 \t;a\r\nab\r\n0\r\n\r\n", "ab", 0),
        ("2\r\n\r\n\r\n0\r\nExpires: never\r\nX-Empty:\r\n\r\nrest", "\r\n", 4),
    ]

    @Test("chunks, extensions and trailers, however they're cut", arguments: allowed)
    func everyAllowed(text: String, body: String, rest: Int) { #expect(everyWay(text) == .body(body, rest: rest)) }

    static let refused: [(String, Int)] = [
        ("\r\n", 400), ("x\r\n", 400), ("-1\r\n", 400), ("+5\r\n", 400), ("0x5\r\n", 400), (" 5\r\n", 400), ("5 \r\n", 400), ("5\n", 400),
        ("5\rH", 400), (";a\r\n", 400), ("5,\r\n", 400),
        ("5\r\nHelloX", 400), ("5\r\nHello\n", 400), ("5\r\nHello\rX", 400), ("5;a\nb\r\n", 400), ("5;a\u{0}\r\n", 400),
        ("00000000000000005\r\n", 400), ("10000000000000000\r\n", 413),
        ("FFFFFFFFFFFFFFFF\r\n", 413), ("8000000000000000\r\n", 413), ("100001\r\n", 413), ("0\r\nx\r\n", 400), ("0\r\n x: y\r\n", 400),
        ("0\r\nx : y\r\n", 400), ("0\r\nx: a\nb\r\n", 400), ("0\r\n\rX", 400),
        ("0\r\nx: y\rz", 400), ("0\r\n:\r\n", 400),
    ]

    @Test("whatever has two readings or no end in the limits", arguments: refused)
    func everyRefused(text: String, status: Int) { #expect(everyWay(text) == .refused(status)) }

    @Test("the sum of all chunks is bounded: exactly the limit is taken, one byte more is 413 from its size")
    func bodyBytes() {
        var limits = NetLimits()
        limits.bodyBytes = 10
        #expect(everyWay("6\r\nabcdef\r\n4\r\nghij\r\n0\r\n\r\n", limits: limits) == .body("abcdefghij", rest: 0))
        #expect(everyWay("6\r\nabcdef\r\n5", limits: limits) == .refused(413))
    }

    @Test("framing is bounded by the body that it frames; single bytes are fine")
    func framing() {
        let singles = String(repeating: "1\r\nx\r\n", count: 20_000) + "0\r\n\r\n"
        #expect(decodeChunked(Array(singles.utf8), pieces: { 1000 }) == .body(String(repeating: "x", count: 20_000), rest: 0))
        let padded = String(repeating: "1;" + String(repeating: "a", count: 100) + "\r\nx\r\n", count: 20_000)
        #expect(decodeChunked(Array(padded.utf8), pieces: { 1000 }) == .refused(400))
        let endless = "1;" + String(repeating: "a", count: 10_000)
        #expect(decodeChunked(Array(endless.utf8), pieces: { 1000 }) == .refused(400))
    }

    @Test("trailers are bounded in bytes and number: 431")
    func trailers() {
        #expect(decodeChunked(Array(("0\r\nx: " + String(repeating: "a", count: 9000)).utf8), pieces: { 100 }) == .refused(431))
        #expect(decodeChunked(Array(("0\r\n" + String(repeating: "x: y\r\n", count: 65)).utf8), pieces: { 100 }) == .refused(431))
    }

    @Test("after its end a body stays ended")
    func afterTheEnd() {
        var decoder = ChunkedDecoder()
        let bytes = Array("0\r\n\r\n".utf8)
        bytes.withUnsafeBytes { bytes in
            guard case .end(5) = decoder.decode(bytes, limits: NetLimits()) else {
                Issue.record("no end")
                return
            }
            guard case .end(0) = decoder.decode(bytes, limits: NetLimits()) else {
                Issue.record("not ended any more")
                return
            }
        }
    }
}
