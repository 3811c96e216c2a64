import Foundation
import HubBase
import Testing

@Suite("JSON5")
struct JSON5ReaderTests {
    private func read(_ text: String) -> Result<ConfigurationValue, JSON5Reader.Failure> {
        Result { () throws(JSON5Reader.Failure) in try JSON5Reader.read(Array(text.utf8)) }
    }

    @Test("everything that JSON5 adds to JSON is read, json5.org §§3-8")
    func all() throws {
        let text = """
            // a comment
            {
              unquoted: 'single "quotes"', "quoted": "tab\\tnewline\\nslash\\/é\\u00e9\\x41\\u{1F600}",
              /* another */ $dollar_: [1, -2, +3, 0x1F, ], "": null,
              grown: true, small: false, split: 'one \\
            two', half: .5, whole: 5., power: 1e3, endless: -Infinity, none: NaN,
            }
            """.replacingOccurrences(of: "\\u{1F600}", with: "\\uD83D\\uDE00")
        guard case .object(let members) = try read(text).get() else { throw CancellationError() }
        let byKey = Dictionary(uniqueKeysWithValues: members.map { ($0.key, $0) })
        #expect(byKey["unquoted"]?.value == .text("single \"quotes\""))
        #expect(byKey["unquoted"]?.line == 3)
        #expect(byKey["quoted"]?.value == .text("tab\tnewline\nslash/ééA😀"))
        #expect(byKey["$dollar_"]?.value == .list([.integer(1), .integer(-2), .integer(3), .integer(31)]))
        #expect(byKey["$dollar_"]?.line == 4)
        #expect(byKey[""]?.value == .null)
        #expect(byKey["grown"]?.value == .boolean(true))
        #expect(byKey["split"]?.value == .text("one two"))
        #expect(byKey["half"]?.value == .number(".5"))
        #expect(byKey["whole"]?.value == .number("5."))
        #expect(byKey["power"]?.value == .number("1e3"))
        #expect(byKey["endless"]?.value == .number("-Infinity"))
        #expect(byKey["none"]?.value == .number("NaN"))
        #expect(byKey["none"]?.line == 6)
    }

    @Test(
        "a mistake is told with its line, its column and in plain words",
        arguments: [
            ("", 1, 1, "a value is missing"),
            ("{a:1,\n b:}", 2, 4, "a value is expected, not \"}\""),
            ("{a:1", 1, 5, "a comma or } is expected, not the end"),
            ("[1 2]", 1, 4, "a comma or ] is expected, not \"2\""),
            ("{a 1}", 1, 4, "a colon is expected after \"a\", not \"1\""),
            ("{1a: 2}", 1, 2, "the key \"1a\" must stand between quotes"),
            ("{a-b: 2}", 1, 2, "the key \"a-b\" must stand between quotes"),
            ("{a: yes}", 1, 5, "\"yes\" is no value; text stands between quotes"),
            ("{a: 30s}", 1, 5, "\"30s\" is no value; text stands between quotes"),
            ("{a: 01}", 1, 5, "\"01\" is no value; text stands between quotes"),
            ("{a:1} x", 1, 7, "nothing may follow the value, but there is \"x\""),
            ("{a:1,\n\n \"a\":2}", 3, 2, "\"a\" is given twice, first in line 1"),
            ("{\"a\":1, \"\\u0061\":2}", 1, 9, "\"a\" is given twice, first in line 1"),
            ("{\"\u{E9}\":1, \"e\u{301}\":2}", 1, 10, "\"e\u{301}\" is given twice, first in line 1"),
            ("'a\nb'", 1, 1, "the text that begins here doesn't end in its line"),
            ("'a", 1, 1, "the text that begins here doesn't end"),
            ("'\\uD800'", 1, 2, "half of a surrogate pair"),
            ("'\\u00g0'", 1, 2, "4 hexadecimal digits are expected in this escape"),
            ("'\\01'", 1, 2, "octal escapes aren't JSON5"),
            ("{a:1} /* x", 1, 7, "the comment that begins here doesn't end"),
            ("/", 1, 1, "a lone slash"),
            ("listen: ['x']", 1, 1, "a configuration is one object: put { } around it"),
            ("// c\n'redis' : {}", 2, 1, "a configuration is one object: put { } around it"),
            ("{,}", 1, 2, "a key is expected, not \",\""),
        ])
    func mistakes(text: String, line: Int, column: Int, message: String) {
        #expect(read(text) == .failure(.init(line: line, column: column, message: message)))
    }

