import HubBase
import HubWire
import Testing

/// A client's envelope, protocol: requests.
@Suite struct EnvelopeScannerTests {
    @Test("every type of the closed list is known", arguments: RequestType.allCases)
    func types(type: RequestType) {
        #expect(scan("{\"type\":\"\(type)\"}").type == type)
    }

    @Test("a chat's fields are found where they lie, the payload as it was written")
    func chat() throws {
        let found = scan(#" {"type":"chat" , "id":7,"channel":"room:42","messageId":"m-1","payload": { "text" : "hi \"you\"" } } "#)
        #expect(found.type == .chat)
        #expect(found.id == "7")
        #expect(found.channel == "room:42")
        #expect(found.messageId == "m-1")
        #expect(found.payload == #"{ "text" : "hi \"you\"" }"#)
        #expect(try #require(found.request).escapes == false, "the payload's own escapes are nobody's business")
    }

    @Test(
        "a payload is any JSON value",
        arguments: ["{}", "[]", "\"\"", "\"a\\u0041\"", "0", "-1.5e+300", "true", "false", "null", "[[],{}]"])
    func payload(text: String) {
        #expect(scan("{\"payload\":\(text),\"type\":\"event\"}").payload == text)
    }

    @Test("the fields of every request are found")
    func everyField() throws {
        let text = """
            {"type":"history","id":"a b","channel":"c","device":"d","token":"t","position":".0.","cursor":"q","channels":[{"channel":"x"}],\
            "users":["u"],"since":"s.","before":17,"limit":50,"members":true,"reverse":true,"unknown":{"a":[1,{}]}}
            """
        let message = bytes(text)
        let request = try #require(scan(message).request)
        message.withUnsafeBytes { message in
            func read(_ range: ByteRange) -> String { String(decoding: range.bytes(in: message), as: UTF8.self) }
            #expect(request.type == .history)
            #expect(read(request.id) == "\"a b\"")
            #expect(read(request.channel) == "c")
            #expect(read(request.device) == "d")
            #expect(read(request.token) == "t")
            #expect(read(request.position) == ".0.")
            #expect(read(request.cursor) == "q")
            #expect(read(request.channels) == "[{\"channel\":\"x\"}]")
            #expect(read(request.users) == "[\"u\"]")
            #expect(read(request.since) == "\"s.\"")
            #expect(read(request.before) == "17")
            #expect(read(request.limit) == "50")
            #expect(request.members && request.reverse && !request.escapes)
        }
    }

    @Test("an absent field is absent, an empty string isn't")
    func absent() throws {
        let request = try #require(scan(#"{"type":"chat","channel":""}"#).request)
        #expect(request.channel.isPresent && request.channel.count == 0)
        #expect(!request.messageId.isPresent && !request.payload.isPresent && !request.id.isPresent)
    }

    @Test("of a repeated field the first counts, even when only it is wrong")
    func repeated() {
        #expect(scan(#"{"type":"chat","channel":"a","type":"ping","channel":"b"}"#).channel == "a")
        #expect(scan(#"{"type":"chat","channel":1,"channel":"b"}"#).code == .malformed)
        #expect(scan(#"{"type":"chat","channel":"a","channel":1}"#).type == .chat)
    }

    @Test("names and types may be written with escapes, RFC 8259 §8.3")
    func escapedNames() throws {
        let found = scan(#"{"t\u0079pe":"\u0063hat","ch\u0061nnel":"a\u002fb"}"#)
        #expect(found.type == .chat)
        #expect(found.channel == #"a\u002fb"#)
        #expect(try #require(found.request).escapes)
        #expect(scan(#"{"type":"ping","\ud800":1}"#).type == .ping, "a name that is no text is an unknown name")
    }

    @Test(
        "an id is an integer from 0 to 2^53 - 1 or a string of at most 64 bytes, carried back verbatim",
        arguments: ["0", "9007199254740991", "\"\"", "\"a\\u0041\"", "\"" + String(repeating: "x", count: 64) + "\""])
    func ids(id: String) {
        #expect(scan("{\"type\":\"ping\",\"id\":\(id)}").id == id)
    }

    @Test(
        "any other id is malformed, and isn't carried back",
        arguments: [
            "-1", "-0", "1.0", "1e3", "0.5", "9007199254740992", "18446744073709551616", "1.7976931348623157e308", "100e200", "1e-400",
            "null",
            "true", "[]", "{}", "\"" + String(repeating: "x", count: 65) + "\"",
        ])
    func badIds(id: String) {
        let found = scan("{\"type\":\"ping\",\"id\":\(id)}")
        #expect(found.code == .malformed)
        #expect(found.message.hasPrefix("\"id\" must be "))
        #expect(found.id == "")
    }

    @Test(
        "a field of the wrong kind is malformed and named, and the id is found behind it as before it",
        arguments: [
            ("type", "1"), ("channel", "1"), ("channel", "null"), ("messageId", "{}"), ("device", "[]"), ("token", "true"),
            ("position", "17"),
            ("cursor", "0"), ("channels", "{}"), ("channels", "\"a\""), ("users", "\"alice\""), ("members", "1"), ("members", "\"true\""),
            ("reverse", "null"), ("since", "true"), ("before", "{}"), ("limit", "\"5\""),
        ])
    func wrongKind(field: String, value: String) {
        let type = field == "type" ? "" : "\"type\":\"chat\","
        for text in ["{\(type)\"\(field)\":\(value),\"id\":5}", "{\"id\":5,\(type)\"\(field)\":\(value)}"] {
            let found = scan(text)
            #expect(found.code == .malformed)
            #expect(found.message.hasPrefix("\"\(field)\" must be "))
            #expect(found.id == "5")
        }
    }

    @Test(
        "a number that isn't an integer from 0 to 2^53 - 1 is malformed in every numeric field (B67)",
        arguments: ["limit", "since", "before"],
        [
            "1.7976931348623157e308", "1e30", "100e200", "-1", "0.5", "9007199254740992", "9223372036854775808", "18446744073709551616",
            "-9223372036854775808", "1e-400", "true", "null", "1" + String(repeating: "0", count: 5000),
        ])
    func numbers(field: String, value: String) {
        let found = scan("{\"type\":\"history\",\"id\":1,\"\(field)\":\(value)}")
        #expect(found.code == .malformed)
        #expect(found.message.hasPrefix("\"\(field)\" must be "))
        #expect(found.message.utf8.count < 200)
        #expect(found.id == "1")
    }

    @Test("NaN and Infinity are no JSON", arguments: ["NaN", "Infinity", "-Infinity", "+1", "01", ".5", "5.", "0x10", "1e", "-"])
    func noNumbers(text: String) {
        #expect(scan("{\"type\":\"history\",\"limit\":\(text)}").code == .malformed)
    }

    @Test("a type that isn't in the list is unknownType, whatever its fields are")
    func unknownType() {
        let found = scan(#"{"type":"shout","id":3,"channel":{}}"#)
        #expect(found.code == .unknownType)
        #expect(found.message == "unknown type \"shout\"")
        #expect(found.id == "3")
        #expect(scan(#"{"type":"Chat"}"#).code == .unknownType)
        #expect(scan(#"{"type":""}"#).code == .unknownType)
    }

    @Test("an unknown type is quoted in at most 200 bytes, whole characters")
    func longType() {
        let found = scan("{\"type\":\"" + String(repeating: "é", count: 10_000) + "\"}")
        #expect(found.code == .unknownType)
        #expect(found.message.utf8.count < 200)
        #expect(!found.message.contains("\u{FFFD}"))
    }

    @Test("an envelope without a type is malformed and says so")
    func noType() {
        let found = scan(#"{"id":9}"#)
        #expect(found.code == .malformed && found.id == "9")
        #expect(found.message == "\"type\" is missing")
    }

    @Test(
        "what isn't one JSON object is malformed, RFC 8259",
        arguments: [
            "", " ", "null", "1", "\"a\"", "[]", "{", "}", "{}}", "{},", "{} {}", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{,}", "{a:1}",
            "{'a':1}",
            "{\"a\":1 \"b\":2}", "{\"a\":[1,]}", "{\"a\":[,]}", "{\"a\":[1 2]}", "{\"a\":[}", "{\"a\":[1}}", "{\"a\":{]}", "{\"a\":tru}",
            "{\"a\":True}", "{\"a\":nul}", "{\"a\":truee}", "{\"a\":\"\\x\"}", "{\"a\":\"\\u12G4\"}", "{\"a\":\"\\u12\"}",
            "{\"a\":\"\u{01}\"}",
            "{\"a\":\"\n\"}", "{\"a\":\"b}", "{\"a\":1}x", "\u{FEFF}{}", "{\"a\":1}\u{0}", "{\u{0B}}", "{\"a\":-}", "{\"a\":1.}",
            "{\"a\":00}",
            "{\"a\":1e+}", "/**/{}", "{\"a\":1//\n}",
        ])
    func noObject(text: String) {
        // With a type in front, so that a missing one can't be the reason.
        #expect(scan(text).code == .malformed)
        if text.hasPrefix("{\"") {
            let found = scan("{\"type\":\"ping\",\"id\":4," + text.dropFirst())
            #expect(found.code == .malformed)
            #expect(found.id == "4", "a refusal found after the id was read carries it")
        }
    }

    @Test("nesting up to the limit is taken, one level more is tooDeep, however much more, closed or not (B66)")
    func depth() {
        func nested(_ levels: Int, _ open: String, _ close: String, isClosed: Bool = true) -> Scanned {
            // The envelope itself is the first level.
            let inner = String(repeating: open, count: levels - 1) + "1" + (isClosed ? String(repeating: close, count: levels - 1) : "")
            return scan("{\"type\":\"chat\",\"id\":1,\"payload\":" + inner + (isClosed ? "}" : ""), depthMax: 32)
        }
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            #expect(nested(31, open, close).type == .chat)
            #expect(nested(32, open, close).type == .chat)
            for levels in [33, 50, 64, 65, 66, 511, 512, 513, 100_000] {
                #expect(nested(levels, open, close).code == .tooDeep)
                #expect(nested(levels, open, close, isClosed: false).code == .tooDeep)
                #expect(nested(levels, open, close).id == "1")
            }
            #expect(nested(32, open, close, isClosed: false).code == .malformed)
        }
    }

    @Test("depth counts what is open, not what was opened")
    func breadth() {
        let wide = "[" + Array(repeating: "[[{}]]", count: 1_000).joined(separator: ",") + "]"
        #expect(scan("{\"type\":\"chat\",\"payload\":\(wide)}", depthMax: 5).type == .chat)
        #expect(scan("{\"type\":\"chat\",\"payload\":\(wide)}", depthMax: 4).code == .tooDeep)
    }

    @Test("a limit above 64 levels is 64, one below 1 takes nothing")
    func depthLimits() {
        func nested(_ levels: Int) -> String {
            "{\"type\":\"chat\",\"payload\":" + String(repeating: "[", count: levels - 1) + String(repeating: "]", count: levels - 1) + "}"
        }
        #expect(scan(nested(64), depthMax: 1_000).type == .chat)
        #expect(scan(nested(65), depthMax: 1_000).code == .tooDeep)
        #expect(scan("{\"type\":\"ping\"}", depthMax: 1).type == .ping)
        #expect(scan("{\"type\":\"ping\",\"payload\":[]}", depthMax: 1).code == .tooDeep)
        for none in [0, -1, Int.min] { #expect(scan("{\"type\":\"ping\"}", depthMax: none).code == .tooDeep) }
    }

    @Test("every truncation of a valid message is refused")
    func truncations() {
        let messages = [
            #"{"type":"chat","id":7,"channel":"room:42","messageId":"m","payload":{"text":"hi \"é\" \u00e9","n":[1,-2.5e+7,true,false,null,{}]}}"#,
            #"{ "type" : "subscribe" , "channels" : [ { "channel" : "a" , "position" : ".0." } ] , "id" : "x\\" }"#,
            #"{"payload":[[[]]],"members":true,"type":"typing"}"#,
        ]
        for message in messages {
            let whole = bytes(message)
            #expect(scan(whole).type != nil)
            for length in 0..<whole.count {
                #expect(scan([UInt8](whole.prefix(length))).code == .malformed)
            }
        }
    }
}
