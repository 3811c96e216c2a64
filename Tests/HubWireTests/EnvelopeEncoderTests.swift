import Foundation
import HubBase
import HubWire
import Testing

/// What the server writes: exact bytes, in the order that docs/protocol.md shows.
@Suite struct EnvelopeEncoderTests {
    static let position = Position(epoch: Mark("x7x7x7x7")!, offset: 18, tag: Mark("m0m0m0m0")!)
    private let none = UnsafeRawBufferPointer(start: nil, count: 0)

    @Test("a chat goes out with its place, its sender and the payload as it came in")
    func chat() {
        let publication = Publication(
            messageClass: .chat, user: "alice", device: "phone", messageId: "0e4f", time: 1_796_011_158_488,
            payload: bytes(#"{ "text":"h\u0069" }"#))
        #expect(
            written { EnvelopeEncoder.publication(publication, channel: "room:42", position: Self.position, into: &$0) }
                == #"{"type":"chat","channel":"room:42","offset":18,"position":"x7x7x7x7.18.m0m0m0m0","user":"alice","device":"phone","#
                + #""time":1796011158488,"messageId":"0e4f","payload":{ "text":"h\u0069" }}"#)
    }

    @Test("an event without device or sender leaves those fields out")
    func event() {
        let publication = Publication(messageClass: .event, user: .empty, device: .empty, messageId: "e1", time: 5, payload: bytes("[]"))
        #expect(
            written { EnvelopeEncoder.publication(publication, channel: "c", position: Self.position, into: &$0) }
                == #"{"type":"event","channel":"c","offset":18,"position":"x7x7x7x7.18.m0m0m0m0","time":5,"messageId":"e1","payload":[]}"#)
    }

    @Test("typing and read have no place and no id")
    func ephemeral() {
        var publication = Publication(
            messageClass: .typing, user: "bob", device: "d", messageId: .empty, time: 0, payload: bytes(#"{"isTyping":true}"#))
        #expect(
            written { EnvelopeEncoder.publication(publication, channel: "c", position: nil, into: &$0) }
                == #"{"type":"typing","channel":"c","user":"bob","device":"d","time":0,"payload":{"isTyping":true}}"#)
        publication.messageClass = .read
        publication.payload = bytes(#"{"offset":3}"#)
        #expect(
            written { EnvelopeEncoder.publication(publication, channel: "c", position: nil, into: &$0) }
                == #"{"type":"read","channel":"c","user":"bob","device":"d","time":0,"payload":{"offset":3}}"#)
    }

    @Test(
        "names are escaped wherever they stand, and read back as they were",
        arguments: ["a\"b", "\\", "\"\"\"", "é\u{301}😀", "</script>", "a b"])
    func escapedNames(text: String) throws {
        let name = try #require(Name(validating: text))
        let publication = Publication(messageClass: .chat, user: name, device: name, messageId: name, time: 1, payload: bytes("{}"))
        let envelope = try object(written { EnvelopeEncoder.publication(publication, channel: name, position: .start, into: &$0) })
        for field in ["channel", "user", "device", "messageId"] {
            #expect(Array((envelope[field] as? String ?? "").utf8) == name.bytes)
        }
        let ack = try object(
            written {
                EnvelopeEncoder.ackPublish(
                    id: .literal("1"), channel: name, messageId: name, position: .start, isDuplicate: false, into: &$0)
            })
        #expect(ack["messageId"] as? String == text)
    }

    @Test("the longest publication stays inside what is reserved for it")
    func longest() throws {
        let name = Name(trusted: [UInt8](repeating: 1, count: 255))
        let position = Position(epoch: Mark("x7x7x7x7")!, offset: .max, tag: Mark("x7x7x7x7")!)
        let publication = Publication(messageClass: .typing, user: name, device: name, messageId: name, time: .max, payload: bytes("{}"))
        // `advance(by:)` traps when more was written than reserved.
        let text = written { EnvelopeEncoder.publication(publication, channel: name, position: position, into: &$0) }
        #expect(text.hasSuffix(",\"payload\":{}}"))
        let fixed = text.utf8.count - 4 * 255 * 6 - 2
        #expect(fixed < 256, "\(fixed)")
    }

    @Test("as MessagePack the longest publication stays inside too, and no name needs escaping there")
    func longestPacked() throws {
        let name = Name(trusted: [UInt8](repeating: 0x22, count: 255))
        let position = Position(epoch: Mark("x7x7x7x7")!, offset: .max, tag: Mark("x7x7x7x7")!)
        let publication = Publication(
            messageClass: .typing, user: name, device: name, messageId: name, time: .max, payload: [0x80], payloadFormat: .messagePack)
        var buffer = ByteBuffer(capacity: 16)
        EnvelopeEncoder.publication(publication, channel: name, position: position, format: .messagePack, into: &buffer)
        let written = buffer.copyBytes()
        #expect(written.count - 4 * 255 - 1 < 256)
        let tree = try #require(SlowMessagePack(written, depthMax: 2))
        #expect(try object(tree.json)["user"] as? String == String(repeating: "\"", count: 255))
        // The offset has 20 digits here: the position is longer than a short string may be.
        #expect(tree.json.contains("x7x7x7x7.18446744073709551615.x7x7x7x7"))
    }

    @Test("the longest answers stay inside what is reserved for them", arguments: WireFormat.allCases)
    func longestAnswers(format: WireFormat) {
        let name = Name(trusted: [UInt8](repeating: 1, count: 255))
        let position = Position(epoch: Mark("x7x7x7x7")!, offset: .max, tag: Mark("x7x7x7x7")!)
        let id = [UInt8](repeating: 0x31, count: 66)
        func fixed(names: Int, _ write: (UnsafeRawBufferPointer, inout ByteBuffer) -> Void) -> Int {
            id.withUnsafeBytes { id in writtenCount { write(id, &$0) } } - id.count - names * 255 * (format == .json ? 6 : 1)
        }
        let lengths = [
            fixed(names: 1) { EnvelopeEncoder.ack(id: $0, channel: name, format: format, into: &$1) },
            fixed(names: 1) { EnvelopeEncoder.ackConnect(id: $0, user: name, format: format, into: &$1) },
            fixed(names: 2) {
                EnvelopeEncoder.ackPublish(
                    id: $0, channel: name, messageId: name, position: position, isDuplicate: true, format: format, into: &$1)
            },
            fixed(names: 1) { EnvelopeEncoder.ackRead(id: $0, channel: name, offset: .max, format: format, into: &$1) },
            fixed(names: 0) { EnvelopeEncoder.ackPresence(id: $0, version: .max, format: format, into: &$1) },
            fixed(names: 0) { EnvelopeEncoder.pong(id: $0, format: format, into: &$1) },
        ]
        #expect(lengths.allSatisfy { $0 > 3 && $0 < 256 }, "\(lengths)")
    }

    @Test("acks carry the request's id verbatim, and none when there was none")
    func ids() {
        #expect(written { EnvelopeEncoder.ack(id: .literal("7"), channel: nil, into: &$0) } == #"{"type":"ack","id":7}"#)
        #expect(
            written { EnvelopeEncoder.ack(id: .literal(#""a\u0041""#), channel: "c", into: &$0) }
                == #"{"type":"ack","id":"a\u0041","channel":"c"}"#)
        #expect(written { EnvelopeEncoder.ack(id: none, channel: "c", into: &$0) } == #"{"type":"ack","channel":"c"}"#)
        #expect(written { EnvelopeEncoder.pong(id: none, into: &$0) } == #"{"type":"pong"}"#)
        #expect(written { EnvelopeEncoder.pong(id: .literal("9"), into: &$0) } == #"{"type":"pong","id":9}"#)
    }

    @Test("the ack of each request carries what the protocol's table says")
    func acks() {
        #expect(
            written { EnvelopeEncoder.ackConnect(id: .literal("1"), user: "alice", into: &$0) } == #"{"type":"ack","id":1,"user":"alice"}"#)
        #expect(
            written {
                EnvelopeEncoder.ackPublish(
                    id: .literal("2"), channel: "c", messageId: "m", position: Self.position, isDuplicate: false, into: &$0)
            } == #"{"type":"ack","id":2,"channel":"c","messageId":"m","offset":18,"position":"x7x7x7x7.18.m0m0m0m0"}"#)
        #expect(
            written {
                EnvelopeEncoder.ackPublish(
                    id: .literal("2"), channel: "c", messageId: "m", position: Self.position, isDuplicate: true, into: &$0)
            } == #"{"type":"ack","id":2,"channel":"c","messageId":"m","offset":18,"position":"x7x7x7x7.18.m0m0m0m0","duplicate":true}"#)
        #expect(
            written { EnvelopeEncoder.ackRead(id: .literal("3"), channel: "c", offset: 17, into: &$0) }
                == #"{"type":"ack","id":3,"channel":"c","offset":17}"#)
        #expect(written { EnvelopeEncoder.ackPresence(id: .literal("4"), version: 9, into: &$0) } == #"{"type":"ack","id":4,"version":9}"#)
    }

    @Test("watching answers with each user's state, and says when it's stale")
    func watch() {
        let users = [
            PresenceChange(user: "alice", status: .away, version: 9, lastSeen: 1_796_011_158_488),
            PresenceChange(user: "bob", status: .offline, version: 0, lastSeen: 0),
        ]
        let list =
            #"[{"user":"alice","status":"away","version":9,"lastSeen":1796011158488},{"user":"bob","status":"offline","version":0,"lastSeen":0}]"#
        #expect(
            written { EnvelopeEncoder.ackWatch(id: .literal("5"), users: users, isStale: false, into: &$0) }
                == #"{"type":"ack","id":5,"users":\#(list)}"#)
        #expect(
            written { EnvelopeEncoder.ackWatch(id: .literal("5"), users: [], isStale: true, into: &$0) }
                == #"{"type":"ack","id":5,"users":[],"stale":true}"#)
        #expect(written { EnvelopeEncoder.presence(users, into: &$0) } == #"{"type":"presence","changes":\#(list)}"#)
    }

    @Test("a subscribe ack has the channel's fields in itself, a list has them each, refusals among them")
    func subscribe() {
        let joined = SubscribeResult(channel: "room:42", result: .success(Self.position))
        let lost = SubscribeResult(channel: "a", result: .success(.start), recovered: false, reason: "the position is too old")
        let refused = SubscribeResult(channel: "staff:1", result: .failure(WireError(.forbidden, "no right to subscribe")))
        #expect(
            written { EnvelopeEncoder.ackSubscribe(id: .literal("1"), results: [joined], isList: false, into: &$0) }
                == #"{"type":"ack","id":1,"channel":"room:42","offset":18,"position":"x7x7x7x7.18.m0m0m0m0"}"#)
        #expect(
            written { EnvelopeEncoder.ackSubscribe(id: .literal("1"), results: [refused], isList: false, into: &$0) }
                == #"{"type":"error","id":1,"code":"forbidden","message":"no right to subscribe","retry":false}"#)
        #expect(
            written { EnvelopeEncoder.ackSubscribe(id: .literal("1"), results: [joined, lost, refused], isList: true, into: &$0) }
                == #"{"type":"ack","id":1,"channels":[{"channel":"room:42","offset":18,"position":"x7x7x7x7.18.m0m0m0m0"},"#
                + #"{"channel":"a","offset":0,"position":".0.","recovered":false,"reason":"the position is too old"},"#
                + #"{"channel":"staff:1","code":"forbidden","message":"no right to subscribe","retry":false}]}"#)
        #expect(
            written { EnvelopeEncoder.ackSubscribe(id: none, results: [], isList: true, into: &$0) } == #"{"type":"ack","channels":[]}"#)
    }

    @Test("an error carries code, message, whether to retry and when", arguments: ErrorCode.allCases)
    func errors(code: ErrorCode) throws {
        let envelope = try object(written { EnvelopeEncoder.error(id: .literal("4"), WireError(code, "no \"right\"\n"), into: &$0) })
        #expect(envelope["type"] as? String == "error")
        #expect(envelope["code"] as? String == code.rawValue)
        #expect(envelope["message"] as? String == "no \"right\"\n")
        #expect(envelope["retry"] as? Bool == code.mayRetry)
        #expect(envelope["retryAfter"] == nil)
    }

    @Test("an error's own answer about retrying wins over its code's")
    func retry() {
        #expect(
            written { EnvelopeEncoder.error(id: none, WireError(.rateLimited, "slow down", retryAfter: 1500), into: &$0) }
                == #"{"type":"error","code":"rateLimited","message":"slow down","retry":true,"retryAfter":1500}"#)
        #expect(
            written {
                EnvelopeEncoder.error(id: none, WireError(.unavailable, "history isn't served by this version", mayRetry: false), into: &$0)
            } == #"{"type":"error","code":"unavailable","message":"history isn't served by this version","retry":false}"#)
    }

    @Test("the welcome says who, where, how often to ping, the limits and what is subscribed already")
    func welcome() {
        let welcome = Welcome(
            connection: "k3k3k3k3.17", node: "n1", user: "alice", device: "phone", pingMilliseconds: 20_000, messageBytesMax: 65_536,
            channelsMax: 256,
            channels: [SubscribeResult(channel: "user:alice", result: .success(.start))], tokenExpires: 1_796_011_158_488)
        #expect(
            written { EnvelopeEncoder.welcome(welcome, into: &$0) }
                == #"{"type":"system","event":"welcome","connection":"k3k3k3k3.17","node":"n1","user":"alice","device":"phone","ping":20000,"#
                + #""limits":{"messageBytes":65536,"channels":256},"#
                + #""channels":{"user:alice":{"channel":"user:alice","offset":0,"position":".0."}},"tokenExpires":1796011158488}"#)
        var bare = welcome
        bare.channels = []
        bare.tokenExpires = nil
        #expect(
            written { EnvelopeEncoder.welcome(bare, into: &$0) }.hasSuffix(
                #","limits":{"messageBytes":65536,"channels":256},"channels":{}}"#))
    }

    @Test("system events")
    func system() {
        func text(_ event: SystemEvent) -> String { written { EnvelopeEncoder.system(event, into: &$0) } }
        #expect(text(.degraded(reason: "no \"Redis\"")) == #"{"type":"system","event":"degraded","reason":"no \"Redis\""}"#)
        #expect(text(.restored) == #"{"type":"system","event":"restored"}"#)
        #expect(
            text(.resync(channel: "c", position: Self.position, reason: "the history is gone"))
                == #"{"type":"system","event":"resync","channel":"c","position":"x7x7x7x7.18.m0m0m0m0","reason":"the history is gone"}"#)
        #expect(text(.drain(returnAfterMilliseconds: 1200)) == #"{"type":"system","event":"drain","returnAfter":1200}"#)
        #expect(text(.tokenExpiring(inMilliseconds: 60_000)) == #"{"type":"system","event":"tokenExpiring","in":60000}"#)
        #expect(
            text(.unsubscribed(channel: "c", code: .forbidden))
                == #"{"type":"system","event":"unsubscribed","channel":"c","code":"forbidden"}"#)
        #expect(text(.dropped(class: "typing", count: 12)) == #"{"type":"system","event":"dropped","class":"typing","count":12}"#)
    }

    private func object(_ text: String) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    }
}
