import HubBase
import HubWire

/// The slow, obvious twin of the short form: rewrites an envelope with the names that its numbers stand for, knowing nothing of how it's scanned.
///
/// Numbers that stand for nothing become names that nobody has (`?7`).
struct ShortTwin {
    private struct Ended: Error {}

    private let input: UnsafeRawBufferPointer
    private var index = 0
    private var output: [UInt8] = []

    /// nil when the bytes aren't one MessagePack value with nothing behind it.
    static func named(_ message: UnsafeRawBufferPointer) -> [UInt8]? {
        var twin = ShortTwin(input: message)
        guard (try? twin.value(isOurs: true, depth: 0)) != nil, twin.index == message.count else { return nil }
        return twin.output
    }

    private init(input: UnsafeRawBufferPointer) { self.input = input }

    /// What stands behind the first byte: a number of so many bytes, then as many bytes more as it says, or so many elements.
    private mutating func value(isOurs: Bool, depth: Int) throws {
        guard depth <= 64 else { throw Ended() }
        let start = index
        let first = try byte()
        switch first {
        case 0x80...0x8F: try map(Int(first & 15), from: start, isOurs, depth)
        case 0xDE, 0xDF: try map(try number(first == 0xDE ? 2 : 4), from: start, isOurs, depth)
        case 0x90...0x9F: try array(Int(first & 15), from: start, isOurs, depth)
        case 0xDC, 0xDD: try array(try number(first == 0xDC ? 2 : 4), from: start, isOurs, depth)
        default:
            index = start
            _ = try skip()
            output += input[start..<index]
        }
    }

    private mutating func array(_ count: Int, from start: Int, _ isOurs: Bool, _ depth: Int) throws {
        output += input[start..<index]
        for _ in 0..<count { try value(isOurs: isOurs, depth: depth + 1) }
    }

    private mutating func map(_ count: Int, from start: Int, _ isOurs: Bool, _ depth: Int) throws {
        output += input[start..<index]
        for _ in 0..<count {
            let place = index
            let key = try skip()
            var name = ""
            if isOurs, let key {
                name = WireField(rawValue: UInt8(clamping: key)).map { "\($0)" } ?? "?\(key)"
                put(name)
            } else {
                output += input[place..<index]
                if isOurs { name = text(place..<index) }
            }
            // Of the envelope itself alone: elsewhere such names mean what they say.
            if depth == 0, name == "type", let word = try word() {
                put(WireWord(rawValue: UInt8(clamping: word)).map { "\($0)" } ?? "?\(word)")
            } else {
                try value(isOurs: isOurs && !(depth == 0 && name == "payload"), depth: depth + 1)
            }
        }
    }

    /// The number that comes next; nil, and nothing is taken, when it's something else.
    private mutating func word() throws -> UInt64? {
        let place = index
        if let number = try? skip(), number < 1 << 53 { return number }
        index = place
        return nil
    }

    /// Takes one value that holds no others; a whole number from 0 on is answered.
    private mutating func skip() throws -> UInt64? {
        let first = try byte()
        switch first {
        case 0x00...0x7F: return UInt64(first)
        case 0xA0...0xBF: try take(Int(first & 31))
        case 0xD9, 0xC4: try take(try number(1))
        case 0xDA, 0xC5: try take(try number(2))
        case 0xDB, 0xC6: try take(try number(4))
        case 0xCC...0xCF: return try bits(1 << Int(first & 3))
        case 0xD0...0xD3:
            let bytes = 1 << Int(first & 3)
            let value = try bits(bytes)
            return value >> UInt64(bytes * 8 - 1) == 0 ? value : nil
        case 0xCA: try take(4)
        case 0xCB: try take(8)
        case 0xC0, 0xC2, 0xC3, 0xE0...0xFF: break
        default: throw Ended()
        }
        return nil
    }

    private mutating func byte() throws -> UInt8 {
        guard index < input.count else { throw Ended() }
        index += 1
        return input[index - 1]
    }

    private mutating func bits(_ bytes: Int) throws -> UInt64 {
        var value: UInt64 = 0
        for _ in 0..<bytes { value = value << 8 | UInt64(try byte()) }
        return value
    }

    private mutating func number(_ bytes: Int) throws -> Int { Int(try bits(bytes)) }

    private mutating func take(_ count: Int) throws {
        guard count <= input.count - index else { throw Ended() }
        index += count
    }

    /// A string's content; of anything else something that is no name.
    private func text(_ token: Range<Int>) -> String {
        let bytes = input[token]
        let header: Int
        switch bytes.first ?? 0 {
        case 0xA0...0xBF: header = 1
        case 0xD9: header = 2
        case 0xDA: header = 3
        case 0xDB: header = 5
        default: return ""
        }
        return String(decoding: bytes.dropFirst(header), as: UTF8.self)
    }

    private mutating func put(_ name: String) {
        output.append(0xD9)
        output.append(UInt8(name.utf8.count))
        output += name.utf8
    }

    /// What a scan says, in a form that doesn't depend on how names were written.
    struct Reading: Equatable {
        var code: ErrorCode?
        var type: RequestType?
        var id: [UInt8]
        var values: [[UInt8]?] = []
        var flags: [Bool] = []

        init(_ message: UnsafeRawBufferPointer, _ format: WireFormat) {
            switch EnvelopeScanner.scan(message, format: format, depthMax: 32) {
            case .refused(let error, let range):
                code = error.code
                id = [UInt8](range.bytes(in: message))
            case .request(let request):
                type = request.type
                id = [UInt8](request.id.bytes(in: message))
                flags = [request.members, request.reverse]
                values = [
                    request.channel, request.messageId, request.device, request.token, request.position, request.cursor, request.payload,
                    request.since, request.before, request.sinceTime, request.beforeTime, request.limit, request.age,
                ].map { $0.isPresent ? [UInt8]($0.bytes(in: message)) : nil }
                for range in [request.channels, request.users] {
                    let bytes = range.bytes(in: message)
                    values.append(range.isPresent ? format == .short ? ShortTwin.named(bytes) : [UInt8](bytes) : nil)
                }
            }
        }
    }
}
