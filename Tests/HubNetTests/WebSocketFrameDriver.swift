import HubBase
import HubNet

/// A frame as a peer writes it, by the plainest code: the twin that encoder and decoder are held against.
struct WireFrame {
    var first: UInt8
    var payload: [UInt8]
    var key: [UInt8]?

    /// `first` is the whole first byte: 0x81 is a final text frame.
    init(_ first: UInt8, _ payload: [UInt8], key: [UInt8]? = [0x37, 0xFA, 0x21, 0x3D]) {
        self.first = first
        self.payload = payload
        self.key = key
    }

    init(_ first: UInt8, _ text: String, key: [UInt8]? = [0x37, 0xFA, 0x21, 0x3D]) {
        self.init(first, Array(text.utf8), key: key)
    }

    var bytes: [UInt8] {
        var bytes = [first]
        let mask: UInt8 = key == nil ? 0 : 0x80
        if payload.count < 126 {
            bytes.append(mask | UInt8(payload.count))
        } else if payload.count < 65536 {
            bytes.append(mask | 126)
            bytes += [UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
        } else {
            bytes.append(mask | 127)
            for shift in stride(from: 56, through: 0, by: -8) { bytes.append(UInt8(payload.count >> shift & 0xFF)) }
        }
        guard let key else { return bytes + payload }
        bytes += key
        for (index, byte) in payload.enumerated() { bytes.append(byte ^ key[index % 4]) }
        return bytes
    }
}

/// A step with its bytes copied out, to compare.
enum FrameEvent: Equatable {
    case message(MessageKind, [UInt8], compressed: Bool)
    case fragment(MessageKind?, [UInt8], isFinal: Bool, compressed: Bool)
    case ping([UInt8])
    case pong([UInt8])
    case close(UInt16?, [UInt8])
    case failed(UInt16, String)

    static func text(_ text: String) -> FrameEvent { .message(.text, Array(text.utf8), compressed: false) }

    var failureCode: UInt16? { if case .failed(let code, _) = self { code } else { nil } }
}

/// Does what the shell does: keeps what wasn't consumed, and comes again with more.
struct FrameDriver {
    var decoder: FrameDecoder
    var limits: FrameLimits
    var events: [FrameEvent] = []
    /// What the last `needMore` asked for.
    var wanted = 0
    private var waiting: [UInt8] = []

    init(
        role: WebSocketRole = .server, allowsCompression: Bool = false,
        limits: FrameLimits = FrameLimits(messageBytes: 64 * 1024, fragments: 1024)
    ) {
        self.decoder = FrameDecoder(role: role, allowsCompression: allowsCompression)
        self.limits = limits
    }

    mutating func receive(_ bytes: ArraySlice<UInt8>) {
        waiting += bytes
        while take() {}
    }

    /// False when the decoder wants more.
    private mutating func take() -> Bool {
        var used = 0
        let limits = limits
        let event: FrameEvent? = waiting.withUnsafeMutableBytes { bytes in
            let step = decoder.next(bytes, limits: limits)
            func copy(_ range: ByteRange) -> [UInt8] { Array(range.bytes(in: UnsafeRawBufferPointer(bytes))) }
            switch step {
            case .needMore(let count):
                precondition(count == 0 || count > bytes.count, "asked for bytes that were there")
                precondition(count <= Int(max(limits.compressedBytes, 125)) + 14, "asked for more than the limits allow")
                wanted = count
                return nil
            case .message(let kind, let payload, let compressed, let consumed):
                used = consumed
                return .message(kind, copy(payload), compressed: compressed)
            case .fragment(let first, let payload, let isFinal, let compressed, let consumed):
                used = consumed
                return .fragment(first, copy(payload), isFinal: isFinal, compressed: compressed)
            case .ping(let payload, let consumed):
                used = consumed
                return .ping(copy(payload))
            case .pong(let payload, let consumed):
                used = consumed
                return .pong(copy(payload))
            case .close(let code, let reason, let consumed):
                used = consumed
                return .close(code, copy(reason))
            case .failed(let code, let reason): return .failed(code, "\(reason)")
            }
        }
        guard let event else { return false }
        waiting.removeFirst(used)
        events.append(event)
        if case .failed = event { waiting = [] }
        return true
    }
}

/// What the decoder finds in `bytes` when they come in one piece.
func decode(
    _ bytes: [UInt8], role: WebSocketRole = .server, allowsCompression: Bool = false,
    limits: FrameLimits = FrameLimits(messageBytes: 64 * 1024, fragments: 1024)
) -> [FrameEvent] {
    var driver = FrameDriver(role: role, allowsCompression: allowsCompression, limits: limits)
    driver.receive(bytes[...])
    return driver.events
}

/// Whole, byte by byte, and cut in two at every point: the events that are the same each time; nil when they differ.
func decodeEveryWay(
    _ bytes: [UInt8], role: WebSocketRole = .server, allowsCompression: Bool = false,
    limits: FrameLimits = FrameLimits(messageBytes: 64 * 1024, fragments: 1024)
) -> [FrameEvent]? {
    let whole = decode(bytes, role: role, allowsCompression: allowsCompression, limits: limits)
    var single = FrameDriver(role: role, allowsCompression: allowsCompression, limits: limits)
    for index in bytes.indices { single.receive(bytes[index...index]) }
    if single.events != whole { return nil }
    for cut in bytes.indices {
        var halves = FrameDriver(role: role, allowsCompression: allowsCompression, limits: limits)
        halves.receive(bytes[..<cut])
        halves.receive(bytes[cut...])
        if halves.events != whole { return nil }
    }
    return whole
}

extension Chance {
    /// 0 ..< `bound`.
    mutating func roll(_ bound: Int) -> Int { Int.random(in: 0..<max(bound, 1), using: &self) }
}
