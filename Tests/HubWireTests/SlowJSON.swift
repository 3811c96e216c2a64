/// The obvious twin of the scanner's grammar check: RFC 8259 read aloud, recursive, on an array of bytes.
struct SlowJSON {
    private let text: [UInt8]
    private var index = 0
    private let depthMax: Int

    /// Whether `text` is one JSON object whose nesting, itself included, isn't deeper than `depthMax`.
    static func isObject(_ text: [UInt8], depthMax: Int) -> Bool {
        var parser = SlowJSON(text: text, depthMax: depthMax)
        parser.space()
        guard parser.peek == UInt8(ascii: "{"), parser.value(depth: 1) else { return false }
        parser.space()
        return parser.index == text.count
    }

    private init(text: [UInt8], depthMax: Int) {
        self.text = text
        self.depthMax = depthMax
    }

    private var peek: UInt8? { index < text.count ? text[index] : nil }

    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard peek == UInt8(ascii: character) else { return false }
        index += 1
        return true
    }

    private mutating func space() {
        while take(" ") || take("\t") || take("\n") || take("\r") {}
    }

    private mutating func value(depth: Int) -> Bool {
        switch peek {
        case UInt8(ascii: "{"): depth <= depthMax && members(depth: depth)
        case UInt8(ascii: "["): depth <= depthMax && elements(depth: depth)
        case UInt8(ascii: "\""): string()
        case UInt8(ascii: "t"): word("true")
        case UInt8(ascii: "f"): word("false")
        case UInt8(ascii: "n"): word("null")
        default: number()
        }
    }

    private mutating func members(depth: Int) -> Bool {
        index += 1
        space()
        if take("}") { return true }
        repeat {
            space()
            guard string() else { return false }
            space()
            guard take(":") else { return false }
            space()
            guard value(depth: depth + 1) else { return false }
            space()
        } while take(",")
        return take("}")
    }

    private mutating func elements(depth: Int) -> Bool {
        index += 1
        space()
        if take("]") { return true }
        repeat {
            space()
            guard value(depth: depth + 1) else { return false }
            space()
        } while take(",")
        return take("]")
    }

    private mutating func string() -> Bool {
        guard take("\"") else { return false }
        while let byte = peek {
            index += 1
            switch byte {
            case UInt8(ascii: "\""): return true
            case 0..<0x20: return false
            case UInt8(ascii: "\\"):
                guard let escaped = peek else { return false }
                index += 1
                if escaped == UInt8(ascii: "u") {
                    let digits = text[index...].prefix(4)
                    guard digits.count == 4, digits.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit && $0 < 0x80 }) else {
                        return false
                    }
                    index += 4
                } else if !"\"\\/bfnrt".utf8.contains(escaped) {
                    return false
                }
            default: break
            }
        }
        return false
    }

    private mutating func word(_ word: String) -> Bool {
        guard text[index...].starts(with: word.utf8) else { return false }
        index += word.utf8.count
        return true
    }

    private mutating func number() -> Bool {
        _ = take("-")
        if !take("0") {
            guard digits() else { return false }
        }
        if take(".") {
            guard digits() else { return false }
        }
        if take("e") || take("E") {
            _ = take("+") || take("-")
            guard digits() else { return false }
        }
        return true
    }

    private mutating func digits() -> Bool {
        let start = index
        while let byte = peek, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) { index += 1 }
        return index > start
    }
}
