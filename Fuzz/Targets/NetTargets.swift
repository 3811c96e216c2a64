import HubBase
import HubNet

private let limits: NetLimits = {
    var limits = NetLimits()
    limits.headBytes = 2048
    limits.headers = 16
    limits.bodyBytes = 4096
    limits.messageBytes = 4096
    limits.fragments = 16
    return limits
}()

/// A request head, whole and byte by byte: the same outcome.
func fuzzHead(_ bytes: UnsafeRawBufferPointer) throws {
    var whole = HTTPHeadParser()
    let outcome = summary(whole.parse(bytes, limits: limits))
    var split = HTTPHeadParser()
    for count in 0...bytes.count {
        let step = summary(split.parse(UnsafeRawBufferPointer(rebasing: bytes[..<count]), limits: limits))
        if step != "more" || count == bytes.count {
            try require(step == outcome, "a head's outcome depends on how its bytes were cut")
            return
        }
    }
}

private func summary(_ outcome: HTTPHeadOutcome) -> String {
    switch outcome {
    case .needMore: "more"
    case .head(let head): "head \(head.headLength) \(head.headers.count) \(head.bodyLength) \(head.keepAlive)"
    case .refused(let refusal): "refused \(refusal.status)"
    }
}

/// The opening handshake of whatever parses as a head, with everything that a handler may ask of a request.
func fuzzHandshake(_ bytes: UnsafeRawBufferPointer) {
    var parser = HTTPHeadParser()
    guard case .head(let head) = parser.parse(bytes, limits: limits) else { return }
    let request = HTTPRequest(head, in: bytes, body: UnsafeRawBufferPointer(start: nil, count: 0))
    _ = OpeningHandshake.judge(request)
    _ = request.pathSegments()
    _ = request.queryValue("user")
    _ = request.header("authorization")
    _ = request.offersSubprotocol("hub.v1.json")
}

/// A chunked body: what comes out is bounded, and progress is made.
func fuzzChunked(_ bytes: UnsafeRawBufferPointer) throws {
    var decoder = ChunkedDecoder()
    var rest = bytes[...]
    var body = 0
    for _ in 0...(bytes.count * 2 + 2) {
        switch decoder.decode(UnsafeRawBufferPointer(rebasing: rest), limits: limits) {
        case .needMore: return
        case .data(let range, let consumed):
            body += Int(range.count)
            try require(body <= limits.bodyBytes, "a body passed its limit")
            rest = rest.dropFirst(consumed)
        case .end, .refused: return
        }
    }
    try require(false, "a chunked body makes no progress")
}

/// Compressed messages: never more than the limit comes out, twice the same, and the window outlives what was refused.
func fuzzInflate(_ bytes: UnsafeRawBufferPointer) throws {
    guard let inflater = Inflater(windowBits: 15) else { return }
    var first: (outcome: Inflater.Outcome, count: Int)?
    for _ in 0..<2 {
        var out = ByteBuffer(capacity: 64)
        let outcome = inflater.inflate(bytes, limit: limits.messageBytes, into: &out)
        if case .message = outcome { try require(out.count <= limits.messageBytes, "a message passed its limit") }
        try require(out.count <= limits.messageBytes + 1, "more was inflated than the limit and the byte that tells")
        if let first { try require(first == (outcome, out.count), "an inflater that was reset remembers") }
        first = (outcome, out.count)
        inflater.reset()
    }
}

/// Frames as a server and as a client sees them: whole and byte by byte, the same messages.
func fuzzFrames(_ bytes: UnsafeRawBufferPointer) throws {
    for role in [WebSocketRole.server, .client] {
        let whole = try messages(bytes, role, step: max(bytes.count, 1))
        let split = try messages(bytes, role, step: 1)
        try require(whole == split, "what frames say depends on how their bytes were cut")
    }
}

private enum Seen: Equatable {
    case message(MessageKind, Bool, [UInt8])
    case fragment(MessageKind?, Bool, Bool, [UInt8])
    case ping(UInt32), pong(UInt32)
    case close(UInt16?), failed(UInt16)
}

private func messages(_ bytes: UnsafeRawBufferPointer, _ role: WebSocketRole, step: Int) throws -> [Seen] {
    var decoder = FrameDecoder(role: role, allowsCompression: true)
    let frames = FrameLimits(limits)
    var found: [Seen] = []
    var held: [UInt8] = []
    var given = 0
    while given < bytes.count {
        let next = min(given + step, bytes.count)
        held += bytes[given..<next]
        given = next
        var consumed = 0
        var isWaiting = false
        while !isWaiting {
            let count = held.count
            var done = 0
            try held.withUnsafeMutableBytes { buffer in
                let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[consumed...])
                switch decoder.next(rest, limits: frames) {
                case .needMore(let wanted):
                    try require(wanted <= limits.messageBytes * 2 + 128, "more is asked for than a message may have")
                    isWaiting = true
                case .message(let kind, let payload, let compressed, let used):
                    found.append(.message(kind, compressed, Array(payload.bytes(in: UnsafeRawBufferPointer(rest)))))
                    done = used
                case .fragment(let first, let payload, let isFinal, let compressed, let used):
                    found.append(.fragment(first, isFinal, compressed, Array(payload.bytes(in: UnsafeRawBufferPointer(rest)))))
                    done = used
                case .ping(let payload, let used):
                    found.append(.ping(payload.count))
                    done = used
                case .pong(let payload, let used):
                    found.append(.pong(payload.count))
                    done = used
                case .close(let code, _, let used):
                    found.append(.close(code))
                    done = used
                case .failed(let code, _):
                    found.append(.failed(code))
                    isWaiting = true
                }
            }
            try require(done <= count - consumed, "more was consumed than was there")
            consumed += done
        }
        held.removeFirst(consumed)
    }
    return found
}

/// A PROXY header, whole and byte by byte: the same outcome. Then a request with the bytes as what proxies wrote.
func fuzzProxy(_ bytes: UnsafeRawBufferPointer) throws {
    let outcome = ProxyHeader.parse(bytes)
    for count in 0...bytes.count {
        let step = ProxyHeader.parse(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
        if case .needMore(let wanted) = step {
            try require(wanted > count && wanted <= ProxyHeader.bytesMax, "a header asks for nothing, or for too much")
        } else {
            try require(step == outcome, "a header's outcome depends on how its bytes were cut")
            break
        }
    }
    for (header, name) in [(TrustedProxies.Header.xForwardedFor, "X-Forwarded-For"), (.forwarded, "Forwarded")] {
        let head = [UInt8]("GET / HTTP/1.1\r\nHost: a\r\n\(name): ".utf8) + bytes + [13, 10, 13, 10]
        head.withUnsafeBytes { head in
            var parser = HTTPHeadParser()
            guard case .head(let parsed) = parser.parse(head, limits: limits) else { return }
            let request = HTTPRequest(parsed, in: head, body: UnsafeRawBufferPointer(start: nil, count: 0))
            let proxies = TrustedProxies(ranges: [AddressRange("10.0.0.0/8")].compactMap { $0 }, header: header)
            _ = ForwardedFor(proxies).client(of: request, from: IPAddress(v4: 0x0A00_0001))
        }
    }
}
