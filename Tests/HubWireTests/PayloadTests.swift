import HubWire
import Testing

/// The payloads that the hub reads itself; what else they hold is the application's.
@Suite struct PayloadTests {
    @Test("typing is a boolean, field isTyping")
    func typing() {
        func read(_ text: String) -> Bool? { bytes(text).withUnsafeBytes { Payload.isTyping($0) } }
        #expect(read(#"{"isTyping":true}"#) == true)
        #expect(read(#" { "with":{"isTyping":true} , "isTyping" : false } "#) == false)
        #expect(read(#"{"isTyping":true,"isTyping":false}"#) == true, "of a repeated field the first counts")
        for text in [
            "", "{}", "true", #"{"isTyping":1}"#, #"{"isTyping":"true"}"#, #"{"isTyping":null}"#, #"{"isTyping":true"#,
            #"{"istyping":true}"#,
        ] {
            #expect(read(text) == nil, "\(text)")
        }
    }

    @Test("a read position is an integer from 0 to 2^53 - 1, field offset (B67)")
    func read() {
        func read(_ text: String) -> UInt64? { bytes(text).withUnsafeBytes { Payload.readOffset($0) } }
        #expect(read(#"{"offset":0}"#) == 0)
        #expect(read(#"{"offset":9007199254740991}"#) == 9_007_199_254_740_991)
        for value in [
            "1.7976931348623157e308", "1e30", "100e200", "-1", "0.5", "9223372036854775808", "18446744073709551616", "-9223372036854775808",
            "1e-400",
            "\"5\"", "true", "null", "NaN", "9007199254740992", "[]", "",
        ] {
            #expect(read("{\"offset\":\(value)}") == nil, "\(value)")
        }
    }

    @Test("a status is online, away or invisible")
    func status() {
        func read(_ text: String) -> Payload.Status? { bytes(text).withUnsafeBytes { Payload.status($0) } }
        #expect(read(#"{"status":"online"}"#) == .online)
        #expect(read(#"{"status":"away"}"#) == .away)
        #expect(read(#"{"status":"invisible","since":3}"#) == .invisible)
        #expect(read(#"{"st\u0061tus":"\u0061way"}"#) == .away)
        for text in [#"{"status":"offline"}"#, #"{"status":"Online"}"#, #"{"status":""}"#, #"{"status":1}"#, "[]", #"{"status":"away"}}"#] {
            #expect(read(text) == nil, "\(text)")
        }
    }

    @Test("the same payloads as MessagePack")
    func messagePack() {
        func pack(_ field: String, _ value: [UInt8]) -> [UInt8] { Pack.map([("x", .raw([0x90])), (field, .raw(value))]).bytes }
        func typing(_ payload: [UInt8]) -> Bool? { payload.withUnsafeBytes { Payload.isTyping($0, format: .messagePack) } }
        #expect(typing(pack("isTyping", [0xC3])) == true && typing(pack("isTyping", [0xC2])) == false)
        for payload in [
            [], [0x80], [0xC3], pack("isTyping", [1]), pack("isTyping", [0xC0]), pack("istyping", [0xC3]), pack("isTyping", [0xC3]) + [0],
        ] {
            #expect(typing(payload) == nil, "\(payload)")
        }
        func offset(_ payload: [UInt8]) -> UInt64? { payload.withUnsafeBytes { Payload.readOffset($0, format: .messagePack) } }
        #expect(offset(pack("offset", [0])) == 0 && offset(pack("offset", [0xCD, 1, 0])) == 256)
        #expect(offset(pack("offset", [0xCF, 0, 0x1F, 255, 255, 255, 255, 255, 255])) == 9_007_199_254_740_991)
        for value in [[0xFF], [0xCF, 0, 0x20, 0, 0, 0, 0, 0, 0], [0xCB, 0x40, 0x14, 0, 0, 0, 0, 0, 0], [0xA1, 0x31], [0xC0]] as [[UInt8]] {
            #expect(offset(pack("offset", value)) == nil, "\(value)")
        }
        func status(_ payload: [UInt8]) -> Payload.Status? { payload.withUnsafeBytes { Payload.status($0, format: .messagePack) } }
        for name in Payload.Status.allCases { #expect(status(pack("status", Pack.text("\(name)").bytes)) == name) }
        #expect(
            status(pack("status", Pack.text("asleep").bytes)) == nil && status(pack("status", [0xC4, 4, 0x61, 0x77, 0x61, 0x79])) == nil)
    }
}