    @Test("text that isn't UTF-8 is refused where it stops being so")
    func encoding() {
        let failure = #expect(throws: JSON5Reader.Failure.self) { try JSON5Reader.read(Array("{a: 'é".utf8) + [0xC3, 0x28]) }
        #expect(failure == .init(line: 1, column: 8, message: "this isn't UTF-8"))
    }

    @Test("deep nesting is refused, closed or not, field-faults B66", arguments: [17, 512, 100_000])
    func depth(levels: Int) {
        for text in [String(repeating: "[", count: levels), String(repeating: "{a:", count: levels)] {
            #expect(throws: JSON5Reader.Failure.self) { try JSON5Reader.read(Array(text.utf8)) }
        }
        let closed = String(repeating: "[", count: levels) + String(repeating: "]", count: levels)
        #expect(throws: JSON5Reader.Failure.self) { try JSON5Reader.read(Array(closed.utf8)) }
    }

    @Test("numbers that fit no integer are kept as written and trap nothing, field-faults B67")
    func numbers() {
        for text in [
            "1.7976931348623157e308", "1e400", "100e200", "9223372036854775808", "-9223372036854775809", "0xFFFFFFFFFFFFFFFFFF", "1e-400",
        ] {
            #expect(read(text) == .success(.number(text)))
        }
        #expect(read("-9223372036854775808") == .success(.integer(.min)))
    }

    @Test("an integer, a text, a list and an object mean what Foundation's decoder makes of them")
    func twin() throws {
        let texts = [
            "{a:1,b:[true,false,null,],c:'x\\ty'}", "[0x10,-3,+4,\"é\\u00e9\"]", "/*a*/[//b\n'q']", "[{},{},[]]", "{\"a b\":{c:{d:\"\"}}}",
            "\u{FEFF}[1]", "[1,,2]", "[,]", "{a:}", "{a}", "{'a':1 'b':2}", "[1}", "\"a", "nul", "[+]", "{a:0x}", "[1", "tru e",
        ]
        for text in texts {
            let decoder = JSONDecoder()
            decoder.allowsJSON5 = true
            let theirs = try? decoder.decode(Twin.self, from: Data(text.utf8)).value
            let ours = try? JSON5Reader.read(Array(text.utf8))
            #expect(ours.map(Twin.flat) == theirs.map(Twin.flat), "\(text)")
        }
    }
}

/// A value as Foundation decodes it, in a form in which both can be compared.
private struct Twin: Decodable {
    var value: ConfigurationValue

    private struct Key: CodingKey {
        var stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    init(from decoder: any Decoder) throws {
        if var list = try? decoder.unkeyedContainer() {
            var elements: [ConfigurationValue] = []
            while !list.isAtEnd { elements.append(try list.decode(Twin.self).value) }
            value = .list(elements)
        } else if let object = try? decoder.container(keyedBy: Key.self) {
            value = .object(
                try object.allKeys.map { .init(key: $0.stringValue, line: 0, value: try object.decode(Twin.self, forKey: $0).value) })
        } else {
            let single = try decoder.singleValueContainer()
            if single.decodeNil() {
                value = .null
            } else if let flag = try? single.decode(Bool.self) {
                value = .boolean(flag)
            } else if let number = try? single.decode(Int.self) {
                value = .integer(number)
            } else {
                value = .text(try single.decode(String.self))
            }
        }
    }

    static func flat(_ value: ConfigurationValue) -> String {
        switch value {
        case .list(let elements): "[" + elements.map(flat).joined(separator: ",") + "]"
        case .object(let members):
            "{" + members.sorted { $0.key < $1.key }.map { "\($0.key):\(flat($0.value))" }.joined(separator: ",") + "}"
        default: "\(value)"
        }
    }
}
