/// Numbers as JSON5 writes them (json5.org §6).
enum JSON5Number {
    /// nil when `word` isn't a number. Integers that fit an `Int` become one; all else is kept as written.
    static func read(_ word: String) -> ConfigurationValue? {
        var rest = Array(word.utf8)[...]
        let isNegative = rest.first == UInt8(ascii: "-")
        if isNegative || rest.first == UInt8(ascii: "+") { rest.removeFirst() }
        let body = String(decoding: rest, as: UTF8.self)
        if body == "Infinity" || body == "NaN" { return .number(word) }
        if body.hasPrefix("0x") || body.hasPrefix("0X") {
            let digits = body.dropFirst(2)
            guard !digits.isEmpty, digits.allSatisfy(\.isHexDigit), digits.utf8.allSatisfy({ $0 < 0x80 }) else { return nil }
            return integer(isNegative, String(digits), radix: 16) ?? .number(word)
        }
        let whole = takeDigits(&rest)
        guard whole.count < 2 || whole.first != UInt8(ascii: "0") else { return nil }
        if rest.isEmpty, !whole.isEmpty { return integer(isNegative, body, radix: 10) ?? .number(word) }
        var fraction: ArraySlice<UInt8> = []
        if rest.first == UInt8(ascii: ".") {
            rest.removeFirst()
            fraction = takeDigits(&rest)
        }
        guard !whole.isEmpty || !fraction.isEmpty else { return nil }
        if let mark = rest.first, mark | 0x20 == UInt8(ascii: "e") {
            rest.removeFirst()
            if rest.first == UInt8(ascii: "-") || rest.first == UInt8(ascii: "+") { rest.removeFirst() }
            guard !takeDigits(&rest).isEmpty else { return nil }
        }
        return rest.isEmpty ? .number(word) : nil
    }

    private static func integer(_ isNegative: Bool, _ digits: String, radix: Int) -> ConfigurationValue? {
        Int((isNegative ? "-" : "") + digits, radix: radix).map { .integer($0) }
    }

    private static func takeDigits(_ rest: inout ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let digits = rest.prefix { (0x30...0x39).contains($0) }
        rest = rest.dropFirst(digits.count)
        return digits
    }
}
