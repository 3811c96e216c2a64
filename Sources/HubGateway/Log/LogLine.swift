import HubBase
import HubCore

/// Writes one event as one line. Pure; the time is an argument.
///
/// Whatever a value holds, the line stays one line and moves no cursor: control characters (C0, DEL, C1) and the line separators are
/// escaped in both formats, since text of peers ends up here.
struct LogLine {
    /// A line never grows past this, newline included: a write of up to PIPE_BUF (4096) bytes to a pipe is one piece, pipe(7).
    static let byteCountMax = 4096
    /// Bytes of one value, before escaping.
    static let valueByteCountMax = 1024

    typealias Fields = [(key: String, value: LogForm)]

    /// With the newline at its end. `unixMilliseconds` is UTC.
    static func bytes(
        level: Configuration.LogLevel, event: String, _ fields: Fields, unixMilliseconds: Int64, isJSON: Bool
    ) -> [UInt8] {
        var line: [UInt8] = []
        line.reserveCapacity(256)
        let time = LogTime.text(unixMilliseconds: unixMilliseconds)
        if isJSON {
            line += "{\"time\":\"\(time)\",\"level\":\"\(level)\",\"event\":".utf8
            appendQuoted(event, to: &line)
            // A field that doesn't fit is left out whole, so that the line stays JSON; 32 bytes are kept for the closing.
            var isCut = false
            for (key, value) in fields {
                let before = line.count
                line.append(UInt8(ascii: ","))
                appendQuoted(key, to: &line)
                line.append(UInt8(ascii: ":"))
                append(value, to: &line)
                if line.count > byteCountMax - 32 {
                    line.removeSubrange(before...)
                    isCut = true
                }
            }
            line += (isCut ? ",\"cut\":true}" : "}").utf8
        } else {
            let name = "\(level)".uppercased()
            line += "\(time) \(name)\(String(repeating: " ", count: max(1, 8 - name.utf8.count)))".utf8
            line += event.utf8
            for (key, value) in fields {
                line.append(UInt8(ascii: " "))
                line += key.utf8
                line.append(UInt8(ascii: "="))
                if case .text(let text) = value, isPlain(text) { line += text.utf8 } else { append(value, to: &line) }
            }
            if line.count > byteCountMax - 8 {
                line.removeSubrange((byteCountMax - 8)...)
                // Back to a whole character.
                while let last = line.last, last & 0xC0 == 0x80 { line.removeLast() }
                if let last = line.last, last >= 0xC0 { line.removeLast() }
                line += "…".utf8
            }
        }
        line.append(0x0A)
        return line
    }

    private static func append(_ value: LogForm, to line: inout [UInt8]) {
        switch value {
        case .text(let text): appendQuoted(text, to: &line)
        case .number(let number): line += "\(number)".utf8
        case .boolean(let flag): line += "\(flag)".utf8
        }
    }

    /// Needs no quotes in the text format.
    private static func isPlain(_ text: String) -> Bool {
        (1...valueByteCountMax).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "=") && $0 != UInt8(ascii: "\\")
            }
    }

    private static func appendQuoted(_ text: String, to line: inout [UInt8]) {
        line.append(UInt8(ascii: "\""))
        var count = 0
        for scalar in text.unicodeScalars {
            count += UTF8.width(scalar)
            if count > valueByteCountMax {
                line += "…".utf8
                break
            }
            switch scalar.value {
            case 0x22, 0x5C: line += [0x5C, UInt8(truncatingIfNeeded: scalar.value)]
            case 0x0A: line += "\\n".utf8
            case 0x0D: line += "\\r".utf8
            case 0x09: line += "\\t".utf8
            case 0..<0x20, 0x7F...0x9F, 0x2028, 0x2029, 0x202A...0x202E, 0x2066...0x2069: line += escape(scalar.value)
            default: line += Array(UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
            }
        }
        line.append(UInt8(ascii: "\""))
    }

    /// `\u001b`. What's escaped so lies below U+FFFF.
    private static func escape(_ value: UInt32) -> [UInt8] {
        let digits = String(value, radix: 16)
        return Array("\\u\(String(repeating: "0", count: 4 - digits.count))\(digits)".utf8)
    }
}

enum LogTime {
    /// RFC 3339 in UTC with milliseconds: "2026-07-03T12:00:00.123Z".
    static func text(unixMilliseconds: Int64) -> String {
        let milliseconds = max(0, unixMilliseconds)
        let seconds = milliseconds / 1000
        let day = seconds / 86_400
        let second = seconds % 86_400
        let (year, month, date) = civil(day)
        return
            "\(padded(year, 4))-\(padded(month, 2))-\(padded(date, 2))T\(padded(second / 3600, 2)):\(padded(second / 60 % 60, 2)):\(padded(second % 60, 2)).\(padded(milliseconds % 1000, 3))Z"
    }

    /// The Gregorian date of a day since 1970-01-01, by eras of 400 years that begin in March, so that the leap day comes last.
    private static func civil(_ day: Int64) -> (year: Int64, month: Int64, date: Int64) {
        let shifted = day + 719_468
        let era = shifted / 146_097
        let dayOfEra = shifted % 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * monthFromMarch + 2) / 5 + 1)
    }

    private static func padded(_ number: Int64, _ width: Int) -> String {
        let digits = "\(number)"
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
}
