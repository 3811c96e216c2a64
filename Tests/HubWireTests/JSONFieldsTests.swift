import HubBase
import HubWire
import Testing

/// Walking an object or an array in place.
@Suite struct JSONFieldsTests {
    private func fields(_ text: String, range: ByteRange? = nil, depthMax: Int = 8) -> (found: [String], error: WireError?) {
        bytes(text).withUnsafeBytes { message in
            func read(_ value: JSONValue) -> String { "\(value.kind) \(String(decoding: value.range.bytes(in: message), as: UTF8.self))" }
            var walk = JSONFields(message, range: range ?? ByteRange(offset: 0, count: message.count), depthMax: depthMax)
            var found: [String] = []
            do throws(WireError) {
                while let (key, value) = try walk.next() {
                    found.append(read(key) + " = " + read(value) + (value.hasEscapes ? " escaped" : ""))
                }
                let next = try walk.next()
                #expect(next == nil, "a walk that is over stays over")
                return (found, nil)
            } catch {
                #expect((try? walk.next()) == nil, "a walk that threw is over")
                return (found, error)
            }
        }
    }

    private func elements(_ text: String, depthMax: Int = 8) -> (found: [String], error: WireError?) {
        bytes(text).withUnsafeBytes { message in
            var walk = JSONElements(message, range: ByteRange(offset: 0, count: message.count), depthMax: depthMax)
            var found: [String] = []
            do throws(WireError) {
                while let value = try walk.next() {
                    found.append("\(value.kind) \(String(decoding: value.range.bytes(in: message), as: UTF8.self))")
                }
                return (found, nil)
            } catch {
                return (found, error)
            }
        }
    }

    @Test("every kind of value is told from its first byte, strings without their quotes")
    func kinds() {
        let (found, error) = fields(#" { "a" : {"x":1} , "b":[ 1 ] ,"c":"d\n","e":-1.5E3,"f":true,"g":false,"h":null,"":""} "#)
        #expect(error == nil)
        #expect(
            found == [
                #"string a = object {"x":1}"#, "string b = array [ 1 ]", #"string c = string d\n escaped"#, "string e = number -1.5E3",
                "string f = bool true", "string g = bool false", "string h = null null", "string  = string ",
            ])
    }

    @Test("an object inside a message is walked by its range alone")
    func insideMessage() {
        #expect(fields(#"xx{"a":1}yy"#, range: ByteRange(offset: 2, count: 7)).found == ["string a = number 1"])
        #expect(fields(#"xx{"a":1}yy"#, range: ByteRange(offset: 2, count: 8)).error?.code == .malformed)
    }

    @Test("an absent range and one beyond the message are malformed, never read")
    func strangeRanges() {
        #expect(fields("{}", range: .absent).error?.code == .malformed)
        #expect(fields("{}", range: ByteRange(offset: 90, count: 4)).error?.code == .malformed)
        #expect(fields("{}", range: ByteRange(offset: 0, count: 90)).error == nil, "clamped to what is there")
        #expect(fields("").error?.code == .malformed)
    }

    @Test("what follows the object is judged too", arguments: ["{}x", "{} {}", #"{"a":1}]"#, #"{"a":1},"#])
    func trailing(text: String) {
        #expect(fields(text).error?.code == .malformed)
    }

    @Test("the object is level 1 of the nesting")
    func depth() {
        #expect(fields(#"{"a":[[]]}"#, depthMax: 3).error == nil)
        #expect(fields(#"{"a":[[]]}"#, depthMax: 2).error?.code == .tooDeep)
        #expect(fields("{}", depthMax: 0).error?.code == .tooDeep)
        #expect(elements("[[[]]]", depthMax: 3).error == nil)
        #expect(elements("[[[]]]", depthMax: 2).error?.code == .tooDeep)
    }

    @Test("an error names the byte where the text went wrong")
    func place() {
        #expect(fields(#"{"a":1 "b":2}"#).error?.message == "not valid JSON: expected a comma or the end of the object or array at byte 7")
        #expect(fields(#"{"a":"#).error?.message == "not valid JSON: the text ends too early at byte 5")
        #expect(fields("[]").error?.message == "not valid JSON: expected an object at byte 0")
        #expect(elements("{}").error?.message == "not valid JSON: expected an array at byte 0")
        #expect(fields("{\"a\":\"\u{07}\"}").error?.message == "not valid JSON: a control character in a string must be escaped at byte 6")
    }

    @Test("an array's elements come in order")
    func inOrder() {
        #expect(elements(#" [ "a" , 1 , {} , [ ] , null ] "#).found == ["string a", "number 1", "object {}", "array [ ]", "null null"])
        #expect(elements("[]").found == [])
        #expect(elements(" [ ] ").error == nil)
    }

    @Test("an array's grammar is held", arguments: ["[", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1}", "[1]]", "[\"a]"])
    func badArrays(text: String) {
        #expect(elements(text).error?.code == .malformed)
    }
}
