import HubBase
import HubWire
import Testing

/// What a client reads of what the server writes.
@Suite struct ServerEnvelopeTests {
    /// Scans `text` and hands the envelope over together with a reader of its ranges.
    private func with<Result>(
        _ text: String, depthMax: Int = 32, _ body: (ServerEnvelope, (ByteRange) -> String?) throws -> Result
    ) throws -> Result {
        try bytes(text).withUnsafeBytes { message in
            let envelope = try #require(try ServerEnvelope.scan(message, depthMax: depthMax))
            return try body(envelope) { $0.isPresent ? String(decoding: $0.bytes(in: message), as: UTF8.self) : nil }
        }
    }

    private func failure(_ text: String) -> WireError? {
        bytes(text).withUnsafeBytes { message in
            do throws(WireError) {
                _ = try ServerEnvelope.scan(message, depthMax: 32)
                return nil
            } catch {
                return error
            }
        }
    }

    @Test("every kind is known", arguments: ServerEnvelope.Kind.allCases)
    func kinds(kind: ServerEnvelope.Kind) throws {
        try with("{\"type\":\"\(kind)\"}") { envelope, _ in #expect(envelope.kind == kind) }
    }

    @Test("a publication that the server wrote is read back whole")
    func publication() throws {
        let publication = Publication(
            messageClass: .chat, user: "a\"b", device: "d", messageId: "m", time: 1_796_011_158_488, payload: bytes(#"{"text":"\n"}"#))
        let text = written {
            EnvelopeEncoder.publication(publication, channel: "room:42", position: EnvelopeEncoderTests.position, into: &$0)
        }
        try with(text) { envelope, read in
            #expect(envelope.kind == .chat && envelope.offset == 18 && envelope.time == 1_796_011_158_488 && envelope.escapes)
            #expect(read(envelope.channel) == "room:42" && read(envelope.user) == #"a\"b"# && read(envelope.device) == "d")
            #expect(read(envelope.messageId) == "m" && read(envelope.position) == "x7x7x7x7.18.m0m0m0m0")
            #expect(read(envelope.payload) == #"{"text":"\n"}"#)
        }
    }

    @Test("acks, errors, welcome and presence give their fields")
    func others() throws {
        try with(#"{"type":"ack","id":7,"channel":"c","messageId":"m","offset":1,"position":".1.","duplicate":true,"recovered":false}"#) {
            envelope, _ in
            #expect(envelope.id == 7 && envelope.duplicate && envelope.recovered == false)
        }
        try with(#"{"type":"error","id":4,"code":"rateLimited","message":"slow","retry":true,"retryAfter":1500}"#) { envelope, read in
            #expect(
                read(envelope.code) == "rateLimited" && read(envelope.message) == "slow" && envelope.retry && envelope.retryAfter == 1500)
        }
        try with(#"{"type":"system","event":"welcome","connection":"k.1","node":"n1","user":"a","ping":20000,"channels":{"c":{}}}"#) {
            envelope, read in
            #expect(
                read(envelope.event) == "welcome" && read(envelope.connection) == "k.1" && read(envelope.node) == "n1"
                    && envelope.ping == 20_000)
            #expect(read(envelope.channels) == #"{"c":{}}"#)
        }
        try with(#"{"type":"presence","changes":[{"user":"a"}]}"#) { envelope, read in #expect(read(envelope.changes) == #"[{"user":"a"}]"#)
        }
        try with(#"{"type":"ack","id":1,"users":[],"stale":true,"version":3}"#) { envelope, read in
            #expect(read(envelope.users) == "[]" && envelope.stale && envelope.version == 3)
        }
        try with(#"{"type":"system","event":"drain","returnAfter":1200}"#) { envelope, _ in #expect(envelope.returnAfter == 1200) }
    }

    @Test("unknown fields are ignored, an unknown type is nil: a newer hub breaks no client")
    func newer() throws {
        try with(#"{"type":"ack","id":1,"colour":{"deep":[1]},"id":2}"#) { envelope, _ in #expect(envelope.id == 1) }
        for text in [#"{"type":"novelty","offset":"x"}"#, #"{"type":""}"#, "{\"type\":\"" + String(repeating: "x", count: 100) + "\"}"] {
            try bytes(text).withUnsafeBytes { message in
                let envelope = try ServerEnvelope.scan(message, depthMax: 32)
                #expect(envelope == nil)
            }
        }
        try with(#"{"type":"ack","id":"theirs"}"#) { envelope, _ in #expect(envelope.id == nil) }
    }

    @Test(
        "a known field of the wrong kind is malformed and named",
        arguments: [
            ("channel", "1"), ("offset", "\"1\""), ("offset", "-1"), ("offset", "1e300"), ("time", "0.5"), ("retry", "1"),
            ("changes", "{}"),
            ("channels", "1"), ("recovered", "null"), ("version", "9007199254740992"),
        ])
    func wrongKind(field: String, value: String) {
        let error = failure("{\"type\":\"ack\",\"\(field)\":\(value)}")
        #expect(error?.code == .malformed && error?.message.hasPrefix("\"\(field)\"") == true)
    }

    @Test("bad JSON, a missing type and too deep nesting are errors, every truncation too")
    func bad() {
        #expect(failure("{}")?.code == .malformed)
        #expect(failure(#"{"type":1}"#)?.code == .malformed)
        #expect(failure("")?.code == .malformed)
        #expect(failure("{\"type\":\"chat\",\"payload\":" + String(repeating: "[", count: 100_000))?.code == .tooDeep)
        let whole = #"{"type":"chat","channel":"c","offset":1,"payload":{"a":[1,"\u00e9"]}}"#
        for length in 0..<whole.utf8.count { #expect(failure(String(whole.prefix(length)))?.code == .malformed) }
    }
}
