/// Reads JSON5 (json5.org), strictly, into `ConfigurationValue`.
///
/// Our own, because the place of a mistake matters most in a configuration file: every key keeps its line, every error names line and
/// column, a key that is given twice is refused rather than dropped (decision 0056). Not for anything hot or hostile; still bounded: the
/// caller limits the size, `depthMax` the nesting.
package struct JSON5Reader {
    package struct Failure: Error, Sendable, Equatable {
        /// Both from 1; the column counts bytes.
        package var line: Int
        package var column: Int
        package var message: String

        package init(line: Int, column: Int, message: String) {
            self.line = line
            self.column = column
            self.message = message
        }
    }

    package static let depthMax = 16
    /// Keys of one object. Each is compared with those before it.
    package static let keysMax = 1_000

    private let bytes: [UInt8]
    private var place = 0

    /// Where each line begins, so that a key's line costs a search and not a count.
    private let lineStarts: [Int]

    private init(_ bytes: [UInt8]) {
        self.bytes = bytes
        self.lineStarts = [0] + bytes.indices.filter { bytes[$0] == 0x0A }.map { $0 + 1 }
    }

    package static func read(_ bytes: [UInt8]) throws(Failure) -> ConfigurationValue {
        var reader = JSON5Reader(bytes)
        if let bad = reader.invalidUTF8() { throw reader.failure("this isn't UTF-8", at: bad) }
        try reader.skipSpace()
        try reader.refuseBareMembers()
        let value = try reader.value(depth: 0)
        try reader.skipSpace()
        guard reader.place == bytes.count else { throw reader.failure("nothing may follow the value, but there is \(reader.found)") }
        return value
    }

    /// `listen: …` without braces is a mistake of many; what's wrong with `listen` as a value helps nobody.
    private func refuseBareMembers() throws(Failure) {
        guard peek != UInt8(ascii: "{") else { return }
        var ahead = self
        do throws(Failure) {
            _ = try ahead.key()
            try ahead.skipSpace()
        } catch { return }
        guard ahead.peek == UInt8(ascii: ":") else { return }
        throw failure("a configuration is one object: put { } around it")
    }

    // MARK: Values

    private mutating func value(depth: Int) throws(Failure) -> ConfigurationValue {
        switch peek {
        case UInt8(ascii: "{"): return try object(depth: depth + 1)
        case UInt8(ascii: "["): return try list(depth: depth + 1)
        case UInt8(ascii: "\""), UInt8(ascii: "'"): return .text(try string())
        case nil: throw failure("a value is missing")
        default: break
        }
        let start = place
        let word = takeWord()
        switch word {
        case "true": return .boolean(true)
        case "false": return .boolean(false)
        case "null": return .null
        case "": throw failure("a value is expected, not \(found)")
        default:
            if let number = JSON5Number.read(word) { return number }
            throw failure("\(Self.shown(word)) is no value; text stands between quotes", at: start)
        }
    }

    /// A secret that lacks its quotes is longer than what shows here.
    private static func shown(_ word: String) -> String { word.utf8.count <= 5 ? shownText(word) : "a word of \(word.utf8.count) bytes" }

    private mutating func object(depth: Int) throws(Failure) -> ConfigurationValue {
        guard depth <= Self.depthMax else { throw failure("nested deeper than \(Self.depthMax) levels") }
        place += 1
        var members: [ConfigurationValue.Member] = []
        while true {
            try skipSpace()
            if take(UInt8(ascii: "}")) { return .object(members) }
            let start = place
            let line = position(of: start).line
            let key = try self.key()
            if let first = members.first(where: { $0.key == key }) {
                throw failure("\(shownText(key)) is given twice, first in line \(first.line)", at: start)
            }
            guard members.count < Self.keysMax else { throw failure("more than \(Self.keysMax) keys in one object", at: start) }
            try skipSpace()
            guard take(UInt8(ascii: ":")) else { throw failure("a colon is expected after \(shownText(key)), not \(found)") }
            try skipSpace()
            members.append(.init(key: key, line: line, value: try value(depth: depth)))
            try skipSpace()
            if take(UInt8(ascii: ",")) || peek == UInt8(ascii: "}") { continue }
            throw failure("a comma or } is expected, not \(found)")
        }
    }

    private mutating func list(depth: Int) throws(Failure) -> ConfigurationValue {
        guard depth <= Self.depthMax else { throw failure("nested deeper than \(Self.depthMax) levels") }
        place += 1
        var elements: [ConfigurationValue] = []
        while true {
            try skipSpace()
            if take(UInt8(ascii: "]")) { return .list(elements) }
            elements.append(try value(depth: depth))
            try skipSpace()
            if take(UInt8(ascii: ",")) || peek == UInt8(ascii: "]") { continue }
            throw failure("a comma or ] is expected, not \(found)")
        }
    }

    private mutating func key() throws(Failure) -> String {
        if peek == UInt8(ascii: "\"") || peek == UInt8(ascii: "'") { return try string() }
        let start = place
        let word = takeWord()
        guard let first = word.utf8.first else { throw failure("a key is expected, not \(found)") }
        let isIdentifier = word.utf8.allSatisfy { Self.isLetter($0) || (0x30...0x39).contains($0) }
        guard Self.isLetter(first), isIdentifier else {
            throw failure("the key \(shownText(word)) must stand between quotes", at: start)
        }
        return word
    }

    // MARK: Strings

    private mutating func string() throws(Failure) -> String {
        let start = place
        let quote = bytes[place]
        place += 1
        var text: [UInt8] = []
        while let byte = peek {
            place += 1
            switch byte {
            case quote: return String(decoding: text, as: UTF8.self)
            case UInt8(ascii: "\\"): try escape(into: &text)
            case 0x0A, 0x0D: throw failure("the text that begins here doesn't end in its line", at: start)
            default: text.append(byte)
            }
        }
        throw failure("the text that begins here doesn't end", at: start)
    }

    private mutating func escape(into text: inout [UInt8]) throws(Failure) {
        let start = place - 1
        guard let byte = peek else { throw failure("the text ends after a backslash", at: start) }
        place += 1
        switch byte {
        case UInt8(ascii: "b"): text.append(0x08)
        case UInt8(ascii: "f"): text.append(0x0C)
        case UInt8(ascii: "n"): text.append(0x0A)
        case UInt8(ascii: "r"): text.append(0x0D)
        case UInt8(ascii: "t"): text.append(0x09)
        case UInt8(ascii: "v"): text.append(0x0B)
        case UInt8(ascii: "0"):
            if let next = peek, (0x30...0x39).contains(next) { throw failure("octal escapes aren't JSON5", at: start) }
            text.append(0)
        case 0x31...0x39: throw failure("a backslash before a digit isn't JSON5", at: start)
        case UInt8(ascii: "x"): append(try hex(2, from: start), to: &text)
        case UInt8(ascii: "u"): append(try unicodeEscape(from: start), to: &text)
        case 0x0D: _ = take(0x0A)  // a line goes on in the next one
        case 0x0A: break
        default: text.append(byte)
        }
    }

    private mutating func unicodeEscape(from start: Int) throws(Failure) -> UInt32 {
        let first = try hex(4, from: start)
        guard (0xD800...0xDFFF).contains(first) else { return first }
        if first < 0xDC00, take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")) {
            let second = try hex(4, from: start)
            if (0xDC00...0xDFFF).contains(second) { return 0x10000 + (first - 0xD800) << 10 + (second - 0xDC00) }
        }
        throw failure("half of a surrogate pair", at: start)
    }

    private mutating func hex(_ count: Int, from start: Int) throws(Failure) -> UInt32 {
        let end = min(place + count, bytes.count)
        let digits = String(decoding: bytes[place..<end], as: UTF8.self)
        guard digits.utf8.count == count, digits.first != "+", digits.first != "-", let number = UInt32(digits, radix: 16) else {
            throw failure("\(count) hexadecimal digits are expected in this escape", at: start)
        }
        place = end
        return number
    }

    private func append(_ scalar: UInt32, to text: inout [UInt8]) {
        guard let scalar = Unicode.Scalar(scalar) else { return }
        text.append(contentsOf: Array(String(Character(scalar)).utf8))
    }

    // MARK: Space and words

    private mutating func skipSpace() throws(Failure) {
        while let byte = peek {
            if byte == 0x20 || (0x09...0x0D).contains(byte) {
                place += 1
            } else if byte == UInt8(ascii: "/") {
                try skipComment()
            } else if let width = wideSpace() {
                place += width
            } else {
                return
            }
        }
    }

    private mutating func skipComment() throws(Failure) {
        let start = place
        place += 1
        if take(UInt8(ascii: "/")) {
            while let byte = peek, byte != 0x0A, byte != 0x0D { place += 1 }
        } else if take(UInt8(ascii: "*")) {
            while place < bytes.count {
                if take(UInt8(ascii: "*")) {
                    if take(UInt8(ascii: "/")) { return }
                } else {
                    place += 1
                }
            }
            throw failure("the comment that begins here doesn't end", at: start)
        } else {
            throw failure("a lone slash", at: start)
        }
    }

    /// The width of a no-break space, byte order mark or line separator here.
    private func wideSpace() -> Int? {
        let rest = bytes[place...].prefix(3)
        if rest.starts(with: [0xC2, 0xA0]) { return 2 }
        let wide: [[UInt8]] = [[0xEF, 0xBB, 0xBF], [0xE2, 0x80, 0xA8], [0xE2, 0x80, 0xA9]]
        return wide.contains { rest.starts(with: $0) } ? 3 : nil
    }

    private static func isLetter(_ byte: UInt8) -> Bool {
        (0x41...0x5A).contains(byte & 0xDF) || byte == UInt8(ascii: "_") || byte == UInt8(ascii: "$") || byte >= 0x80
    }

    /// What stands here without quotes: a key, a number, `true`.
    private mutating func takeWord() -> String {
        let start = place
        while let byte = peek, Self.isLetter(byte) || (0x30...0x39).contains(byte) || [0x2B, 0x2D, 0x2E].contains(byte), wideSpace() == nil
        {
            place += 1
        }
        return String(decoding: bytes[start..<place], as: UTF8.self)
    }

    private var peek: UInt8? { place < bytes.count ? bytes[place] : nil }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard peek == byte else { return false }
        place += 1
        return true
    }

    // MARK: Errors

    private var found: String {
        guard place < bytes.count else { return "the end" }
        return shownText(String(String(decoding: bytes[place...].prefix(8), as: UTF8.self).prefix(1)))
    }

    private func failure(_ message: String, at offset: Int? = nil) -> Failure {
        let (line, column) = position(of: offset ?? place)
        return Failure(line: line, column: column, message: message)
    }

    private func position(of offset: Int) -> (line: Int, column: Int) {
        var low = 0
        var high = lineStarts.count
        while high - low > 1 {
            let middle = (low + high) / 2
            if lineStarts[middle] <= offset { low = middle } else { high = middle }
        }
        return (low + 1, offset - lineStarts[low] + 1)
    }

    private func invalidUTF8() -> Int? {
        let isValid = bytes.withUnsafeBytes { raw in
            String(validating: raw, as: UTF8.self) != nil
        }
        guard !isValid else { return nil }
        // The longest valid beginning ends where the fault is; files are small, so a second pass doesn't matter.
        var good = 0
        var decoder = UTF8()
        var iterator = bytes.makeIterator()
        while case .scalarValue(let scalar) = decoder.decode(&iterator) { good += UTF8.width(scalar) }
        return good
    }
}
