import HubBase
import HubCore
import HubWire
import Testing

@Suite("a backend's answer")
struct AskAnswerTests {
    static func read(_ text: String, _ kind: AskKind = .publish, isIssuer: Bool = false) -> Result<AskAnswer, AskFault> {
        var rules = AskAnswerReader.Rules()
        rules.isIssuer = isIssuer
        rules.payloadBytesMax = 40
        rules.depthMax = 6
        return AskAnswerReader.read([UInt8](text.utf8), of: kind, rules)
    }

    static func allowance(_ text: String, _ kind: AskKind = .publish, isIssuer: Bool = false) throws -> AskAllowance {
        guard case .allow(let allowance) = try read(text, kind, isIssuer: isIssuer).get().verdict else { throw Denied() }
        return allowance
    }

    struct Denied: Error {}

    static func denial(_ text: String, _ kind: AskKind = .publish) throws -> (WireError, AskAnswer) {
        let answer = try read(text, kind).get()
        guard case .deny(let error) = answer.verdict else { throw Denied() }
        return (error, answer)
    }

    @Test("allow is enough, and what isn't known is passed over")
    func plain() throws {
        _ = try Self.allowance(#"{"allow":true}"#)
        _ = try Self.allowance(#" { "later" : [1,{"allow":false}], "\u0061llow" : true } "#)
        #expect(try Self.read(#"{"allow":true,"ttl":1500}"#).get().ttl == .milliseconds(1500))
    }

    static let faults: [(String, String)] = [
        ("nothing", ""), ("a word", "true"), ("a list", "[true]"), ("no allow", "{}"), ("allow as text", #"{"allow":"true"}"#),
        ("allow as number", #"{"allow":1}"#), ("allow as null", #"{"allow":null}"#), ("cut off", #"{"allow":true"#),
        ("more behind it", #"{"allow":true} x"#), ("two objects", #"{"allow":true}{"allow":true}"#),
        ("allow twice", #"{"allow":true,"allow":true}"#), ("allow twice, escaped", #"{"allow":true,"\u0061llow":false}"#),
        ("ttl as text", #"{"allow":true,"ttl":"5s"}"#), ("ttl below zero", #"{"allow":true,"ttl":-1}"#),
        ("ttl as 1e400", #"{"allow":true,"ttl":1e400}"#), ("ttl with a fraction", #"{"allow":true,"ttl":1.5}"#),
        ("a payload of null", #"{"allow":true,"payload":null}"#),
        ("a payload too large", #"{"allow":true,"payload":"\#(String(repeating: "a", count: 39))"}"#),
        ("nested too deeply", #"{"allow":true,"x":[[[[[[1]]]]]]}"#), ("HTML", "<html><body>502 Bad Gateway</body></html>"),
        ("65 fields", "{" + (0..<64).map { "\"f\($0)\":1," }.joined() + "\"allow\":true}"),
    ]

    @Test("what is no answer is named, never guessed at", arguments: faults)
    func noAnswer(name: String, text: String) {
        guard case .failure(let fault) = Self.read(text) else {
            Issue.record("\(name) was taken")
            return
        }
        #expect(!fault.description.isEmpty)
    }

    @Test("bytes that aren't UTF-8 are no answer")
    func notUTF8() {
        let bytes = [UInt8](#"{"allow":true,"x":""#.utf8) + [0xFF] + [UInt8](#""}"#.utf8)
        guard case .failure = AskAnswerReader.read(bytes, of: .publish, AskAnswerReader.Rules()) else {
            Issue.record("it was taken")
            return
        }
    }

    // MARK: Denials

    @Test("a denial has the backend's code and reason, and a time where the code has one")
    func denied() throws {
        #expect(try Self.denial(#"{"allow":false}"#).0 == WireError(.forbidden, "refused by the backend"))
        #expect(
            try Self.denial(#"{"allow":false,"code":"malformed","reason":"no \"links\" here"}"#).0
                == WireError(.malformed, "no \"links\" here"))
        #expect(try Self.denial(#"{"allow":false,"code":"rateLimited"}"#).0.retryAfter == 1000)
        #expect(try Self.denial(#"{"allow":false,"code":"unavailable","retryAfter":2500}"#).0.retryAfter == 2500)
        #expect(try Self.denial(#"{"allow":false,"code":"unavailable","retryAfter":9007199254740991}"#).0.retryAfter == 3_600_000)
        #expect(try Self.denial(#"{"allow":false,"code":"forbidden","retryAfter":2500}"#).0.retryAfter == nil)
        #expect(try Self.denial(#"{"allow":false,"ttl":100}"#).1.ttl == .milliseconds(100))
    }

    @Test(
        "a denial denies however wrong the rest of it is, and says that it was",
        arguments: [
            #""code":"noSuchCode""#, #""code":"tokenExpired""#, #""code":7"#, #""code":null"#, #""reason":"""#, #""reason":"a\nb""#,
            #""reason":"\#(String(repeating: "é", count: 51))""#, #""retryAfter":"soon""#, #""ttl":[]"#,
        ])
    func slips(field: String) throws {
        let (error, answer) = try Self.denial("{\"allow\":false,\(field)}")
        #expect(error.code == .forbidden && error.message == "refused by the backend")
        #expect(answer.slip != nil)
    }

    @Test("beside a token a denial of that token isn't kept, since the question doesn't say which it was; instead of one it is")
    func deniedToken() throws {
        for code in ["tokenInvalid", "tokenExpired"] {
            for ttl in ["", #","ttl":60000"#] {
                let text = "{\"allow\":false,\"code\":\"\(code)\"\(ttl)}"
                #expect(try Self.read(text, .connect).get().ttl == .zero)
                #expect(try Self.read(text, .connect, isIssuer: true).get().ttl == (ttl.isEmpty ? nil : .seconds(60)))
            }
        }
        #expect(try Self.read(#"{"allow":false,"ttl":60000}"#, .connect).get().ttl == .seconds(60))
    }

    @Test("which codes there are depends on the question")
    func codes() throws {
        #expect(try Self.denial(#"{"allow":false,"code":"tokenExpired"}"#, .connect).0.code == .tokenExpired)
        #expect(try Self.denial(#"{"allow":false,"code":"unknownChannel"}"#, .subscribe).0.code == .unknownChannel)
        #expect(try Self.denial(#"{"allow":false,"code":"unknownChannel"}"#, .publish).0.code == .forbidden)
        #expect(try Self.denial(#"{"allow":false,"code":"internal"}"#, .publish).0.code == .forbidden)
    }

    // MARK: Allowances

    @Test("a payload takes the place of the publication's, byte for byte; then nothing is kept")
    func payload() throws {
        #expect(try Self.allowance(#"{"allow":true,"payload": {"a" : 1} }"#).payload == [UInt8](#"{"a" : 1}"#.utf8))
        #expect(try Self.allowance(#"{"allow":true,"payload":"x"}"#).payload == [UInt8](#""x""#.utf8))
        #expect(try Self.read(#"{"allow":true,"payload":1,"ttl":5000}"#).get().ttl == nil)
        #expect(try Self.allowance(#"{"allow":true,"payload":1}"#, .subscribe).payload == nil)
    }

    @Test("beside a token an answer can shorten its life, and name nobody")
    func beside() throws {
        #expect(try Self.allowance(#"{"allow":true,"expires":1800000000000}"#, .connect).expires == 1_800_000_000_000)
        for field in [#""user":"bob""#, #""caps":{}"#, #""channels":[]"#] {
            guard case .failure = Self.read("{\"allow\":true,\(field)}", .connect) else {
                Issue.record("\(field) was taken")
                continue
            }
        }
    }

    @Test("instead of a token it says who, until when, what for and where")
    func instead() throws {
        let allowance = try Self.allowance(
            #"{"allow":true,"user":"bob","expires":1800000000000,"caps":{"room:*":["subscribe","publish"]},"channels":["news"]}"#, .connect,
            isIssuer: true)
        #expect(allowance.user == "bob")
        let grants = try #require(allowance.grants)
        #expect(grants.allow([.subscribe, .publish], in: "room:1"))
        #expect(grants.allow(.subscribe, in: "news") && !grants.allow(.publish, in: "news"))
        #expect(!grants.allow(.subscribe, in: "other:1"))
        #expect(allowance.channels == ["news"])
        #expect(try Self.allowance(#"{"allow":true,"user":"bob","expires":1}"#, .connect, isIssuer: true).grants == nil)
    }

    @Test(
        "instead of a token nothing may be missing or wrong",
        arguments: [
            #"{"allow":true}"#, #"{"allow":true,"user":"bob"}"#, #"{"allow":true,"expires":1800000000000}"#,
            #"{"allow":true,"user":"","expires":1}"#, #"{"allow":true,"user":"a\u0000","expires":1}"#,
            #"{"allow":true,"user":"bob","expires":"1"}"#, #"{"allow":true,"user":"bob","expires":1e12}"#,
            #"{"allow":true,"user":"bob","expires":1,"caps":[]}"#, #"{"allow":true,"user":"bob","expires":1,"caps":{"a*b":["publish"]}}"#,
            #"{"allow":true,"user":"bob","expires":1,"caps":{"a":["fly"]}}"#, #"{"allow":true,"user":"bob","expires":1,"caps":{"a":"*"}}"#,
            #"{"allow":true,"user":"bob","expires":1,"caps":{"a":["*"],"\u0061":["*"]}}"#,
            #"{"allow":true,"user":"bob","expires":1,"channels":["a","a"]}"#,
            #"{"allow":true,"user":"bob","expires":1,"channels":["a:*"]}"#,
            #"{"allow":true,"user":"bob","expires":1,"channels":"a"}"#, #"{"allow":true,"user":"bob","user":"eve","expires":1}"#,
        ])
    func insteadFaults(text: String) {
        guard case .failure = Self.read(text, .connect, isIssuer: true) else {
            Issue.record("it was taken")
            return
        }
    }

    // MARK: Questions

    static func text(_ question: AskQuestion, basis: Bool = false) -> String {
        var buffer = ByteBuffer(capacity: 64)
        if basis { question.appendBasis(to: &buffer) } else { question.append(to: &buffer) }
        return String(decoding: buffer.bytes, as: UTF8.self)
    }

    @Test("questions say who, where and what, escaped; a payload of MessagePack as JSON")
    func questions() {
        #expect(
            Self.text(.connect(user: "a\"b", token: nil, device: "d", address: "192.0.2.1", isRefresh: false))
                == #"{"ask":"connect","user":"a\"b","device":"d","address":"192.0.2.1"}"#)
        #expect(
            Self.text(.connect(user: .empty, token: Secret([0x78, 0x22]), device: "d", address: "", isRefresh: true))
                == #"{"ask":"connect","token":"x\"","device":"d","refresh":true}"#)
        #expect(
            Self.text(.subscribe(user: "a", device: "d", channel: "room:1"))
                == #"{"ask":"subscribe","user":"a","device":"d","channel":"room:1"}"#)
        let publication = Publication(
            messageClass: .event, user: "a", device: "d", messageId: "m1", time: 5, payload: [0x81, 0xA1, 0x6B, 0x07],
            payloadFormat: .messagePack)
        #expect(
            Self.text(.publish(publication, channel: "room:1"))
                == #"{"ask":"publish","user":"a","device":"d","channel":"room:1","type":"event","messageId":"m1","payload":{"k":7}}"#)
    }

    @Test("what is kept for a publication is kept for its kind, user and channel, whatever it says")
    func basis() {
        func basis(_ payload: String, _ messageId: Name) -> String {
            Self.text(
                .publish(
                    Publication(
                        messageClass: .chat, user: "a", device: "d", messageId: messageId, time: 5, payload: [UInt8](payload.utf8)),
                    channel: "room:1"), basis: true)
        }
        #expect(basis("1", "m1") == basis("2", "m2"))
        #expect(basis("1", "m1") == #"{"ask":"publish","user":"a","device":"d","channel":"room:1","type":"chat"}"#)
    }
}
