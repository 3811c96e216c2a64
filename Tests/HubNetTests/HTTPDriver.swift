import HubBase
import HubNet

/// What a parser made of a head, with its bytes copied out, to compare.
enum HeadEvent: Equatable {
    case needMore
    case head(Head)
    case refused(Int, String)

    struct Head: Equatable {
        var method: HTTPMethod
        var minorVersion: UInt8
        var path: String
        var query: String?
        var headers: [String]
        var headLength: Int
        var body: HTTPHead.BodyLength
        var keepAlive: Bool
        var expectsContinue: Bool
        var isUpgrade: Bool
    }

    var status: Int? { if case .refused(let status, _) = self { status } else { nil } }
    var found: Head? { if case .head(let head) = self { head } else { nil } }
}

extension HTTPHeadParser {
    /// One call, as the shell makes it.
    mutating func receive(_ bytes: ArraySlice<UInt8>, limits: NetLimits) -> HeadEvent {
        bytes.withUnsafeBytes { bytes in
            func text(_ range: ByteRange) -> String { String(decoding: range.bytes(in: bytes), as: UTF8.self) }
            switch parse(bytes, limits: limits) {
            case .needMore: return .needMore
            case .refused(let refusal): return .refused(refusal.status, "\(refusal.message)")
            case .head(let head):
                return .head(
                    HeadEvent.Head(
                        method: head.method, minorVersion: head.minorVersion, path: text(head.path),
                        query: head.query.isPresent ? text(head.query) : nil,
                        headers: head.headers.map { text($0.name) + "=" + text($0.value) }, headLength: head.headLength,
                        body: head.bodyLength, keepAlive: head.keepAlive, expectsContinue: head.expectsContinue,
                        isUpgrade: head.isUpgrade))
            }
        }
    }
}

func parseHead(_ bytes: [UInt8], limits: NetLimits = NetLimits()) -> HeadEvent {
    var parser = HTTPHeadParser()
    return parser.receive(bytes[...], limits: limits)
}

func parseHead(_ text: String, limits: NetLimits = NetLimits()) -> HeadEvent { parseHead(Array(text.utf8), limits: limits) }

/// In growing pieces, as `pieces` says how much longer each is.
func parseHead(_ bytes: [UInt8], limits: NetLimits, pieces: () -> Int) -> HeadEvent {
    var parser = HTTPHeadParser()
    var count = 0
    while true {
        count = min(count + pieces(), bytes.count)
        let event = parser.receive(bytes[..<count], limits: limits)
        if event != .needMore || count == bytes.count { return event }
    }
}

/// Whole, byte by byte, and cut in two at every point: the outcome that is the same each time; nil when they differ.
func parseHeadEveryWay(_ text: String, limits: NetLimits = NetLimits()) -> HeadEvent? {
    let bytes = Array(text.utf8)
    let whole = parseHead(bytes, limits: limits)
    if parseHead(bytes, limits: limits, pieces: { 1 }) != whole { return nil }
    for cut in bytes.indices {
        var pieces = [cut, bytes.count - cut]
        if parseHead(bytes, limits: limits, pieces: { pieces.removeFirst() }) != whole { return nil }
    }
    return whole
}

/// Calls `body` with the request in `text`, its body being what follows the head; nil when the parser has no head of it.
func withRequest<Result>(_ text: String, _ body: (borrowing HTTPRequest) -> Result) -> Result? {
    Array(text.utf8).withUnsafeBytes { bytes in
        var parser = HTTPHeadParser()
        guard case .head(let head) = parser.parse(bytes, limits: NetLimits()) else { return nil }
        return body(HTTPRequest(head, in: bytes, body: UnsafeRawBufferPointer(rebasing: bytes[head.headLength...])))
    }
}
