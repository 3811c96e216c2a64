import Foundation

/// The obvious twin of the MessagePack readers: the specification's table read aloud, recursive, into a tree.
indirect enum SlowMessagePack: Equatable {
    case null
    case bool(Bool)
    case unsigned(UInt64)
    case signed(Int64)
    case double(Double)
    case string(String)
    case binary([UInt8])
    case array([SlowMessagePack])
    case map([(String, SlowMessagePack)])

    /// nil for what isn't one whole value that the hub takes.
    init?(_ bytes: [UInt8], depthMax: Int) {
        var rest = bytes[...]
        guard let value = SlowMessagePack.read(&rest, open: 0, depthMax), rest.isEmpty else { return nil }
        self = value
    }

    var isMap: Bool {
        if case .map = self { true } else { false }
    }

    private static func read(_ rest: inout ArraySlice<UInt8>, open: Int, _ depthMax: Int) -> SlowMessagePack? {
        guard let first = rest.popFirst() else { return nil }
        switch first {
        case 0x00...0x7F: return .unsigned(UInt64(first))
        case 0x80...0x8F: return map(&rest, Int(first) - 0x80, open, depthMax)
        case 0x90...0x9F: return array(&rest, Int(first) - 0x90, open, depthMax)
        case 0xA0...0xBF: return text(&rest, Int(first) - 0xA0)
        case 0xC0: return .null
        case 0xC2: return .bool(false)
        case 0xC3: return .bool(true)
        case 0xC4: return number(&rest, 1).flatMap { take(&rest, Int($0)) }.map { .binary($0) }
        case 0xC5: return number(&rest, 2).flatMap { take(&rest, Int($0)) }.map { .binary($0) }
        case 0xC6: return number(&rest, 4).flatMap { take(&rest, Int($0)) }.map { .binary($0) }
        case 0xCA: return number(&rest, 4).flatMap { finite(Double(Float(bitPattern: UInt32($0)))) }
        case 0xCB: return number(&rest, 8).flatMap { finite(Double(bitPattern: $0)) }
        case 0xCC: return number(&rest, 1).map { .unsigned($0) }
        case 0xCD: return number(&rest, 2).map { .unsigned($0) }
        case 0xCE: return number(&rest, 4).map { .unsigned($0) }
        case 0xCF: return number(&rest, 8).map { .unsigned($0) }
        case 0xD0: return number(&rest, 1).map { integer(Int64(Int8(bitPattern: UInt8($0)))) }
        case 0xD1: return number(&rest, 2).map { integer(Int64(Int16(bitPattern: UInt16($0)))) }
        case 0xD2: return number(&rest, 4).map { integer(Int64(Int32(bitPattern: UInt32($0)))) }
        case 0xD3: return number(&rest, 8).map { integer(Int64(bitPattern: $0)) }
        case 0xD9: return number(&rest, 1).flatMap { text(&rest, Int($0)) }
        case 0xDA: return number(&rest, 2).flatMap { text(&rest, Int($0)) }
        case 0xDB: return number(&rest, 4).flatMap { text(&rest, Int($0)) }
        case 0xDC: return number(&rest, 2).flatMap { array(&rest, Int($0), open, depthMax) }
        case 0xDD: return number(&rest, 4).flatMap { array(&rest, Int($0), open, depthMax) }
        case 0xDE: return number(&rest, 2).flatMap { map(&rest, Int($0), open, depthMax) }
        case 0xDF: return number(&rest, 4).flatMap { map(&rest, Int($0), open, depthMax) }
        case 0xE0...0xFF: return .signed(Int64(first) - 256)
        default: return nil
        }
    }

    private static func integer(_ value: Int64) -> SlowMessagePack { value < 0 ? .signed(value) : .unsigned(UInt64(value)) }
    private static func finite(_ value: Double) -> SlowMessagePack? { value.isFinite ? .double(value) : nil }

    private static func take(_ rest: inout ArraySlice<UInt8>, _ count: Int) -> [UInt8]? {
        guard count <= rest.count else { return nil }
        defer { rest = rest.dropFirst(count) }
        return Array(rest.prefix(count))
    }

    private static func number(_ rest: inout ArraySlice<UInt8>, _ count: Int) -> UInt64? {
        take(&rest, count)?.reduce(0) { $0 << 8 | UInt64($1) }
    }

    private static func text(_ rest: inout ArraySlice<UInt8>, _ count: Int) -> SlowMessagePack? {
        take(&rest, count).flatMap { String(validating: $0, as: UTF8.self) }.map { .string($0) }
    }

    private static func array(_ rest: inout ArraySlice<UInt8>, _ count: Int, _ open: Int, _ depthMax: Int) -> SlowMessagePack? {
        guard open < depthMax else { return nil }
        var elements: [SlowMessagePack] = []
        while elements.count < count {
            guard let element = read(&rest, open: open + 1, depthMax) else { return nil }
            elements.append(element)
        }
        return .array(elements)
    }

    private static func map(_ rest: inout ArraySlice<UInt8>, _ count: Int, _ open: Int, _ depthMax: Int) -> SlowMessagePack? {
        guard open < depthMax else { return nil }
        var fields: [(String, SlowMessagePack)] = []
        while fields.count < count {
            guard case .string(let key)? = read(&rest, open: open + 1, depthMax), let value = read(&rest, open: open + 1, depthMax)
            else { return nil }
            fields.append((key, value))
        }
        return .map(fields)
    }

    static func == (left: SlowMessagePack, right: SlowMessagePack) -> Bool { left.json == right.json }

    /// As JSON without white space.
    var json: String {
        switch self {
        case .null: "null"
        case .bool(let value): "\(value)"
        case .unsigned(let value): "\(value)"
        case .signed(let value): "\(value)"
        case .double(let value): "\(value)"
        case .string(let text): SlowMessagePack.quoted(text)
        case .binary(let bytes): "\"\(Data(bytes).base64EncodedString())\""
        case .array(let elements): "[" + elements.map(\.json).joined(separator: ",") + "]"
        case .map(let fields): "{" + fields.map { "\(SlowMessagePack.quoted($0.0)):\($0.1.json)" }.joined(separator: ",") + "}"
        }
    }

    private static func quoted(_ text: String) -> String {
        var out = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": out += #"\""#
            case "\\": out += #"\\"#
            case "\u{8}": out += #"\b"#
            case "\u{C}": out += #"\f"#
            case "\n": out += #"\n"#
            case "\r": out += #"\r"#
            case "\t": out += #"\t"#
            case "\0"..<" ": out += String(format: "\\u%04x", scalar.value)
            default: out.unicodeScalars.append(scalar)
            }
        }
        return out + "\""
    }
}
